// What one step computes, in the terms of ops: rows of tokens, and which sequence each belongs to.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "tensor/kv_layout.h"
#include "tensor/tensor.h"

namespace rose {

// One sequence's share of a step: consecutive rows at consecutive positions.
struct StepSeq {
  int64_t first_row = 0;  // its first row in Step::tokens
  int64_t rows = 0;       // tokens computed for it in this step; >= 1
  int64_t start = 0;      // position of its first row; positions before it are in the KV cache
  // Page tables by KV group: pages[group][position / kPageSize] is a page, or -1 where a sliding
  // layer's page was freed (never read).
  std::vector<std::span<const int32_t>> pages;
};

// A row whose token is the draw of a step before (draw_queue.h) and not known yet.
struct FedRow {
  int64_t row = 0;   // of Step::tokens, where something stands that is not read
  int64_t draw = 0;  // of the last DrawQueue::Draw
};

struct Step {
  std::span<const int32_t> tokens = {};     // [tokens]
  std::span<const int32_t> positions = {};  // [tokens]
  std::span<const StepSeq> seqs = {};       // cover all rows, in order
  std::span<const int32_t> logit_rows =
      {};                            // rows whose logits are wanted, ascending; may be empty
  std::span<const FedRow> fed = {};  // only for op sets with a DrawQueue
};

// The KV cache of all layers, with its memory. The op set that allocated it must outlive it.
struct KvCache {
  std::vector<KvLayer> layers;
  std::vector<std::unique_ptr<void, void (*)(void*)>> memory;
};

}  // namespace rose

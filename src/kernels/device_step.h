// A step's inputs as kernels read them: ops/step.h in device memory.
#pragma once

#include <cstdint>

namespace rose {

constexpr int kMaxKvGroups = 2;

struct DeviceSeq {
  int32_t first_row = 0;  // in the step's rows
  int32_t rows = 0;
  int32_t start = 0;  // position of its first row
  int32_t unused = 0;
  int32_t pages_at[kMaxKvGroups] = {};  // where its page table of a KV group begins in `pages`
};

// All pointers are of the device, and the same for every step of one capacity (for graphs).
struct DeviceStep {
  const int32_t* tokens = nullptr;      // [rows]
  const int32_t* positions = nullptr;   // [rows]
  const int32_t* row_seq = nullptr;     // [rows], index into seqs
  const int32_t* logit_rows = nullptr;  // [logit_rows]
  const DeviceSeq* seqs = nullptr;      // [seqs]; they cover the rows in order
  // Page of a position: pages[seqs[s].pages_at[group] + position / 64]; -1 where it was freed.
  const int32_t* pages = nullptr;
  int64_t rows = 0;
  int64_t seq_count = 0;
  int64_t logit_row_count = 0;
};

}  // namespace rose

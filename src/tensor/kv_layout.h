// What a model's KV cache looks like: which layers share a page table, and how big a page is.
#pragma once

#include <cstdint>
#include <vector>

#include "tensor/tensor.h"

namespace rose {

// Layers that keep the same positions, so that they share one page table.
struct KvGroup {
  int64_t window = 0;       // keys a query can reach, itself included; 0 = all (full attention)
  std::vector<int> layers;  // model layers of this group
};

struct KvLayout {
  static constexpr int64_t kPageSize = 64;  // tokens

  std::vector<KvGroup> groups;
  int64_t kv_heads = 0;
  int64_t head_dim = 0;

  // Bytes of one page of a group, K and V of all its layers.
  int64_t PageBytes(int group, DType dtype) const {
    return 2 * kPageSize * kv_heads * head_dim * ElementBytes(dtype) *
           static_cast<int64_t>(groups[group].layers.size());
  }
};

// A page of a group to be copied to another of the same group, in all its layers.
struct PageCopy {
  int64_t group = 0;
  int32_t from = 0, to = 0;
};

// Copies of a step between the KV cache and its host tier, made in this order. Those of one kind
// do not depend on each other.
struct PageCopies {
  std::vector<PageCopy> to_host;    // from a page of the device to one of the host
  std::vector<PageCopy> to_device;  // and back
  std::vector<PageCopy> within;     // from one page of the device to another

  bool empty() const { return to_host.empty() && to_device.empty() && within.empty(); }
  void clear() {
    to_host.clear();
    to_device.clear();
    within.clear();
  }
};

// One layer's keys and values, as an op sees them.
struct KvLayer {
  int group = 0;
  int64_t window = 0;  // of its group
  Tensor keys;         // [pages, kv_heads, kPageSize, head_dim], F32 or BF16
  Tensor values;       // same shape
};

}  // namespace rose

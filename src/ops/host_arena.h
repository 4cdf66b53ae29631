// HostArena: memory for the activations of one step. Take() never frees; Reset() gives all back at
// once and keeps the memory, so that steps after the first allocate nothing.
#pragma once

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <memory>
#include <vector>

#include "tensor/tensor.h"

namespace rose {

class HostArena {
 public:
  // An uninitialised tensor, 64-byte aligned, valid until Reset. At least one byte is taken, so
  // that tensors without rows have an address too.
  Tensor Take(DType dtype, std::initializer_list<int64_t> shape);
  void Reset();

 private:
  struct FreeAligned {
    void operator()(std::byte* p) const;
  };
  struct Block {
    std::unique_ptr<std::byte[], FreeAligned> data;
    int64_t bytes = 0;
  };
  void AddBlock(int64_t bytes);

  std::vector<Block> blocks_;
  int64_t used_ = 0;   // bytes of the last block
  int64_t total_ = 0;  // bytes of all blocks
};

}  // namespace rose

// DeviceArena: device memory for the activations of a step, given back all at once.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>
#include <initializer_list>
#include <vector>

#include "device/memory.h"
#include "tensor/tensor.h"

namespace rose {

// Grows by cudaMalloc where a step needs more than all before, which a warm-up with the largest
// step makes rare, and keeps what it has. Reset and Release are safe while kernels that use the
// memory are still queued, as long as later users come behind them in the same stream.
class DeviceArena {
 public:
  // Checked: all memory is NaN (in F32 and BF16) when it is handed out, and a stripe around every
  // tensor must be so still at Reset, which then waits for the stream. For tests.
  DeviceArena(cudaStream_t stream, bool is_checked) : stream_(stream), is_checked_(is_checked) {}

  // An uninitialised tensor, 256-byte aligned, valid until Reset, or Release of an earlier mark.
  // Tensors without elements have an address too. Throws CheckFailure if there is no memory.
  Tensor Take(DType dtype, std::initializer_list<int64_t> shape);
  void* TakeBytes(int64_t bytes);

  // What an op takes for itself alone, behind its output: scratch of its kernels.
  struct Mark {
    size_t block = 0;
    int64_t used = 0;
  };
  Mark mark() const { return {current_, used_}; }
  void Release(const Mark& mark);

  void Reset();
  int64_t bytes() const;

 private:
  struct Block {
    DeviceMemory data;
    int64_t bytes = 0;
  };
  void AddBlock(int64_t bytes);
  void CheckStripes();

  cudaStream_t stream_;
  const bool is_checked_;
  std::vector<Block> blocks_;
  size_t current_ = 0;  // the block that is being handed out
  int64_t used_ = 0;    // of it
  std::vector<std::byte*> stripes_;
};

}  // namespace rose

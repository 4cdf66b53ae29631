// CudaDraws: the draw queue of CudaOps.
#pragma once

#include <cuda_runtime_api.h>

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "device/memory.h"
#include "device/op_trail.h"
#include "kernels/sampler/sampler.h"
#include "ops/draw_queue.h"
#include "ops/step.h"

namespace rose {

class CudaDraws : public DrawQueue {
 public:
  CudaDraws(cudaStream_t stream, OpTrail& trail);
  ~CudaDraws() override;
  CudaDraws(const CudaDraws&) = delete;
  CudaDraws& operator=(const CudaDraws&) = delete;

  void Draw(const Tensor& logits, std::span<const DrawSpec> draws) override;
  std::span<const int32_t> Wait() override;

  // Enqueues: the draws of the last Draw go where `fed` says in `tokens` (device memory).
  void Feed(std::span<const FedRow> fed, int32_t* tokens);

 private:
  // What a Draw needs until it is done; two take turns.
  struct Slot {
    PinnedMemory inputs;  // rows, edits and masks
    PinnedMemory tokens;
    int64_t input_bytes = 0, token_count = 0;
    int64_t draws = 0;
    DeviceMemory on_device;  // inputs
    DeviceMemory drawn;      // tokens
    PinnedMemory fed;
    DeviceMemory fed_on_device;
    int64_t fed_count = 0;
    cudaEvent_t done = nullptr;
    int64_t done_ops = 0;  // of the trail, that are done then
    cudaEvent_t fed_copied = nullptr;
  };

  void Reserve(Slot& slot, int64_t input_bytes, int64_t draws);

  cudaStream_t stream_;
  OpTrail& trail_;
  std::array<Slot, 2> slots_;
  int64_t submitted_ = 0, waited_ = 0;
  DeviceMemory workspace_;
  int64_t workspace_bytes_ = 0;
  DeviceMemory edited_;
  int64_t edited_bytes_ = 0;
};

}  // namespace rose

// StepUpload: takes a step's inputs to the device, in one copy.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "device/memory.h"
#include "kernels/device_step.h"
#include "ops/step.h"

namespace rose {

// Two page-locked blocks take turns, so that the next step is written while the copy of this one
// may still be queued. On the device there is one block: the copy waits, in the stream, for the
// kernels of the step before.
class StepUpload {
 public:
  explicit StepUpload(cudaStream_t stream);
  ~StepUpload();
  StepUpload(const StepUpload&) = delete;
  StepUpload& operator=(const StepUpload&) = delete;

  // Enqueues the copy. Waits only where the upload before the last is not done yet.
  void Upload(const Step& step);
  const DeviceStep& on_device() const { return on_device_; }

 private:
  struct Staging {
    PinnedMemory data;
    cudaEvent_t copied = nullptr;
  };
  void Grow(int64_t bytes);

  cudaStream_t stream_;
  Staging staging_[2];
  int next_ = 0;
  int64_t capacity_ = 0;  // bytes of each block
  DeviceMemory device_;
  DeviceStep on_device_;
};

}  // namespace rose

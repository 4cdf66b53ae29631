// The op set of an NVIDIA GPU. This header names no type of CUDA: programs without it include it
// too. docs/cuda.md describes memory, streams and the order of sums.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/status.h"
#include "device/op_record.h"
#include "ops/ops.h"

namespace rose {

// How weights come from files (weight_upload.h).
struct UploadConfig {
  int readers = 14;
  int pieces = 20;                          // page-locked buffers that readers fill in turn
  int64_t piece_bytes = int64_t{4} << 20;   // a multiple of 4
  int64_t batch_bytes = int64_t{64} << 20;  // of experts that are packed together
};

struct CudaConfig {
  // Every output is NaN before its kernel runs, and nothing may be written around it (a
  // ROSE_CHECK at the next step). Slow; for tests.
  bool is_checked = false;
  // Waits for every op before the next, and records no graphs: a fault names its op. Slow.
  bool is_sync = false;
  // OpTrailOptions::fault_at: where the device shall fail, for tests.
  std::string fault_at;
  // A call that waits so long for the GPU, while no norm begins, has met a kernel that never ends.
  // Zero = it may take any time.
  std::chrono::milliseconds hang_limit = std::chrono::seconds(60);
  // Told then, on a thread of its own; null = nobody is. Waits of steps throw at the same time.
  // What frees memory of the device waits for ever from then on: the process is to end within a
  // second or so, and to destroy nothing.
  std::function<void(const std::string& report)> on_hang;
  UploadConfig upload = {};
};

// Whether this process can compute on a GPU: built with CUDA, and there are driver and device.
bool IsCudaThere();

// kUnsupported, saying why, where IsCudaThere is false or the GPU is not of compute capability 9.0.
// The result uses the first GPU that the process sees (CUDA_VISIBLE_DEVICES).
Result<std::unique_ptr<OpSet>> CreateCudaOps(const CudaConfig& config);

// From here on the times of ops are taken, or no more; and those that were since the last call, in
// order; waits for the device. `ops` is of CreateCudaOps, between steps.
void TimeCudaOps(OpSet& ops, OpTiming timing);
std::vector<TimedOp> TakeCudaTimes(OpSet& ops);

// Bytes of device memory that are free now; 0 where there is no GPU.
int64_t FreeCudaBytes();
// Bytes of device memory that are in use, by this process and others.
int64_t UsedCudaBytes();

}  // namespace rose

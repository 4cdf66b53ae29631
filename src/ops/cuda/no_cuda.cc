// The CUDA op set of a program that was built without CUDA (cmake/cuda.cmake).
#include "ops/cuda/cuda_meter.h"
#include "ops/cuda/cuda_ops.h"

namespace rose {

bool IsCudaThere() {
  return false;
}

Result<std::unique_ptr<OpSet>> CreateCudaOps(const CudaConfig& /*config*/) {
  return Unsupported(
      "this program was built without CUDA; use --device cpu, or build it where nvcc is found "
      "(scripts/setup.sh --cuda brings one)");
}

void TimeCudaOps(OpSet& /*ops*/, OpTiming /*timing*/) {}

std::vector<TimedOp> TakeCudaTimes(OpSet& /*ops*/) {
  return {};
}

std::unique_ptr<OpMeter> CreateCudaMeter(OpSet& ops) {
  ROSE_CHECK(false, "a meter of CUDA for the op set ", ops.name());
}

int64_t FreeCudaBytes() {
  return 0;
}

int64_t UsedCudaBytes() {
  return 0;
}

}  // namespace rose

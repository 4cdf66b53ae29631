#include "ops/cpu_fast/cpu_fast_ops.h"

namespace rose {
namespace {

const KernelTable& KernelsFor(CpuIsa isa) {
  switch (isa) {
    case CpuIsa::kScalar:
      return kScalarKernels;
    case CpuIsa::kAvx2:
      return kAvx2Kernels;
    case CpuIsa::kAvx512:
      return kAvx512Kernels;
  }
  ROSE_CHECK(false, "isa ", static_cast<int>(isa));
}

}  // namespace

CpuFastOps::CpuFastOps(const CpuFastConfig& config)
    : pool_(config.threads > 0 ? config.threads : AvailableCpus()),
      kernels_(&KernelsFor(config.isa)),
      kv_dtype_(config.precision == Precision::kFast ? DType::kBf16 : DType::kF32) {
  ROSE_CHECK(config.isa <= DetectCpuIsa(), "this machine has no ", CpuIsaName(config.isa));
}

Result<Weight> CpuFastOps::Adopt(const Weight& host) {
  const int64_t cols = host.shape.empty() ? 0 : host.shape.back();
  if (host.format.packing == Packing::kMxfp4 && cols % 32 != 0) {
    return InvalidArgument("an mxfp4 weight of shape ", ShapeToString(host.shape),
                           " does not have whole blocks of 32 columns");
  }
  return host;
}

Result<KvCache> CpuFastOps::AllocateKv(const KvLayout& layout, const std::vector<int64_t>& pages) {
  return AllocateKvOnHost(layout, pages, kv_dtype_);
}

void CpuFastOps::BeginStep(const Step& /*step*/) {
  arena_.Reset();
}

}  // namespace rose

#include "ops/cpu/cpu_ops.h"

namespace rose {

Result<Weight> CpuOps::Adopt(const Weight& host) {
  return host;
}

Result<KvCache> CpuOps::AllocateKv(const KvLayout& layout, const std::vector<int64_t>& pages) {
  return AllocateKvOnHost(layout, pages, kv_dtype());
}

void CpuOps::BeginStep(const Step& /*step*/) {
  arena_.Reset();
}

}  // namespace rose

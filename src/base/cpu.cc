#include "base/cpu.h"

#include <sched.h>

#include <algorithm>

namespace rose {

std::string_view CpuIsaName(CpuIsa isa) {
  switch (isa) {
    case CpuIsa::kScalar:
      return "scalar";
    case CpuIsa::kAvx2:
      return "avx2";
    case CpuIsa::kAvx512:
      return "avx512";
  }
  ROSE_CHECK(false, "isa ", static_cast<int>(isa));
}

CpuIsa DetectCpuIsa() {
  // The compiler's run-time library also asks the operating system for the wide registers.
  __builtin_cpu_init();
  if (!__builtin_cpu_supports("avx2") || !__builtin_cpu_supports("fma") ||
      !__builtin_cpu_supports("f16c")) {
    return CpuIsa::kScalar;
  }
  if (!__builtin_cpu_supports("avx512f") || !__builtin_cpu_supports("avx512bw") ||
      !__builtin_cpu_supports("avx512dq") || !__builtin_cpu_supports("avx512vl")) {
    return CpuIsa::kAvx2;
  }
  return CpuIsa::kAvx512;
}

std::vector<CpuIsa> AvailableCpuIsas() {
  std::vector<CpuIsa> isas;
  for (CpuIsa isa : {CpuIsa::kScalar, CpuIsa::kAvx2, CpuIsa::kAvx512}) {
    if (isa <= DetectCpuIsa()) isas.push_back(isa);
  }
  return isas;
}

Result<CpuIsa> ChooseCpuIsa(std::string_view cap) {
  if (cap.empty()) return DetectCpuIsa();
  for (CpuIsa isa : AvailableCpuIsas()) {
    if (CpuIsaName(isa) == cap) return isa;
  }
  std::string known;
  for (CpuIsa isa : AvailableCpuIsas()) known += StrCat(known.empty() ? "" : ", ", CpuIsaName(isa));
  return InvalidArgument("ROSE_CPU_ISA is \"", cap, "\"; this machine has: ", known);
}

int AvailableCpus() {
  cpu_set_t set;
  CPU_ZERO(&set);
  if (sched_getaffinity(0, sizeof(set), &set) != 0) return 1;
  return std::max(1, CPU_COUNT(&set));
}

}  // namespace rose

// What the machine's CPU can do.
#pragma once

#include <string_view>
#include <vector>

#include "base/status.h"

namespace rose {

// Levels of vector instructions, each one including those before it.
enum class CpuIsa {
  kScalar,  // what every x86-64 has
  kAvx2,    // AVX2, FMA, F16C
  kAvx512,  // AVX-512 F, BW, DQ, VL
};

std::string_view CpuIsaName(CpuIsa isa);  // "scalar", "avx2", "avx512"
// The highest level that this machine and its operating system offer.
CpuIsa DetectCpuIsa();
// The detected level, capped at `cap` (a name from above; empty = no cap). An unknown name, or one
// above what the machine has, is kInvalidArgument.
Result<CpuIsa> ChooseCpuIsa(std::string_view cap);
// All levels up to the detected one.
std::vector<CpuIsa> AvailableCpuIsas();
// Processors that this process may run on; >= 1.
int AvailableCpus();

}  // namespace rose

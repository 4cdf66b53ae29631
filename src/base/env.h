// Every environment variable that the program reads. rose's own are for debugging only; what a user
// needs is a flag.
#pragma once

#include <string>

namespace rose {

struct Environment {
  // ROSE_CPU_ISA: caps the vector instructions of the cpu-fast ops, for tests and measurements:
  // scalar, avx2 or avx512. Empty = what the machine has.
  std::string cpu_isa;
  // NO_COLOR: not empty = no styles on a terminal (no-color.org).
  bool no_color = false;
};

Environment ReadEnvironment();

}  // namespace rose

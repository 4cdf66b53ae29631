// Every environment variable that the program reads. They are for debugging only; what a user needs
// is a flag. A command reads them once at its start.
#pragma once

#include <string>

namespace rose {

struct Environment {
  // ROSE_CPU_ISA: caps the vector instructions of the cpu-fast ops, for tests and measurements:
  // scalar, avx2 or avx512. Empty = what the machine has.
  std::string cpu_isa;
};

Environment ReadEnvironment();

}  // namespace rose

// Every environment variable that the program reads. rose's own are for debugging, and for secrets,
// which flags show to every user of a machine. A command reads them once at its start.
#pragma once

#include <string>

namespace rose {

struct Environment {
  // ROSE_CPU_ISA: caps the vector instructions of the cpu-fast ops, for tests and measurements:
  // scalar, avx2 or avx512. Empty = what the machine has.
  std::string cpu_isa;
  // ROSE_SYNC_OPS: not empty = a GPU ends every op before it is given the next, so that the report
  // of a fault names the op (docs/cuda.md). Slow.
  bool sync_ops = false;
  // ROSE_FAULT: where a GPU shall fail, such as gemm:3, or hang, gemm:3:hang; for tests of that
  // report.
  std::string fault_at;
  // ROSE_HANG_SECONDS: how long a GPU may show no sign of progress before the process ends with a
  // report; 0 = for ever. Empty = a minute.
  std::string hang_seconds;
  // NO_COLOR: not empty = no styles on a terminal (no-color.org).
  bool no_color = false;
  // ROSE_API_KEY: a key that requests to the server must show, beside those of its flags.
  std::string api_key;
};

Environment ReadEnvironment();

}  // namespace rose

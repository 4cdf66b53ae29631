#include "base/env.h"

#include <cstdlib>

namespace rose {

Environment ReadEnvironment() {
  const auto read = [](const char* name) {
    const char* value = std::getenv(name);
    return std::string(value == nullptr ? "" : value);
  };
  return {.cpu_isa = read("ROSE_CPU_ISA"),
          .sync_ops = !read("ROSE_SYNC_OPS").empty(),
          .fault_at = read("ROSE_FAULT"),
          .hang_seconds = read("ROSE_HANG_SECONDS"),
          .no_color = !read("NO_COLOR").empty(),
          .api_key = read("ROSE_API_KEY")};
}

}  // namespace rose

#include "server/openapi.h"

#include <cstdint>

// The assembler reads the file.
asm(".section .rodata\n"
    "rose_openapi_begin:\n"
    ".incbin \"" ROSE_OPENAPI
    "\"\n"
    "rose_openapi_end:\n"
    ".byte 0\n"
    ".previous\n");

extern "C" const char rose_openapi_begin[];
extern "C" const char rose_openapi_end[];

namespace rose {

std::string_view OpenApiText() {
  // Between symbols, since pointers into two arrays have no difference in the language.
  const auto begin = reinterpret_cast<uintptr_t>(rose_openapi_begin);
  const auto end = reinterpret_cast<uintptr_t>(rose_openapi_end);
  return {rose_openapi_begin, end - begin};
}

}  // namespace rose

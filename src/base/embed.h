// A file that travels within the program. The assembler reads it: a compiler would take minutes for
// a literal of some megabytes.
#pragma once

#include <cstdint>
#include <string_view>

// At namespace scope of a source file, outside any namespace. ROSE_EMBEDDED(name) is then the
// content of the file at `path`, a string literal; `name` is unique in the program. A zero byte
// follows it.
#define ROSE_EMBED(name, path)                 \
  asm(".section .rodata\n"                     \
      ".balign 8\n"                            \
      "rose_" #name                            \
      "_begin:\n"                              \
      ".incbin \"" path                        \
      "\"\n"                                   \
      "rose_" #name                            \
      "_end:\n"                                \
      ".byte 0\n"                              \
      ".previous\n");                          \
  extern "C" const char rose_##name##_begin[]; \
  extern "C" const char rose_##name##_end[]

#define ROSE_EMBEDDED(name) ::rose::TextBetween(rose_##name##_begin, rose_##name##_end)

namespace rose {

// Between symbols, since pointers into two arrays have no difference in the language.
inline std::string_view TextBetween(const char* begin, const char* end) {
  return {begin, reinterpret_cast<uintptr_t>(end) - reinterpret_cast<uintptr_t>(begin)};
}

}  // namespace rose

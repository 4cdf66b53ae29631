#include "tokenizer/o200k_ranks.h"

#include <cstdint>

// The assembler reads the file; a compiler would take minutes for a literal of 3.6 MB.
asm(".section .rodata\n"
    ".balign 8\n"
    "rose_o200k_ranks_begin:\n"
    ".incbin \"" ROSE_O200K_RANKS
    "\"\n"
    "rose_o200k_ranks_end:\n"
    ".byte 0\n"
    ".previous\n");

extern "C" const char rose_o200k_ranks_begin[];
extern "C" const char rose_o200k_ranks_end[];

namespace rose {

std::string_view O200kRanks() {
  // Between symbols, since pointers into two arrays have no difference in the language.
  const auto begin = reinterpret_cast<uintptr_t>(rose_o200k_ranks_begin);
  const auto end = reinterpret_cast<uintptr_t>(rose_o200k_ranks_end);
  return {rose_o200k_ranks_begin, end - begin};
}

}  // namespace rose

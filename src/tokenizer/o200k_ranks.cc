#include "tokenizer/o200k_ranks.h"

#include "base/embed.h"

ROSE_EMBED(o200k_ranks, ROSE_O200K_RANKS);

namespace rose {

std::string_view O200kRanks() {
  return ROSE_EMBEDDED(o200k_ranks);
}

}  // namespace rose

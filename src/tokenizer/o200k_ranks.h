// The ranks of o200k_base, as the published file, within the program.
#pragma once

#include <string_view>

namespace rose {

// data/o200k_base.tiktoken; the build checks its SHA-256.
std::string_view O200kRanks();

}  // namespace rose

// GBNF, llama.cpp's notation for grammars, as llguidance's Lark.
#pragma once

#include <string>
#include <string_view>

#include "base/status.h"

namespace rose {

// A rule that does not lead to itself becomes a terminal, which is matched exactly; only recursive
// rules stay rules, whose terminals are taken greedily. kInvalidArgument names the line at fault.
Result<std::string> GbnfToLark(std::string_view text);

}  // namespace rose

// UTF-8 by the Unicode standard: no surrogates, no overlong forms, nothing above U+10FFFF.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace rose {

bool IsValidUtf8(std::string_view text);
// Appends a code point; it must be no surrogate and at most 0x10FFFF.
void AppendUtf8(std::string& out, uint32_t code_point);

}  // namespace rose

// Unicode's normalization form C, for tokenizers that were trained on text in it.
#pragma once

#include <string>
#include <string_view>

namespace rose {

// `text` in NFC of Unicode 9.0, the version of the reference: `text` itself where nothing changes,
// else what `buffer` then holds. Bytes that are no UTF-8 stay as they are, and nothing composes
// over them. Linear but for runs of marks on one letter, which are sorted.
std::string_view ToNfc(std::string_view text, std::string& buffer);

}  // namespace rose

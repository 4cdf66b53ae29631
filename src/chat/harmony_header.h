// The header of a sampled Harmony message: what stands between <|start|> and <|message|>. Total:
// the model may write anything, and every header means something.
#pragma once

#include <string>
#include <string_view>

namespace rose {

// Markers inside a header's text, as bytes that valid UTF-8 never holds.
inline constexpr char kHeaderChannel = '\xfe';
inline constexpr char kHeaderConstrain = '\xff';

struct HarmonyHeader {
  std::string author = "assistant";
  std::string channel, recipient, content_type;  // empty = absent
  std::string dropped;                           // words without a meaning, joined by blanks
  std::string body;  // kUnfinished only: text that stands where a body should
};

enum class HeaderForm {
  kComplete,    // <|message|> followed: all words belong to the header
  kUnfinished,  // it did not: from the first word that no header would hold on, it is the body
};

// `names_author`: the header began with <|start|>, so that its first word is the author. A word
// that starts with "to=" is the recipient wherever it stands, the last other word the content type,
// and a marker inside a word ends it.
HarmonyHeader ParseHarmonyHeader(std::string_view text, bool names_author, HeaderForm form);

}  // namespace rose

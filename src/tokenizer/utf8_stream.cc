#include "base/utf8.h"
#include "tokenizer/tokenizer.h"

namespace rose {
namespace {

constexpr std::string_view kReplacement = "\xEF\xBF\xBD";  // U+FFFD

}  // namespace

std::string Utf8Stream::Push(std::string_view bytes) {
  held_ += bytes;
  std::string out;
  const auto size = static_cast<int64_t>(held_.size());
  int64_t pos = 0;
  while (pos < size) {
    const Utf8Char next = DecodeUtf8(held_, pos);
    if (next.state == Utf8Char::State::kIncomplete) break;
    if (next.state == Utf8Char::State::kValid) {
      out.append(held_, pos, next.length);
    } else {
      out += kReplacement;
    }
    pos += next.length;
  }
  held_.erase(0, pos);
  return out;
}

std::string Utf8Stream::Finish() {
  // What is held is one incomplete character, hence one maximal subpart.
  std::string out(held_.empty() ? std::string_view() : kReplacement);
  held_.clear();
  return out;
}

}  // namespace rose

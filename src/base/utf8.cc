#include "base/utf8.h"

namespace rose {
namespace {

// Bytes of the character that starts with `lead` (0 = none does), and the range that its second
// byte must lie in (Unicode 16, table 3-7).
struct Lead {
  int length = 0;
  unsigned char low = 0x80, high = 0xbf;
};

Lead ReadLead(unsigned char lead) {
  if (lead < 0x80) return {1};
  if (lead >= 0xc2 && lead <= 0xdf) return {2};
  if (lead == 0xe0) return {3, 0xa0, 0xbf};
  if (lead == 0xed) return {3, 0x80, 0x9f};
  if (lead >= 0xe1 && lead <= 0xef) return {3};
  if (lead == 0xf0) return {4, 0x90, 0xbf};
  if (lead >= 0xf1 && lead <= 0xf3) return {4};
  if (lead == 0xf4) return {4, 0x80, 0x8f};
  return {};
}

}  // namespace

Utf8Char DecodeUtf8(std::string_view text, int64_t pos) {
  const auto first = static_cast<unsigned char>(text[pos]);
  if (first < 0x80) return {Utf8Char::State::kValid, first, 1};
  const Lead lead = ReadLead(first);
  if (lead.length == 0) return {};
  uint32_t code_point = first & 0x7fu >> lead.length;
  for (int k = 1; k < lead.length; ++k) {
    if (pos + k == static_cast<int64_t>(text.size())) {
      return {.state = Utf8Char::State::kIncomplete, .length = k};
    }
    const auto byte = static_cast<unsigned char>(text[pos + k]);
    if (byte < (k == 1 ? lead.low : 0x80) || byte > (k == 1 ? lead.high : 0xbf)) {
      return {.length = k};
    }
    code_point = code_point << 6 | (byte & 0x3fu);
  }
  return {Utf8Char::State::kValid, code_point, lead.length};
}

bool IsValidUtf8(std::string_view text) {
  const auto size = static_cast<int64_t>(text.size());
  for (int64_t pos = 0; pos < size;) {
    const Utf8Char next = DecodeUtf8(text, pos);
    if (next.state != Utf8Char::State::kValid) return false;
    pos += next.length;
  }
  return true;
}

void AppendUtf8(std::string& out, uint32_t code_point) {
  if (code_point < 0x80) {
    out += static_cast<char>(code_point);
    return;
  }
  const int tail = code_point < 0x800 ? 1 : code_point < 0x10000 ? 2 : 3;
  constexpr unsigned char kLead[] = {0, 0xc0, 0xe0, 0xf0};
  out += static_cast<char>(kLead[tail] | code_point >> 6 * tail);
  for (int k = tail - 1; k >= 0; --k) out += static_cast<char>(0x80 | (code_point >> 6 * k & 0x3f));
}

std::string Printable(std::string_view text, std::string_view keep) {
  constexpr char kHex[] = "0123456789ABCDEF";
  std::string out;
  for (int64_t pos = 0; pos < static_cast<int64_t>(text.size());) {
    const Utf8Char next = DecodeUtf8(text, pos);
    const uint32_t c = next.code_point;
    const bool control = c < 0x20 || (c >= 0x7f && c < 0xa0);
    const std::string_view bytes = text.substr(pos, next.length);
    pos += next.length;
    if (keep.find(bytes[0]) != keep.npos || (next.state == Utf8Char::State::kValid && !control)) {
      out += bytes;
      continue;
    }
    for (const char byte : bytes) {
      out += "\\x";
      out += kHex[static_cast<uint8_t>(byte) >> 4];
      out += kHex[byte & 15];
    }
  }
  return out;
}

}  // namespace rose

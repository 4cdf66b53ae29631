#include "tokenizer/unicode_nfc.h"

#include <algorithm>
#include <array>
#include <iterator>
#include <vector>

#include "tokenizer/char_at.h"
#include "tokenizer/unicode_nfc_tables.h"

namespace rose {
namespace {

// Hangul syllables and their letters: arithmetic (Unicode 9, 3.12).
constexpr uint32_t kSyllables = 0xAC00, kLeads = 0x1100, kVowels = 0x1161, kTails = 0x11A7;
constexpr uint32_t kLeadCount = 19, kVowelCount = 21, kTailCount = 28;
constexpr uint32_t kSyllableCount = kLeadCount * kVowelCount * kTailCount;

// The entry of a table of ranges that holds `c`, or nullptr.
template <typename Table>
auto FindRange(const Table& table, uint32_t c) -> decltype(std::begin(table)) {
  const auto at = std::upper_bound(std::begin(table), std::end(table), c,
                                   [](uint32_t x, const auto& range) { return x < range.first; });
  if (at == std::begin(table) || c > (at - 1)->last) return nullptr;
  return at - 1;
}

// For most texts the answer is in this table: whether any of 256 neighbours is active.
constexpr int kBlockBits = 8;
using Blocks = std::array<bool, (0x110000 >> kBlockBits)>;

const Blocks& ActiveBlocks() {
  static const Blocks blocks = [] {
    Blocks out{};
    for (const NfcRange& range : kNfcActive)
      for (uint32_t b = range.first >> kBlockBits; b <= range.last >> kBlockBits; ++b)
        out[b] = true;
    return out;
  }();
  return blocks;
}

uint32_t ClassOfMark(uint32_t c) {
  const NfcClass* found = FindRange(kNfcClasses, c);
  return found ? found->value : 0;
}

void Decompose(uint32_t c, std::vector<uint32_t>& out) {
  if (c - kSyllables < kSyllableCount) {
    const uint32_t index = c - kSyllables, tail = index % kTailCount;
    out.push_back(kLeads + index / (kVowelCount * kTailCount));
    out.push_back(kVowels + index / kTailCount % kVowelCount);
    if (tail > 0) out.push_back(kTails + tail);
    return;
  }
  const auto* at = std::lower_bound(std::begin(kNfcDecompositions), std::end(kNfcDecompositions), c,
                                    [](const NfcPair& pair, uint32_t x) { return pair.whole < x; });
  if (at == std::end(kNfcDecompositions) || at->whole != c) return out.push_back(c);
  Decompose(at->first, out);  // at most three deep
  if (at->second != 0) Decompose(at->second, out);
}

// What the two become, or 0.
uint32_t Compose(uint32_t first, uint32_t second) {
  if (first - kLeads < kLeadCount && second - kVowels < kVowelCount)
    return kSyllables + ((first - kLeads) * kVowelCount + (second - kVowels)) * kTailCount;
  const uint32_t syllable = first - kSyllables, tail = second - kTails;
  if (syllable < kSyllableCount && syllable % kTailCount == 0 && tail > 0 && tail < kTailCount)
    return first + tail;
  const auto less = [](const NfcPair& a, const NfcPair& b) {
    return a.first != b.first ? a.first < b.first : a.second < b.second;
  };
  const NfcPair wanted{0, first, second};
  const auto* at =
      std::lower_bound(std::begin(kNfcCompositions), std::end(kNfcCompositions), wanted, less);
  const bool found = at != std::end(kNfcCompositions) && !less(wanted, *at);
  return found ? at->whole : 0;
}

// Marks between two starters stand in the order of their classes.
void OrderMarks(std::vector<uint32_t>& chars) {
  for (auto from = chars.begin(); from != chars.end();) {
    if (ClassOfMark(*from) == 0) {
      ++from;
      continue;
    }
    const auto to = std::find_if(from, chars.end(), [](uint32_t c) { return ClassOfMark(c) == 0; });
    std::stable_sort(from, to,
                     [](uint32_t a, uint32_t b) { return ClassOfMark(a) < ClassOfMark(b); });
    from = to;
  }
}

// `segment` is valid UTF-8; nothing composes over its ends.
std::string NfcOfSegment(std::string_view segment) {
  std::vector<uint32_t> chars;
  for (int64_t pos = 0; pos < static_cast<int64_t>(segment.size());) {
    const Utf8Char next = DecodeUtf8(segment, pos);
    Decompose(next.code_point, chars);
    pos += next.length;
  }
  OrderMarks(chars);
  size_t kept = 0, starter = chars.size();  // starter: its index, chars.size() = none yet
  uint32_t last_class = 0;
  for (const uint32_t c : chars) {
    const uint32_t cls = ClassOfMark(c);
    if (starter < kept && (kept == starter + 1 || last_class < cls)) {
      if (const uint32_t joined = Compose(chars[starter], c); joined != 0) {
        chars[starter] = joined;
        continue;
      }
    }
    if (cls == 0) starter = kept;
    last_class = cls;
    chars[kept++] = c;
  }
  std::string out;
  for (size_t i = 0; i < kept; ++i) AppendUtf8(out, chars[i]);
  return out;
}

// The character at `pos` may change or be changed.
bool IsActive(const Blocks& blocks, const CharAtPlace& c) {
  return c.valid && blocks[c.code_point >> kBlockBits] && FindRange(kNfcActive, c.code_point);
}

// From an ASCII character at `pos` to the last one of its run.
int64_t SkipAscii(std::string_view text, int64_t pos) {
  const auto size = static_cast<int64_t>(text.size());
  for (uint64_t word; pos + 8 <= size; pos += 7) {
    std::memcpy(&word, &text[pos], sizeof word);
    if ((word & 0x8080808080808080u) != 0) break;
  }
  while (pos + 1 < size && static_cast<uint8_t>(text[pos + 1]) < 0x80) ++pos;
  return pos;
}

CharAtPlace CharOf(std::string_view text, int64_t pos) {
  if (pos + 4 <= static_cast<int64_t>(text.size())) return CharAt(text, pos);
  const Utf8Char next = DecodeUtf8(text, pos);
  return {next.code_point, next.length, next.state == Utf8Char::State::kValid};
}

}  // namespace

std::string_view ToNfc(std::string_view text, std::string& buffer) {
  const Blocks& blocks = ActiveBlocks();
  const auto size = static_cast<int64_t>(text.size());
  bool changed = false;
  int64_t copied = 0;  // of `text`, once it has changed
  int64_t start = 0;   // of the last character that is not active: what follows may compose with it
  for (int64_t pos = 0; pos < size;) {
    if (static_cast<uint8_t>(text[pos]) < 0x80) {
      start = SkipAscii(text, pos);
      pos = start + 1;
      continue;
    }
    CharAtPlace next = CharOf(text, pos);
    if (!IsActive(blocks, next)) {
      start = next.valid ? pos : pos + next.length;
      pos += next.length;
      continue;
    }
    while (IsActive(blocks, next)) {
      pos += next.length;
      if (pos == size) break;
      next = CharOf(text, pos);
    }
    const std::string_view segment = text.substr(start, pos - start);
    if (const std::string nfc = NfcOfSegment(segment); nfc != segment) {
      if (!changed) buffer.clear();
      changed = true;
      buffer.append(text, copied, start - copied);
      buffer += nfc;
      copied = pos;
    }
    start = pos;
  }
  if (!changed) return text;
  buffer.append(text, copied);
  return buffer;
}

}  // namespace rose

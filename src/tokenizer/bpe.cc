#include "tokenizer/bpe.h"

#include <algorithm>
#include <bit>

#include "base/check.h"

namespace rose {
namespace {

// The smallest of `count` keys, a multiple of 8.
int32_t Smallest(const int32_t* keys, int64_t count) {
  typedef int32_t Lanes __attribute__((vector_size(16), may_alias));
  const auto* lanes = reinterpret_cast<const Lanes*>(keys);
  Lanes a = lanes[0], b = lanes[1];
  for (int64_t i = 2; i < count / 4; i += 2) {
    a = lanes[i] < a ? lanes[i] : a;
    b = lanes[i + 1] < b ? lanes[i + 1] : b;
  }
  a = b < a ? b : a;
  return std::min(std::min(a[0], a[1]), std::min(a[2], a[3]));
}

bool IsAscii(std::string_view text) {
  unsigned char all = 0;
  for (const char c : text) all |= static_cast<unsigned char>(c);
  return all < 0x80;
}

}  // namespace

MergeTable::MergeTable(int64_t merges)
    : slots_(std::bit_ceil(static_cast<uint64_t>(std::max<int64_t>(2 * merges, 16)))),
      joined_(merges) {}

void MergeTable::Set(int32_t left, int32_t right, int32_t rank, int32_t joined) {
  ROSE_CHECK(rank >= 0 && rank < std::ssize(joined_), "rank ", rank, " of ", joined_.size());
  const uint64_t pair = static_cast<uint64_t>(left) << 32 | static_cast<uint32_t>(right);
  slots_[SlotOf(pair)] = {pair, rank};
  joined_[rank] = joined;
}

int32_t MergeTable::Rank(int32_t left, int32_t right) const {
  return slots_[SlotOf(static_cast<uint64_t>(left) << 32 | static_cast<uint32_t>(right))].rank;
}

size_t MergeTable::SlotOf(uint64_t pair) const {
  const size_t mask = slots_.size() - 1;
  const uint64_t hash = pair * 0x9E3779B97F4A7C15u;
  size_t at = (hash ^ hash >> 32) & mask;
  while (slots_[at].rank != kNone && slots_[at].pair != pair) at = (at + 1) & mask;
  return at;
}

Merger::Merger(const Vocabulary& tokens, const MergeTable* merges)
    : tokens_(tokens), merges_(merges), byte_pairs_(1 << 16, kNoKey) {
  for (int byte = 0; byte < 256; ++byte) {
    const char bytes[] = {static_cast<char>(byte)};
    byte_ids_[byte] = tokens.Find({bytes, 1});
    ROSE_CHECK_GE(byte_ids_[byte], 0);
  }
  for (int pair = 0; pair < 1 << 16; ++pair) {
    const char bytes[] = {static_cast<char>(pair >> 8), static_cast<char>(pair)};
    const int32_t rank = merges ? merges->Rank(byte_ids_[pair >> 8], byte_ids_[pair & 255])
                                : tokens.Find({bytes, 2});
    if (rank >= 0) byte_pairs_[pair] = rank << kUnitBits;
  }
  FindWholeChars();
}

struct Merger::Units {
  int count = 0;
  std::array<char, kMostBytes + 8> bytes;            // with what ShortKey may read
  std::array<uint16_t, kMostUnits + 1> begin;        // [units + 1], offsets into bytes
  std::array<int32_t, kMostUnits> token;             // [units]
  alignas(16) std::array<int32_t, kMostUnits> keys;  // [units], of the pair with the next unit

  std::string_view Bytes(int unit, int stop) const {
    return {&bytes[begin[unit]], static_cast<size_t>(begin[stop] - begin[unit])};
  }
};

void Merger::StartWithBytes(std::string_view piece, Units& units) const {
  const auto size = static_cast<int>(piece.size());
  for (int unit = 0; unit < size; ++unit) {
    units.begin[unit] = static_cast<uint16_t>(unit);
    units.token[unit] = byte_ids_[static_cast<uint8_t>(piece[unit])];
  }
  for (int unit = 0; unit + 1 < size; ++unit) {
    const int pair = static_cast<uint8_t>(piece[unit]) << 8 | static_cast<uint8_t>(piece[unit + 1]);
    units.keys[unit] = byte_pairs_[pair] | unit;
  }
  units.count = size;
  units.begin[size] = static_cast<uint16_t>(size);
}

// False, with nothing of use in `units`, if the piece has other characters than those of chars_.
bool Merger::StartWithChars(std::string_view piece, Units& units) const {
  const auto size = static_cast<int>(piece.size());
  int count = 0;
  for (int pos = 0; pos < size; ++count) {
    if (count == kMostUnits) return false;
    const CharId next = CharAt(piece, pos);
    if (next.id < 0) return false;
    units.begin[count] = static_cast<uint16_t>(pos);
    units.token[count] = next.id;
    pos += next.length;
  }
  units.count = count;
  units.begin[count] = static_cast<uint16_t>(size);
  for (int unit = 0; unit + 1 < count; ++unit)
    units.keys[unit] = KeyOf(units, unit, unit + 1, unit + 2);
  return true;
}

// The token of the character at `pos`, or -1 if it is not one of chars_.
Merger::CharId Merger::CharAt(std::string_view piece, int pos) const {
  const auto byte = [&](size_t at) -> uint32_t {
    return at < piece.size() ? static_cast<uint8_t>(piece[at]) : 0;
  };
  const uint32_t first = byte(pos), second = byte(pos + 1), third = byte(pos + 2);
  if (first < 0x80) return {chars_[first], 1};
  if ((second & 0xC0) != 0x80) return {};
  if (first >= 0xC2 && first < 0xE0) return {chars_[(first & 0x1F) << 6 | (second & 0x3F)], 2};
  if (first < 0xE0 || first >= 0xF0 || (third & 0xC0) != 0x80) return {};
  const uint32_t c = (first & 0x0F) << 12 | (second & 0x3F) << 6 | (third & 0x3F);
  // Overlong forms have no token; surrogates are not in chars_.
  return {c < 0x800 ? -1 : chars_[c], 3};
}

int32_t Merger::KeyOf(const Units& units, int left, int right, int stop) const {
  const std::string_view bytes = units.Bytes(left, stop);
  int32_t rank;
  if (merges_) {
    rank = merges_->Rank(units.token[left], units.token[right]);
  } else if (bytes.size() <= 8) {
    rank = tokens_.FindShort(Vocabulary::ShortKey(bytes.data(), std::ssize(bytes)));
  } else {
    rank = tokens_.Find(bytes);
  }
  return rank < 0 ? kNoKey : rank << kUnitBits | left;
}

int64_t Merger::AppendUnits(Units& units, std::vector<int32_t>& ids) const {
  const int count = units.count;
  const int64_t padded = std::max(count - 1 + 7, 8) & -8;
  for (int unit = count - 1; unit < padded; ++unit) units.keys[unit] = kNoKey;
  std::array<uint8_t, kMostUnits + 1> next, previous;
  for (int unit = 0; unit <= count; ++unit) {
    next[unit] = static_cast<uint8_t>(unit + 1);
    previous[unit] = static_cast<uint8_t>(unit - 1);
  }
  int64_t looked_up = count - 1;
  for (int32_t best; (best = Smallest(units.keys.data(), padded)) < kNoKey; looked_up += 2) {
    const int unit = best & (kMostUnits - 1);
    const int right = next[unit];
    const int stop = next[right];
    units.token[unit] = Joined(best >> kUnitBits);
    next[unit] = static_cast<uint8_t>(stop);
    previous[stop] = static_cast<uint8_t>(unit);
    units.keys[right] = kNoKey;
    units.keys[unit] = stop < count ? KeyOf(units, unit, stop, next[stop]) : kNoKey;
    if (unit > 0) {
      const int left = previous[unit];
      units.keys[left] = KeyOf(units, left, unit, stop);
    }
  }
  for (int unit = 0; unit < count; unit = next[unit]) ids.push_back(units.token[unit]);
  return looked_up;
}

int64_t Merger::Append(std::string_view piece, std::vector<int32_t>& ids) const {
  const auto size = static_cast<int64_t>(piece.size());
  if (size <= kMostBytes) {
    Units units;
    std::memcpy(units.bytes.data(), piece.data(), piece.size());
    bool started = !IsAscii(piece) && StartWithChars(piece, units);
    if (!started && size <= kMostUnits) {
      StartWithBytes(piece, units);
      started = true;
    }
    if (started) return AppendUnits(units, ids);
  }
  return AppendLong(piece, ids);
}

}  // namespace rose

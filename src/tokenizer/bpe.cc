#include "tokenizer/bpe.h"

#include <algorithm>
#include <bit>

#include "base/check.h"
#include "tokenizer/bpe_units.h"

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
    if (rank < 0) continue;
    byte_pairs_[pair] = rank << kUnitBits;
    joined_bytes_.set(pair);
  }
  for (int32_t id = 0; id < tokens.ids(); ++id) {
    const std::string_view token = tokens.Bytes(id);
    for (int64_t pos = 0; pos + 1 < std::ssize(token); ++pos)
      open_bytes_.set(PairAt(token.data(), pos));
  }
  LookAtChars();
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

// Looks up the pairs of `units`, and merges them if there is anything to merge.
void Merger::AppendUnits(Units& units, IdWriter& out) const {
  int32_t lowest = kNoKey;
  for (int unit = 0; unit + 1 < units.count; ++unit) {
    const int begin = units.begin[unit];
    const bool is_bytes = units.begin[unit + 2] - begin == 2;
    const int32_t key = is_bytes ? byte_pairs_[PairAt(units.bytes, begin)] | unit
                                 : KeyOf(units, unit, unit + 1, unit + 2);
    units.keys[unit] = key;
    lowest = std::min(lowest, key);
  }
  out.looked_up += units.count - 1;
  if (lowest < kNoKey) return MergeUnits(units, out);
  for (int unit = 0; unit < units.count; ++unit) out.Add(units.token[unit]);
}

void Merger::MergeUnits(Units& units, IdWriter& out) const {
  const int count = units.count;
  const int64_t padded = std::max(count - 1 + 7, 8) & -8;
  for (int unit = count - 1; unit < padded; ++unit) units.keys[unit] = kNoKey;
  std::array<uint8_t, kMostUnits + 1> next, previous;
  for (int unit = 0; unit <= count; ++unit) {
    next[unit] = static_cast<uint8_t>(unit + 1);
    previous[unit] = static_cast<uint8_t>(unit - 1);
  }
  for (int32_t best; (best = Smallest(units.keys.data(), padded)) < kNoKey; out.looked_up += 2) {
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
  for (int unit = 0; unit < count; unit = next[unit]) out.Add(units.token[unit]);
}

// Cuts a long piece between bytes that no token holds both of, as long as there are such.
void Merger::AppendBytes(std::string_view piece, IdWriter& out) const {
  while (std::ssize(piece) > kMostUnits) {
    int cut = kMostUnits;
    while (cut > 0 && open_bytes_[PairAt(piece.data(), cut - 1)]) --cut;
    if (cut == 0) return AppendLong(piece, out);
    AppendFewBytes(piece.substr(0, cut), out);
    piece.remove_prefix(cut);
  }
  AppendFewBytes(piece, out);
}

void Merger::AppendFewBytes(std::string_view piece, IdWriter& out) const {
  Units units;
  units.bytes = piece.data();
  units.count = static_cast<int>(piece.size());
  for (int unit = 0; unit < units.count; ++unit) {
    units.begin[unit] = static_cast<uint16_t>(unit);
    units.token[unit] = byte_ids_[static_cast<uint8_t>(piece[unit])];
  }
  units.begin[units.count] = static_cast<uint16_t>(units.count);
  AppendUnits(units, out);
}

void Merger::Append(std::string_view piece, IdWriter& out) const {
  if (IsAscii(piece)) {
    AppendBytes(piece, out);
  } else {
    AppendChars(piece, out);
  }
}

}  // namespace rose

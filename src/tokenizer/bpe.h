// Byte-pair merging within one piece: always the pair of lowest rank, the leftmost among equals.
#pragma once

#include <array>
#include <bitset>
#include <cstdint>
#include <string_view>
#include <vector>

#include "tokenizer/vocabulary.h"

namespace rose {

// The merges of a tokenizer.json file: the rank of a pair is its place in the list.
class MergeTable {
 public:
  static constexpr int32_t kNone = -1;

  // With room for `merges` pairs; more must not be set.
  explicit MergeTable(int64_t merges);
  // `joined` is the id of what the pair becomes. A pair that is there already gets the later rank,
  // as in the reference.
  void Set(int32_t left, int32_t right, int32_t rank, int32_t joined);
  // kNone: they stay apart.
  int32_t Rank(int32_t left, int32_t right) const;
  int32_t Joined(int32_t rank) const { return joined_[rank]; }
  int64_t ranks() const { return std::ssize(joined_); }

 private:
  struct Slot {
    uint64_t pair = 0;
    int32_t rank = kNone;  // kNone: free
  };
  size_t SlotOf(uint64_t pair) const;

  std::vector<Slot> slots_;      // a power of two, at most half full
  std::vector<int32_t> joined_;  // [ranks]
};

// Merges pieces by the rules of one vocabulary. Thread-safe: nothing changes after construction.
class Merger {
 public:
  // Borrows both. Every byte must have a token. Without `merges` a pair's rank is the id of the
  // joined bytes.
  Merger(const Vocabulary& tokens, const MergeTable* merges);

  // Appends the ids of `piece`, not looking whether it is one token as a whole. Returns the number
  // of pairs that were looked up, which measures the work: about three a byte, and never more than
  // some twenty.
  int64_t Append(std::string_view piece, std::vector<int32_t>& ids) const;

 private:
  // A short piece has at most 64 units. Ranks are kept above the number of the pair's left unit, so
  // that the smallest key is the lowest rank, leftmost.
  static constexpr int kUnitBits = 6;
  static constexpr int kMostUnits = 1 << kUnitBits;
  static constexpr int32_t kNoKey = 0x7FFFFFFF & -kMostUnits;

  // What tokens do with a character; see bpe_chars.cc. Masks have a bit for every class of
  // characters that may come next.
  struct CharEntry {
    uint64_t open = 0;  // a token may have this character and the next
    uint64_t cut = 0;   // and begin or end within a character
    int32_t id = -1;    // the character's token, if merging may start from it
  };
  static constexpr int64_t kChars = 0x10000;
  static uint64_t MaskOf(uint32_t code_point) {
    return uint64_t{1} << (code_point * 0x9E3779B1u >> 26);
  }

  struct Units;
  struct Node;
  struct Long;

  void LookAtChars();
  void LookAtToken(std::string_view token, int32_t rank, const std::vector<int32_t>& last);
  void LookAtCutToken(std::string_view token);
  void OpenAfter(std::string_view bytes, uint64_t mask);
  int32_t LastRankAlone(std::string_view bytes) const;
  int32_t Rank(std::string_view joined, int32_t left, int32_t right) const {
    return merges_ ? merges_->Rank(left, right) : tokens_.Find(joined);
  }
  int32_t Joined(int32_t rank) const { return merges_ ? merges_->Joined(rank) : rank; }

  int64_t AppendBytes(std::string_view piece, std::vector<int32_t>& ids) const;
  int64_t AppendFewBytes(std::string_view piece, std::vector<int32_t>& ids) const;
  int64_t AppendChars(std::string_view piece, std::vector<int32_t>& ids) const;
  int64_t AppendPart(std::string_view part, Units& units, std::vector<int32_t>& ids) const;
  int64_t AppendUnits(Units& units, std::vector<int32_t>& ids) const;
  int32_t KeyOf(const Units& units, int left, int right, int stop) const;
  int64_t AppendLong(std::string_view piece, std::vector<int32_t>& ids) const;
  int64_t AppendByHeap(std::string_view piece, std::vector<int32_t>& ids) const;
  int64_t AppendByWindows(std::string_view piece, std::vector<int32_t>& ids) const;
  bool StayApart(int32_t left, int32_t right) const;

  const Vocabulary& tokens_;
  const MergeTable* merges_;
  std::array<int32_t, 256> byte_ids_;
  std::vector<int32_t> byte_pairs_;  // [first byte * 256 + second] -> key for unit 0, or kNoKey
  std::bitset<1 << 16> open_bytes_;  // the same index: whether any token has these neighbours
  std::vector<CharEntry> chars_;     // [code points below 0x10000]
};

}  // namespace rose

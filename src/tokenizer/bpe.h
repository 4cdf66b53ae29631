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

// Where ids are written, one after the other, into memory with room for one a byte that is merged.
struct IdWriter {
  int32_t* end = nullptr;  // after what is written
  int64_t looked_up = 0;   // pairs, which measures the work

  void Add(int32_t id) { *end++ = id; }
};

// Merges pieces by the rules of one vocabulary. Thread-safe: nothing changes after construction.
class Merger {
 public:
  // Borrows both. Every byte must have a token. Without `merges` a pair's rank is the id of the
  // joined bytes.
  Merger(const Vocabulary& tokens, const MergeTable* merges);

  // What must be readable after a piece, in bytes.
  static constexpr int64_t kReadAhead = 8;
  // Writes the ids of `piece`, not looking whether it is one token as a whole. What follows it in
  // memory is read, but does not count. Looks up about three pairs a byte, and never more than some
  // twenty.
  void Append(std::string_view piece, IdWriter& out) const;

 private:
  // A short piece has at most 64 units. Ranks are kept above the number of the pair's left unit, so
  // that the smallest key is the lowest rank, leftmost.
  static constexpr int kUnitBits = 6;
  static constexpr int kMostUnits = 1 << kUnitBits;
  static constexpr int32_t kNoKey = 0x7FFFFFFF & -kMostUnits;

  // Characters as a set that may hold more than were added: by a hash of themselves, and of the 64
  // that they are among (4,096 beyond the Basic Multilingual Plane).
  struct CharSet {
    uint64_t chars = 0, blocks = 0;

    void Add(uint32_t code_point) {
      chars |= CharBit(code_point);
      blocks |= BlockBit(code_point);
    }
  };
  static constexpr uint32_t kBmp = 0x10000;
  static uint64_t HashBit(uint32_t number) { return uint64_t{1} << (number * 0x9E3779B1u >> 26); }
  static uint64_t CharBit(uint32_t code_point) { return HashBit(code_point); }
  static uint64_t BlockBit(uint32_t code_point) {
    return HashBit(code_point < kBmp ? code_point >> 6 : kBmp + (code_point >> 12));
  }
  // What tokens do with a character; see bpe_char_rules.cc. Masks are of what may come next.
  struct CharEntry {
    uint64_t open = 0;        // a token may have this character and the next
    uint64_t spell_this = 0;  // in bytes, if that is the next
    uint64_t spell_next = 0;  // after this character
    int32_t id = -1;          // its token, if merging may start from it
    bool operator==(const CharEntry&) const = default;
  };
  // The same of what a character's last byte does, for tokens that begin within a character, and
  // for all beyond the Basic Multilingual Plane. Masks are of blocks.
  struct EndEntry {
    uint64_t open = 0, spell_next = 0;
  };
  struct NextChars {
    CharSet all, late;  // late: those that are whole after the token
  };

  struct Units;
  struct Part;
  struct Node;
  struct Long;

  void LookAtChars();
  void LookAtToken(std::string_view token, int32_t rank, const std::vector<int32_t>& last);
  void OpenAfter(std::string_view before, const NextChars& next, int32_t rank,
                 const std::vector<int32_t>& last);
  int32_t LastRankAlone(std::string_view bytes) const;
  int32_t Rank(std::string_view joined, int32_t left, int32_t right) const {
    return merges_ ? merges_->Rank(left, right) : tokens_.Find(joined);
  }
  int32_t Joined(int32_t rank) const { return merges_ ? merges_->Joined(rank) : rank; }
  const CharEntry& EntryOf(uint32_t code_point) const {
    return chars_[code_point < kBmp ? char_places_[code_point] : 0];
  }

  void AppendBytes(std::string_view piece, IdWriter& out) const;
  void AppendFewBytes(std::string_view piece, IdWriter& out) const;
  void AppendChars(std::string_view piece, IdWriter& out) const;
  void AppendSpelled(std::string_view character, IdWriter& out) const;
  void AppendUnits(Units& units, IdWriter& out) const;
  void MergeUnits(Units& units, IdWriter& out) const;
  int32_t KeyOf(const Units& units, int left, int right, int stop) const;
  void AppendLong(std::string_view piece, IdWriter& out) const;
  void AppendByHeap(std::string_view piece, IdWriter& out) const;
  void AppendByWindows(std::string_view piece, IdWriter& out) const;
  bool StayApart(int32_t left, int32_t right) const;

  const Vocabulary& tokens_;
  const MergeTable* merges_;
  std::array<int32_t, 256> byte_ids_;
  std::vector<int32_t> byte_pairs_;    // [first byte * 256 + second] -> key for unit 0, or kNoKey
  std::bitset<1 << 16> joined_bytes_;  // the same index: whether there is a key
  std::bitset<1 << 16> open_bytes_;    // the same index: whether any token has these neighbours
  std::vector<uint16_t> char_places_;  // [kBmp] -> place in chars_
  std::vector<CharEntry> chars_;       // the first is that of all others
  std::array<EndEntry, 256> ends_;     // [last byte of a character]
};

}  // namespace rose

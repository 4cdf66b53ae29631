// Byte-pair merging within one piece: always the pair of lowest rank, the leftmost among equals.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>
#include <vector>

#include "tokenizer/vocabulary.h"

namespace rose {

// What two neighbours become.
struct Merge {
  static constexpr int32_t kNone = 0x7FFFFFFF;
  int32_t rank = kNone;  // kNone: they stay apart
  int32_t id = -1;       // of the joined token
};

// The merges of a tokenizer.json file: the rank of a pair is its place in the list.
class MergeTable {
 public:
  explicit MergeTable(int64_t merges);
  // A pair that is there already gets the later rank, as in the reference.
  void Set(int32_t left, int32_t right, Merge merge);
  Merge Find(int32_t left, int32_t right) const;

 private:
  struct Slot {
    uint64_t pair = 0;
    Merge merge;  // id -1: free
  };
  size_t SlotOf(uint64_t pair) const;

  std::vector<Slot> slots_;  // a power of two, at most half full
};

// The rules by which pieces are merged. Borrows all three.
struct BpeRules {
  const Vocabulary* tokens = nullptr;
  const MergeTable* merges = nullptr;  // nullptr: a pair's rank is the id of the joined bytes
  const std::array<int32_t, 256>* byte_ids = nullptr;
};

// Appends the ids of `piece`, not looking whether it is one token as a whole. Short pieces take a
// plain loop; long ones O(n log n) time.
void MergePiece(const BpeRules& rules, std::string_view piece, std::vector<int32_t>& ids);

}  // namespace rose

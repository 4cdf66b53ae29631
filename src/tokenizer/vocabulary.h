// Vocabulary: bytes of tokens by id, and ids by bytes. Flat memory, built once, then read only.
#pragma once

#include <bit>
#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"

namespace rose {

class Vocabulary {
 public:
  // Ids lie in [0, kMaxTokens): far more than any model has, far less than would exhaust memory.
  static constexpr int64_t kMaxTokens = 1 << 22;

  // Room for `tokens` tokens; more may be added.
  explicit Vocabulary(int64_t tokens = 0);

  // Refuses empty tokens, ids out of range, and ids or bytes that are there already.
  Status Add(std::string_view bytes, int64_t id);

  // The id, or -1.
  int32_t Find(std::string_view bytes) const;
  // An empty view if the id has no entry.
  std::string_view Bytes(int32_t id) const;
  // One more than the largest id with an entry.
  int64_t ids() const { return static_cast<int64_t>(spans_.size()); }
  int64_t tokens() const { return tokens_; }

 private:
  struct Span {
    int64_t begin = 0;
    int32_t length = 0;  // 0: no entry
  };
  struct Slot {
    uint32_t tag = 0;  // the hash's upper half
    int32_t id = -1;   // -1: free
  };

  static uint64_t Hash(std::string_view bytes);
  // Where `bytes` are, or the free slot in which they belong.
  size_t SlotOf(std::string_view bytes, uint64_t hash) const;
  void Grow(int64_t slots);

  std::string blob_;         // all tokens one after the other
  std::vector<Span> spans_;  // [ids]
  std::vector<Slot> slots_;  // a power of two, at most half full
  int64_t tokens_ = 0;
};

}  // namespace rose

// Vocabulary: bytes of tokens by id, and ids by bytes. Flat memory, built once, then read only: add
// all tokens, then index them, then look up.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"

namespace rose {

class Vocabulary {
 public:
  // Ids lie in [0, kMaxTokens): far more than any model has, far less than would exhaust memory.
  static constexpr int64_t kMaxTokens = 1 << 22;

  Vocabulary() = default;
  // With room for `tokens` tokens; more may be added.
  explicit Vocabulary(int64_t tokens);

  // Refuses an empty token, an id out of range, and an id that is there already.
  Status Add(std::string_view bytes, int64_t id);
  // Makes the tokens findable. Refuses two tokens of the same bytes.
  Status Index();

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
  // Most tokens of a text have at most eight bytes. They are compared within their slot, so that
  // finding one touches one line of memory and not three.
  struct Key {
    uint64_t word = 0;   // the bytes themselves, or the hash of more than eight
    int32_t length = 0;  // in bytes
    bool operator==(const Key&) const = default;
  };
  struct Slot {
    Key key;
    int32_t id = -1;  // -1: free
  };

  static Key KeyOf(std::string_view bytes);
  size_t HomeOf(const Key& key) const;
  // Where `bytes` are, or the free slot in which they belong.
  size_t SlotOf(std::string_view bytes, const Key& key) const;

  std::string blob_;         // all tokens one after the other
  std::vector<Span> spans_;  // [ids]
  std::vector<Slot> slots_;  // a power of two, at most half full; empty before Index
  int64_t tokens_ = 0;
  size_t longest_ = 0;  // bytes of the longest token
};

}  // namespace rose

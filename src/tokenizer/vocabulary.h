// Vocabulary: bytes of tokens by id, and ids by bytes. Flat memory, built once, then read only: add
// all tokens, then index them, then look up.
#pragma once

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

  Vocabulary() = default;
  // With room for `tokens` tokens; more may be added.
  explicit Vocabulary(int64_t tokens);

  // Refuses an empty token, an id out of range, and an id that is there already.
  Status Add(std::string_view bytes, int64_t id);
  // Makes the tokens findable. Refuses two tokens of the same bytes.
  Status Index();

  // Bytes in the form in which they are looked for. Most tokens of a text have at most eight bytes;
  // those are compared within their slot, so that finding one touches one line of memory.
  struct Key {
    uint64_t word = 0;   // the bytes themselves, zeros above, or the hash of more than eight
    int32_t length = 0;  // in bytes
    bool operator==(const Key&) const = default;
  };
  static Key KeyOf(std::string_view bytes);
  // The same for `length` <= 8 bytes, of which the first eight may be read.
  static Key ShortKey(const char* bytes, int64_t length) {
    uint64_t word;
    std::memcpy(&word, bytes, sizeof word);
    return {length > 0 ? word & ~uint64_t{0} >> (64 - 8 * length) : 0,
            static_cast<int32_t>(length)};
  }

  // The id, or -1.
  int32_t Find(std::string_view bytes) const {
    return static_cast<int64_t>(bytes.size()) > longest_ ? -1 : Find(KeyOf(bytes), bytes);
  }
  int32_t Find(const Key& key, std::string_view bytes) const {
    return key.length > 8 ? FindLong(key, bytes) : FindShort(key);
  }
  // For a key of at most eight bytes.
  int32_t FindShort(const Key& key) const {
    const uint64_t hash = HashOf(key);
    if (!MayHave(hash)) return -1;
    for (size_t at = hash & mask_;; at = (at + 1) & mask_) {
      const Slot& slot = slots_[at];
      if (slot.id < 0 || (slot.word == key.word && slot.length == key.length)) return slot.id;
    }
  }
  // False: there is no such token. Else asks for the memory that Find will read.
  bool Prefetch(const Key& key) const {
    const uint64_t hash = HashOf(key);
    if (!MayHave(hash)) return false;
    __builtin_prefetch(&slots_[hash & mask_]);
    return true;
  }
  // An empty view if the id has no entry.
  std::string_view Bytes(int32_t id) const;
  // One more than the largest id with an entry.
  int64_t ids() const { return static_cast<int64_t>(spans_.size()); }
  int64_t tokens() const { return tokens_; }
  // Bytes of the longest token.
  int64_t longest() const { return longest_; }

 private:
  struct Span {
    int64_t begin = 0;
    int32_t length = 0;  // 0: no entry
  };
  struct Slot {
    uint64_t word = 0;
    int32_t length = 0;
    int32_t id = -1;  // -1: free
  };

  static uint64_t Mix(uint64_t a, uint64_t b) {
    const auto product = static_cast<unsigned __int128>(a) * b;
    return static_cast<uint64_t>(product) ^ static_cast<uint64_t>(product >> 64);
  }
  static uint64_t HashOf(const Key& key) {
    return Mix(key.word ^ static_cast<uint64_t>(key.length), 0x9E3779B97F4A7C15u);
  }
  // False: no token has this hash. Most pairs of a piece being merged are no token, and the filter
  // that says so fits into a near cache, as the slots do not.
  bool MayHave(uint64_t hash) const {
    const uint64_t bits = FilterBits(hash);
    return (filter_[FilterPlace(hash)] & bits) == bits;
  }
  size_t FilterPlace(uint64_t hash) const { return (hash >> 32) & filter_mask_; }
  static uint64_t FilterBits(uint64_t hash) {
    return uint64_t{1} << (hash >> 58) | uint64_t{1} << (hash >> 26 & 63);
  }
  int32_t FindLong(const Key& key, std::string_view bytes) const;
  // Where `bytes` are, or the free slot in which they belong.
  size_t SlotOf(const Key& key, std::string_view bytes) const;

  std::string blob_;                                         // all tokens one after the other
  std::vector<Span> spans_;                                  // [ids]
  std::vector<Slot> slots_ = std::vector<Slot>(1);           // a power of two, at most half full
  size_t mask_ = 0;                                          // of a place in slots_
  std::vector<uint64_t> filter_ = std::vector<uint64_t>(1);  // two bits a token, in one word
  uint64_t filter_mask_ = 0;                                 // of a place in filter_
  int64_t tokens_ = 0;
  int64_t longest_ = 0;
};

}  // namespace rose

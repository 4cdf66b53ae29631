#include "tokenizer/vocabulary.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <limits>

namespace rose {
namespace {

template <typename Word>
uint64_t Load(const char* bytes) {
  Word word;
  std::memcpy(&word, bytes, sizeof word);
  return word;
}

uint64_t Mix(uint64_t a, uint64_t b) {
  const auto product = static_cast<unsigned __int128>(a) * b;
  return static_cast<uint64_t>(product) ^ static_cast<uint64_t>(product >> 64);
}

constexpr uint64_t kSeed = 0x9E3779B97F4A7C15u;
constexpr uint64_t kFactor = 0xD6E8FEB86659FD93u;

}  // namespace

Vocabulary::Vocabulary(int64_t tokens) {
  blob_.reserve(tokens * 8);
  spans_.reserve(tokens);
}

Status Vocabulary::Add(std::string_view bytes, int64_t id) {
  if (bytes.empty()) return InvalidArgument("token ", id, " is empty");
  if (id < 0 || id >= kMaxTokens) {
    return InvalidArgument("token id ", id, " is outside 0 to ", kMaxTokens - 1);
  }
  if (bytes.size() > static_cast<size_t>(std::numeric_limits<int32_t>::max())) {
    return InvalidArgument("token ", id, " has ", bytes.size(), " bytes");
  }
  if (!Bytes(static_cast<int32_t>(id)).empty()) {
    return InvalidArgument("two tokens have the id ", id);
  }
  if (id >= ids()) spans_.resize(id + 1);
  spans_[id] = {static_cast<int64_t>(blob_.size()), static_cast<int32_t>(bytes.size())};
  blob_ += bytes;
  longest_ = std::max(longest_, bytes.size());
  ++tokens_;
  return Status();
}

Status Vocabulary::Index() {
  slots_.assign(std::bit_ceil(static_cast<uint64_t>(2 * tokens_ + 1)), {});
  // Slots are far apart in memory; asked for a block at a time, they arrive side by side.
  constexpr int64_t kBlock = 32;
  std::array<Key, kBlock> keys;
  for (int64_t begin = 0; begin < ids(); begin += kBlock) {
    const int64_t end = std::min(begin + kBlock, ids());
    for (int64_t id = begin; id < end; ++id) {
      keys[id - begin] = KeyOf(Bytes(static_cast<int32_t>(id)));
      __builtin_prefetch(&slots_[HomeOf(keys[id - begin])], /*rw=*/1);
    }
    for (auto id = static_cast<int32_t>(begin); id < end; ++id) {
      const std::string_view bytes = Bytes(id);
      if (bytes.empty()) continue;
      Slot& slot = slots_[SlotOf(bytes, keys[id - begin])];
      if (slot.id >= 0) {
        return InvalidArgument("tokens ", slot.id, " and ", id, " are the same bytes");
      }
      slot = {keys[id - begin], id};
    }
  }
  return Status();
}

int32_t Vocabulary::Find(std::string_view bytes) const {
  if (bytes.size() > longest_ || slots_.empty()) return -1;
  return slots_[SlotOf(bytes, KeyOf(bytes))].id;
}

std::string_view Vocabulary::Bytes(int32_t id) const {
  if (id < 0 || id >= ids()) return {};
  return std::string_view(blob_).substr(spans_[id].begin, spans_[id].length);
}

// Loads overlap where the length is no power of two: for a given length no two texts of at most
// eight bytes have the same word.
Vocabulary::Key Vocabulary::KeyOf(std::string_view bytes) {
  const char* data = bytes.data();
  const size_t size = bytes.size();
  uint64_t word = 0;
  if (size > 8) {
    const char* last = data + size - 8;
    for (word = kSeed; data < last; data += 8) word = Mix(word ^ Load<uint64_t>(data), kFactor);
    word = Mix(word ^ Load<uint64_t>(last), kFactor);
  } else if (size >= 4) {
    word = Load<uint32_t>(data) | Load<uint32_t>(data + size - 4) << 32;
  } else if (size > 0) {
    word = Load<uint8_t>(data) | Load<uint8_t>(data + size / 2) << 8 |
           Load<uint8_t>(data + size - 1) << 16;
  }
  return {word, static_cast<int32_t>(size)};
}

size_t Vocabulary::HomeOf(const Key& key) const {
  return Mix(key.word ^ static_cast<uint64_t>(key.length), kSeed) & (slots_.size() - 1);
}

size_t Vocabulary::SlotOf(std::string_view bytes, const Key& key) const {
  size_t at = HomeOf(key);
  while (slots_[at].id >= 0 &&
         (slots_[at].key != key || (key.length > 8 && Bytes(slots_[at].id) != bytes))) {
    at = (at + 1) & (slots_.size() - 1);
  }
  return at;
}

}  // namespace rose

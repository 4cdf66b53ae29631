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
  longest_ = std::max(longest_, static_cast<int64_t>(bytes.size()));
  ++tokens_;
  return Status();
}

Status Vocabulary::Index() {
  slots_.assign(std::bit_ceil(static_cast<uint64_t>(2 * tokens_ + 1)), {});
  mask_ = slots_.size() - 1;
  // Eight bits a token: one in twenty of what is not there passes.
  filter_.assign(std::bit_ceil(static_cast<uint64_t>(8 * tokens_ + 64)) / 64, 0);
  filter_mask_ = filter_.size() - 1;
  // Slots are far apart in memory; asked for a block at a time, they arrive side by side.
  constexpr int64_t kBlock = 32;
  std::array<Key, kBlock> keys;
  for (int64_t begin = 0; begin < ids(); begin += kBlock) {
    const int64_t end = std::min(begin + kBlock, ids());
    for (int64_t id = begin; id < end; ++id) {
      keys[id - begin] = KeyOf(Bytes(static_cast<int32_t>(id)));
      __builtin_prefetch(&slots_[HashOf(keys[id - begin]) & mask_]);
    }
    for (auto id = static_cast<int32_t>(begin); id < end; ++id) {
      const std::string_view bytes = Bytes(id);
      if (bytes.empty()) continue;
      const Key& key = keys[id - begin];
      Slot& slot = slots_[SlotOf(key, bytes)];
      if (slot.id >= 0) {
        return InvalidArgument("tokens ", slot.id, " and ", id, " are the same bytes");
      }
      slot = {key.word, key.length, id};
      const uint64_t hash = HashOf(key);
      filter_[FilterPlace(hash)] |= FilterBits(hash);
    }
  }
  return Status();
}

int32_t Vocabulary::FindLong(const Key& key, std::string_view bytes) const {
  if (key.length > longest_ || !MayHave(HashOf(key))) return -1;
  return slots_[SlotOf(key, bytes)].id;
}

std::string_view Vocabulary::Bytes(int32_t id) const {
  if (id < 0 || id >= ids()) return {};
  return std::string_view(blob_).substr(spans_[id].begin, spans_[id].length);
}

// Loads overlap where the length is no power of two: the same bytes are put in the same place
// twice.
Vocabulary::Key Vocabulary::KeyOf(std::string_view bytes) {
  const char* data = bytes.data();
  const size_t size = bytes.size();
  uint64_t word = 0;
  if (size > 8) {
    const char* last = data + size - 8;
    for (word = kSeed; data < last; data += 8) word = Mix(word ^ Load<uint64_t>(data), kFactor);
    word = Mix(word ^ Load<uint64_t>(last), kFactor);
  } else if (size >= 4) {
    word = Load<uint32_t>(data) | Load<uint32_t>(data + size - 4) << 8 * (size - 4);
  } else if (size > 0) {
    word = Load<uint8_t>(data) | Load<uint8_t>(data + size / 2) << 8 * (size / 2) |
           Load<uint8_t>(data + size - 1) << 8 * (size - 1);
  }
  return {word, static_cast<int32_t>(size)};
}

size_t Vocabulary::SlotOf(const Key& key, std::string_view bytes) const {
  const auto is_other = [&](const Slot& slot) {
    return slot.word != key.word || slot.length != key.length ||
           (key.length > 8 && Bytes(slot.id) != bytes);
  };
  size_t at = HashOf(key) & mask_;
  while (slots_[at].id >= 0 && is_other(slots_[at])) at = (at + 1) & mask_;
  return at;
}

}  // namespace rose

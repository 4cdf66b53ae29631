#include "tokenizer/vocabulary.h"

#include <algorithm>
#include <limits>

namespace rose {
namespace {

// `count` <= 8 bytes as a number.
uint64_t Load(const char* bytes, size_t count) {
  uint64_t word = 0;
  std::memcpy(&word, bytes, count);
  return word;
}

uint64_t Mix(uint64_t a, uint64_t b) {
  const auto product = static_cast<unsigned __int128>(a) * b;
  return static_cast<uint64_t>(product) ^ static_cast<uint64_t>(product >> 64);
}

}  // namespace

Vocabulary::Vocabulary(int64_t tokens) {
  blob_.reserve(tokens * 8);
  spans_.reserve(tokens);
  Grow(std::bit_ceil(static_cast<uint64_t>(std::max<int64_t>(2 * tokens, 16))));
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
  if (2 * (tokens_ + 1) > static_cast<int64_t>(slots_.size())) Grow(2 * slots_.size());
  const uint64_t hash = Hash(bytes);
  Slot& slot = slots_[SlotOf(bytes, hash)];
  if (slot.id >= 0) {
    return InvalidArgument("tokens ", slot.id, " and ", id, " are the same bytes");
  }
  slot = {static_cast<uint32_t>(hash >> 32), static_cast<int32_t>(id)};
  if (id >= ids()) spans_.resize(id + 1);
  spans_[id] = {static_cast<int64_t>(blob_.size()), static_cast<int32_t>(bytes.size())};
  blob_ += bytes;
  ++tokens_;
  return Status();
}

int32_t Vocabulary::Find(std::string_view bytes) const {
  return slots_[SlotOf(bytes, Hash(bytes))].id;
}

std::string_view Vocabulary::Bytes(int32_t id) const {
  if (id < 0 || id >= ids()) return {};
  return std::string_view(blob_).substr(spans_[id].begin, spans_[id].length);
}

uint64_t Vocabulary::Hash(std::string_view bytes) {
  constexpr uint64_t kSeed = 0x9E3779B97F4A7C15u;
  constexpr uint64_t kFactor = 0xD6E8FEB86659FD93u;
  uint64_t hash = Mix(bytes.size() ^ kSeed, kFactor);
  const char* data = bytes.data();
  size_t left = bytes.size();
  for (; left > 8; left -= 8, data += 8) hash = Mix(hash ^ Load(data, 8), kFactor);
  return Mix(hash ^ Load(data, left), kSeed);
}

size_t Vocabulary::SlotOf(std::string_view bytes, uint64_t hash) const {
  const size_t mask = slots_.size() - 1;
  const auto tag = static_cast<uint32_t>(hash >> 32);
  size_t at = hash & mask;
  while (slots_[at].id >= 0 && (slots_[at].tag != tag || Bytes(slots_[at].id) != bytes)) {
    at = (at + 1) & mask;
  }
  return at;
}

void Vocabulary::Grow(int64_t slots) {
  std::vector<Slot> old(slots);
  old.swap(slots_);
  for (const Slot& slot : old) {
    if (slot.id < 0) continue;
    const std::string_view bytes = Bytes(slot.id);
    slots_[SlotOf(bytes, Hash(bytes))] = slot;
  }
}

}  // namespace rose

#include "tokenizer/special_tokens.h"

#include <algorithm>
#include <functional>

#include "base/check.h"
#include "tokenizer/vocabulary.h"

namespace rose {

Status SpecialTokens::Add(std::string_view name, int64_t id) {
  if (name.empty()) return InvalidArgument("special token ", id, " has an empty name");
  if (id < 0 || id >= Vocabulary::kMaxTokens) {
    return InvalidArgument("special token ", name, " has the id ", id, ", which is outside 0 to ",
                           Vocabulary::kMaxTokens - 1);
  }
  const auto narrow = static_cast<int32_t>(id);
  if (const auto other = Id(name); other && *other != narrow) {
    return InvalidArgument("special token ", name, " has two ids, ", *other, " and ", id);
  }
  const auto [entry, added] = names_.emplace(narrow, name);
  if (!added && entry->second != name) {
    return InvalidArgument("special tokens ", entry->second, " and ", name, " have the same id ",
                           id);
  }
  AddName(name, narrow);
  ids_ = std::max(ids_, id + 1);
  return Status();
}

void SpecialTokens::AddAlias(std::string_view name, int32_t id) {
  ROSE_CHECK(!Name(id).empty() && !name.empty() && !Id(name), name, " for ", id);
  AddName(name, id);
}

void SpecialTokens::AddName(std::string_view name, int32_t id) {
  ids_by_name_.emplace(name, id);
  const auto length = static_cast<int64_t>(name.size());
  const auto place = std::lower_bound(lengths_.begin(), lengths_.end(), length, std::greater<>());
  if (place == lengths_.end() || *place != length) lengths_.insert(place, length);
  first_[static_cast<uint8_t>(name[0])] = true;
}

std::optional<int32_t> SpecialTokens::Id(std::string_view name) const {
  const auto found = ids_by_name_.find(name);
  if (found == ids_by_name_.end()) return std::nullopt;
  return found->second;
}

std::string_view SpecialTokens::Name(int32_t id) const {
  const auto found = names_.find(id);
  return found == names_.end() ? std::string_view() : std::string_view(found->second);
}

std::optional<SpecialTokens::Hit> SpecialTokens::FindIn(std::string_view text, int64_t from) const {
  const auto size = static_cast<int64_t>(text.size());
  for (int64_t begin = from; begin < size; ++begin) {
    if (!first_[static_cast<uint8_t>(text[begin])]) continue;
    for (const int64_t length : lengths_) {
      if (length > size - begin) continue;
      if (const auto id = Id(text.substr(begin, length))) return Hit{begin, begin + length, *id};
    }
  }
  return std::nullopt;
}

SpecialTokens HarmonySpecialTokens() {
  constexpr int32_t kFirst = 199998;
  constexpr int32_t kLast = 201087;
  const std::map<int32_t, std::string> named = {
      {199998, "<|startoftext|>"}, {199999, "<|endoftext|>"}, {200002, "<|return|>"},
      {200003, "<|constrain|>"},   {200005, "<|channel|>"},   {200006, "<|start|>"},
      {200007, "<|end|>"},         {200008, "<|message|>"},   {200012, "<|call|>"},
  };
  SpecialTokens specials;
  for (int32_t id = kFirst; id <= kLast; ++id) {
    const auto found = named.find(id);
    const Status status =
        specials.Add(found != named.end() ? found->second : StrCat("<|reserved_", id, "|>"), id);
    ROSE_CHECK(status.ok(), status.message());
  }
  // The name that tokenizer.json files have for it.
  specials.AddAlias("<|endofprompt|>", 200018);
  return specials;
}

}  // namespace rose

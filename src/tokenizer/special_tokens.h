// Special tokens: names that stand for one id, outside the byte vocabulary.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "base/status.h"

namespace rose {

class SpecialTokens {
 public:
  // Refuses an empty name, an id out of range, and a name or an id that is taken; the same token
  // twice does no harm.
  Status Add(std::string_view name, int64_t id);
  // One more name for an id that has one: text may use it, but the id decodes to the first.
  void AddAlias(std::string_view name, int32_t id);

  // A text for people shows it (Tokenizer::IsControl).
  void MarkShown(int32_t id) { shown_.insert(id); }

  std::optional<int32_t> Id(std::string_view name) const;
  // The id's name, empty if it is not special.
  std::string_view Name(int32_t id) const;
  bool IsShown(int32_t id) const { return shown_.contains(id); }
  // One more than the largest id.
  int64_t ids() const { return ids_; }

  struct Hit {
    int64_t begin = 0;
    int64_t end = 0;
    int32_t id = 0;
  };
  // The first name in `text` at or after `from`, the longest where several start.
  std::optional<Hit> FindIn(std::string_view text, int64_t from) const;

 private:
  void AddName(std::string_view name, int32_t id);

  std::map<std::string, int32_t, std::less<>> ids_by_name_;
  std::unordered_map<int32_t, std::string> names_;
  std::set<int32_t> shown_;
  std::vector<int64_t> lengths_;   // of names, distinct, longest first
  std::array<bool, 256> first_{};  // bytes that start a name
  int64_t ids_ = 0;
};

// The 1,090 special tokens of o200k_harmony, ids 199998 to 201087. 200018 has two names.
SpecialTokens HarmonySpecialTokens();

}  // namespace rose

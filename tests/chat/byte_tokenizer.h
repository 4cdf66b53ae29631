// A tokenizer for tests: every byte is a token of its own, and the special tokens are Harmony's.
#pragma once

#include <array>
#include <map>
#include <string>

#include "tokenizer/tokenizer.h"

namespace rose {

class ByteTokenizer : public Tokenizer {
 public:
  ByteTokenizer() {
    for (int i = 0; i < 256; ++i) bytes_[i] = static_cast<char>(i);
  }

  std::vector<int32_t> Encode(std::string_view text) const override {
    std::vector<int32_t> ids;
    for (const char c : text) ids.push_back(static_cast<unsigned char>(c));
    return ids;
  }
  std::vector<int32_t> EncodeWithSpecials(std::string_view text) const override {
    std::vector<int32_t> ids;
    while (!text.empty()) {
      const auto* special = &*specials_.begin();
      size_t length = 0;
      for (const auto& entry : specials_)
        if (text.starts_with(entry.second)) {
          special = &entry;
          length = entry.second.size();
        }
      ids.push_back(length > 0 ? special->first : static_cast<unsigned char>(text[0]));
      text.remove_prefix(length > 0 ? length : 1);
    }
    return ids;
  }
  std::string_view Bytes(int32_t id) const override {
    if (id >= 0 && id < 256) return {&bytes_[id], 1};
    const auto special = specials_.find(id);
    return special == specials_.end() ? std::string_view() : special->second;
  }
  bool IsSpecial(int32_t id) const override { return specials_.contains(id); }
  bool IsControl(int32_t id) const override { return IsSpecial(id); }
  std::optional<int32_t> SpecialId(std::string_view name) const override {
    for (const auto& [id, text] : specials_)
      if (text == name) return id;
    return std::nullopt;
  }
  int64_t vocab() const override { return 200013; }

 private:
  std::array<char, 256> bytes_;
  std::map<int32_t, std::string> specials_ = {
      {199998, "<|startoftext|>"}, {199999, "<|endoftext|>"}, {200002, "<|return|>"},
      {200003, "<|constrain|>"},   {200005, "<|channel|>"},   {200006, "<|start|>"},
      {200007, "<|end|>"},         {200008, "<|message|>"},   {200012, "<|call|>"}};
};

}  // namespace rose

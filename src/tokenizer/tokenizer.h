// Tokenizer: text to token ids and back, exact with the reference (spec C).
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"

namespace rose {

class Tokenizer {
 public:
  virtual ~Tokenizer() = default;

  // Ids of `text` as ordinary text: what looks like a special token stays text. Invalid UTF-8 is
  // encoded byte by byte, never an error.
  virtual std::vector<int32_t> Encode(std::string_view text) const = 0;
  // The same, but special token strings in `text` become their ids. Only for callers that ask.
  virtual std::vector<int32_t> EncodeWithSpecials(std::string_view text) const = 0;

  // Bytes of a token; special tokens give their name, ids without an entry an empty view.
  virtual std::string_view Bytes(int32_t id) const = 0;
  virtual bool IsSpecial(int32_t id) const = 0;
  // Of special tokens: one that a text for people leaves out. The others, such as "<think>", are
  // written to be read.
  virtual bool IsControl(int32_t id) const = 0;
  virtual std::optional<int32_t> SpecialId(std::string_view name) const = 0;
  // One more than the largest id with an entry.
  virtual int64_t vocab() const = 0;

  // All bytes joined; not necessarily valid UTF-8.
  std::string Decode(const std::vector<int32_t>& ids) const;
};

// From a folder or file: tokenizer.json, or *.tiktoken ranks with the o200k_harmony special tokens.
Result<std::unique_ptr<Tokenizer>> LoadTokenizer(const std::string& path);
// "o200k_harmony", built into the program.
Result<std::unique_ptr<Tokenizer>> BuiltInTokenizer(std::string_view name);

// Turns token bytes into valid UTF-8 piece by piece: holds an incomplete character back, and writes
// U+FFFD for every maximal invalid sequence.
class Utf8Stream {
 public:
  // The text that became certain with `bytes`; may be empty.
  std::string Push(std::string_view bytes);
  // What is still held, as U+FFFD, and starts anew.
  std::string Finish();

 private:
  std::string held_;
};

}  // namespace rose

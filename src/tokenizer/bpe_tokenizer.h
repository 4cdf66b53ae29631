// The Tokenizer of byte-level BPE vocabularies.
#pragma once

#include <memory>
#include <optional>

#include "tokenizer/bpe.h"
#include "tokenizer/special_tokens.h"
#include "tokenizer/split_rule.h"
#include "tokenizer/tokenizer.h"
#include "tokenizer/vocabulary.h"

namespace rose {

struct BpeParts {
  Vocabulary tokens;  // ordinary tokens only
  SpecialTokens specials;
  std::optional<MergeTable> merges;  // absent: ranks are ids
  bool whole_pieces = true;          // a piece that is a token is emitted without merging
  const SplitRule* split = &O200kRule();
  bool is_nfc = false;  // text is brought into NFC first (unicode_nfc.h)
};

class BpeTokenizer : public Tokenizer {
 public:
  // Refuses a vocabulary in which a byte has no token, or in which an id is both kinds.
  static Result<std::unique_ptr<Tokenizer>> Create(BpeParts parts);

  // A text of at least kLongText bytes is cut and encoded by several threads.
  static constexpr int64_t kLongText = 256 << 10;
  std::vector<int32_t> Encode(std::string_view text) const override;
  std::vector<int32_t> EncodeWithSpecials(std::string_view text) const override;
  std::string_view Bytes(int32_t id) const override;
  bool IsSpecial(int32_t id) const override;
  bool IsControl(int32_t id) const override;
  std::optional<int32_t> SpecialId(std::string_view name) const override;
  int64_t vocab() const override;

 private:
  explicit BpeTokenizer(BpeParts parts);
  void AppendOrdinary(std::string_view text, std::vector<int32_t>& ids) const;
  void AppendLongText(std::string_view text, std::vector<int32_t>& ids) const;
  void AppendText(std::string_view text, std::vector<int32_t>& ids) const;

  BpeParts parts_;
  Merger merger_;  // borrows from parts_
};

// The parsers behind LoadTokenizer, on a file's content. Errors do not name the file.
Result<std::unique_ptr<Tokenizer>> ParseTokenizerJson(std::string_view json);
// Ranks, one "base64 rank" a line, without gaps; must be those of o200k_base.
Result<std::unique_ptr<Tokenizer>> ParseTiktoken(std::string_view ranks);

}  // namespace rose

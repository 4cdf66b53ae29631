// The tiktoken form of a vocabulary: one token a line, "base64 rank". Only o200k_base is accepted,
// because the special tokens of o200k_harmony begin where its ranks end.
#include <charconv>

#include "tokenizer/bpe_tokenizer.h"
#include "tokenizer/o200k_ranks.h"

namespace rose {
namespace {

constexpr int64_t kO200kTokens = 199998;

// The six bits of a base64 letter, or -1.
int SixBits(char letter) {
  if (letter >= 'A' && letter <= 'Z') return letter - 'A';
  if (letter >= 'a' && letter <= 'z') return letter - 'a' + 26;
  if (letter >= '0' && letter <= '9') return letter - '0' + 52;
  if (letter == '+') return 62;
  return letter == '/' ? 63 : -1;
}

// Decodes into `bytes`; false if `text` is not padded base64.
bool DecodeBase64(std::string_view text, std::string& bytes) {
  bytes.clear();
  if (text.empty() || text.size() % 4 != 0) return false;
  size_t letters = text.size();
  while (letters > text.size() - 2 && text[letters - 1] == '=') --letters;
  uint32_t word = 0;
  for (size_t i = 0; i < letters; ++i) {
    const int bits = SixBits(text[i]);
    if (bits < 0) return false;
    word = word << 6 | static_cast<uint32_t>(bits);
    // Every letter but the first of four completes a byte.
    if (i % 4 != 0) bytes.push_back(static_cast<char>(word >> (6 - 2 * (i % 4))));
  }
  return true;
}

Status AddLine(std::string_view line, std::string& bytes, Vocabulary& tokens) {
  const size_t space = line.find(' ');
  if (space == line.npos || !DecodeBase64(line.substr(0, space), bytes)) {
    return InvalidArgument("expected a token in base64, a space and its rank");
  }
  int64_t rank = 0;
  const char* end = line.data() + line.size();
  const auto parsed = std::from_chars(line.data() + space + 1, end, rank);
  if (parsed.ec != std::errc() || parsed.ptr != end) {
    return InvalidArgument("the rank is not a whole number");
  }
  return tokens.Add(bytes, rank);
}

Result<Vocabulary> ParseRanks(std::string_view text) {
  Vocabulary tokens(kO200kTokens);
  std::string bytes;
  int64_t number = 0;
  while (!text.empty()) {
    ++number;
    const size_t newline = std::min(text.find('\n'), text.size());
    std::string_view line = text.substr(0, newline);
    text.remove_prefix(std::min(newline + 1, text.size()));
    if (line.ends_with('\r')) line.remove_suffix(1);
    if (const Status status = AddLine(line, bytes, tokens); !status.ok()) {
      return InvalidArgument("line ", number, ": ", status.message());
    }
  }
  if (tokens.tokens() != kO200kTokens || tokens.ids() != kO200kTokens) {
    return InvalidArgument("it has ", tokens.tokens(), " ranks up to ", tokens.ids() - 1,
                           "; o200k_base has ", kO200kTokens,
                           " without gaps, so the file is cut short or of another vocabulary");
  }
  ROSE_RETURN_IF_ERROR(tokens.Index());
  return tokens;
}

Result<std::unique_ptr<Tokenizer>> WithHarmony(Vocabulary tokens) {
  return BpeTokenizer::Create({.tokens = std::move(tokens),
                               .specials = HarmonySpecialTokens(),
                               .merges = std::nullopt,
                               .whole_pieces = true});
}

}  // namespace

Result<std::unique_ptr<Tokenizer>> ParseTiktoken(std::string_view ranks) {
  ROSE_ASSIGN_OR_RETURN(Vocabulary tokens, ParseRanks(ranks));
  // A damaged letter still decodes to some token: only the published content is right.
  ROSE_ASSIGN_OR_RETURN(const Vocabulary published, ParseRanks(O200kRanks()));
  for (int32_t id = 0; id < kO200kTokens; ++id) {
    if (tokens.Bytes(id) != published.Bytes(id)) {
      return InvalidArgument("the token of rank ", id,
                             " is not that of o200k_base, so the file is ",
                             "damaged or of another vocabulary");
    }
  }
  return WithHarmony(std::move(tokens));
}

Result<std::unique_ptr<Tokenizer>> BuiltInTokenizer(std::string_view name) {
  if (name != "o200k_harmony") {
    return NotFound("there is no built-in tokenizer \"", name, "\"; there is o200k_harmony");
  }
  ROSE_ASSIGN_OR_RETURN(Vocabulary tokens, ParseRanks(O200kRanks()));
  return WithHarmony(std::move(tokens));
}

}  // namespace rose

#include "tokenizer/bpe_tokenizer.h"

#include <algorithm>

#include "tokenizer/o200k_split.h"

namespace rose {

std::string Tokenizer::Decode(const std::vector<int32_t>& ids) const {
  std::string bytes;
  for (const int32_t id : ids) bytes += Bytes(id);
  return bytes;
}

Result<std::unique_ptr<Tokenizer>> BpeTokenizer::Create(BpeParts parts) {
  std::array<int32_t, 256> byte_ids;
  for (int byte = 0; byte < 256; ++byte) {
    const char bytes[] = {static_cast<char>(byte)};
    byte_ids[byte] = parts.tokens.Find({bytes, 1});
    if (byte_ids[byte] < 0) {
      return InvalidArgument("the vocabulary has no token for the single byte ", byte,
                             ", so some text could not be encoded");
    }
  }
  for (int64_t id = 0; id < std::min(parts.tokens.ids(), parts.specials.ids()); ++id) {
    const auto narrow = static_cast<int32_t>(id);
    if (!parts.tokens.Bytes(narrow).empty() && !parts.specials.Name(narrow).empty()) {
      return InvalidArgument("id ", id, " is an ordinary token and the special token ",
                             parts.specials.Name(narrow));
    }
  }
  return std::unique_ptr<Tokenizer>(new BpeTokenizer(std::move(parts), byte_ids));
}

BpeTokenizer::BpeTokenizer(BpeParts parts, const std::array<int32_t, 256>& byte_ids)
    : parts_(std::move(parts)), byte_ids_(byte_ids) {}

std::vector<int32_t> BpeTokenizer::Encode(std::string_view text) const {
  std::vector<int32_t> ids;
  ids.reserve(text.size() / 4 + 1);
  AppendText(text, ids);
  return ids;
}

std::vector<int32_t> BpeTokenizer::EncodeWithSpecials(std::string_view text) const {
  std::vector<int32_t> ids;
  int64_t pos = 0;
  while (const auto hit = parts_.specials.FindIn(text, pos)) {
    AppendText(text.substr(pos, hit->begin - pos), ids);
    ids.push_back(hit->id);
    pos = hit->end;
  }
  AppendText(text.substr(pos), ids);
  return ids;
}

std::string_view BpeTokenizer::Bytes(int32_t id) const {
  const std::string_view bytes = parts_.tokens.Bytes(id);
  return bytes.empty() ? parts_.specials.Name(id) : bytes;
}

bool BpeTokenizer::IsSpecial(int32_t id) const {
  return !parts_.specials.Name(id).empty();
}

std::optional<int32_t> BpeTokenizer::SpecialId(std::string_view name) const {
  return parts_.specials.Id(name);
}

int64_t BpeTokenizer::vocab() const {
  return std::max(parts_.tokens.ids(), parts_.specials.ids());
}

void BpeTokenizer::AppendText(std::string_view text, std::vector<int32_t>& ids) const {
  const BpeRules rules{.tokens = &parts_.tokens,
                       .merges = parts_.merges ? &*parts_.merges : nullptr,
                       .byte_ids = &byte_ids_};
  const auto size = static_cast<int64_t>(text.size());
  for (int64_t pos = 0; pos < size;) {
    const int64_t end = O200kPieceEnd(text, pos);
    const std::string_view piece = text.substr(pos, end - pos);
    const int32_t whole = parts_.whole_pieces ? parts_.tokens.Find(piece) : -1;
    if (whole >= 0) {
      ids.push_back(whole);
    } else {
      MergePiece(rules, piece, ids);
    }
    pos = end;
  }
}

}  // namespace rose

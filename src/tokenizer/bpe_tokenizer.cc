#include "tokenizer/bpe_tokenizer.h"

#include <algorithm>

#include "base/cpu.h"
#include "base/parallel_for.h"
#include "tokenizer/unicode_nfc.h"

namespace rose {
namespace {

// More do not pay for their start, and a server has other prompts to encode as well.
constexpr int kMostThreads = 8;

// For most texts all that Encode will need: AppendText asks for room for a block of pieces, a few
// hundred bytes, beyond what is written.
size_t RoomFor(std::string_view text) {
  return std::min(text.size(), text.size() / 3 + 256);
}

}  // namespace

std::string Tokenizer::Decode(const std::vector<int32_t>& ids) const {
  std::string bytes;
  for (const int32_t id : ids) bytes += Bytes(id);
  return bytes;
}

Result<std::unique_ptr<Tokenizer>> BpeTokenizer::Create(BpeParts parts) {
  for (int byte = 0; byte < 256; ++byte) {
    const char bytes[] = {static_cast<char>(byte)};
    if (parts.tokens.Find({bytes, 1}) < 0) {
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
  return std::unique_ptr<Tokenizer>(new BpeTokenizer(std::move(parts)));
}

BpeTokenizer::BpeTokenizer(BpeParts parts)
    : parts_(std::move(parts)), merger_(parts_.tokens, parts_.merges ? &*parts_.merges : nullptr) {}

std::vector<int32_t> BpeTokenizer::Encode(std::string_view text) const {
  std::vector<int32_t> ids;
  ids.reserve(RoomFor(text));
  AppendOrdinary(text, ids);
  // One piece of megabytes asked for an id a byte.
  if (ids.capacity() > 4 * ids.size() + 1024) ids.shrink_to_fit();
  return ids;
}

std::vector<int32_t> BpeTokenizer::EncodeWithSpecials(std::string_view text) const {
  std::vector<int32_t> ids;
  int64_t pos = 0;
  while (const auto hit = parts_.specials.FindIn(text, pos)) {
    AppendOrdinary(text.substr(pos, hit->begin - pos), ids);
    ids.push_back(hit->id);
    pos = hit->end;
  }
  AppendOrdinary(text.substr(pos), ids);
  return ids;
}

std::string_view BpeTokenizer::Bytes(int32_t id) const {
  const std::string_view bytes = parts_.tokens.Bytes(id);
  return bytes.empty() ? parts_.specials.Name(id) : bytes;
}

bool BpeTokenizer::IsSpecial(int32_t id) const {
  return !parts_.specials.Name(id).empty();
}

bool BpeTokenizer::IsControl(int32_t id) const {
  return IsSpecial(id) && !parts_.specials.IsShown(id);
}

std::optional<int32_t> BpeTokenizer::SpecialId(std::string_view name) const {
  return parts_.specials.Id(name);
}

int64_t BpeTokenizer::vocab() const {
  return std::max(parts_.tokens.ids(), parts_.specials.ids());
}

void BpeTokenizer::AppendOrdinary(std::string_view text, std::vector<int32_t>& ids) const {
  std::string buffer;
  AppendLongText(parts_.is_nfc ? ToNfc(text, buffer) : text, ids);
}

void BpeTokenizer::AppendLongText(std::string_view text, std::vector<int32_t>& ids) const {
  const auto size = static_cast<int64_t>(text.size());
  const int threads = std::min(AvailableCpus(), kMostThreads);
  if (size < kLongText || threads == 1) return AppendText(text, ids);
  std::vector<std::string_view> parts;
  for (int64_t begin = 0; begin < size;) {
    const int64_t end = SplitCutAfter(text, std::min(begin + kLongText / 2, size));
    parts.push_back(text.substr(begin, end - begin));
    begin = end;
  }
  std::vector<std::vector<int32_t>> part_ids(parts.size());
  ParallelFor(threads, std::ssize(parts), [&](int64_t i) {
    part_ids[i].reserve(RoomFor(parts[i]));
    AppendText(parts[i], part_ids[i]);
  });
  for (const std::vector<int32_t>& part : part_ids) ids.insert(ids.end(), part.begin(), part.end());
}

void BpeTokenizer::AppendText(std::string_view text, std::vector<int32_t>& ids) const {
  // The slots of a block of pieces are asked for before the first is read: they are far apart in
  // memory.
  struct Piece {
    std::string_view bytes;
    Vocabulary::Key key;
    bool may_be_whole;
  };
  std::array<Piece, 32> block;
  const auto piece_end = parts_.split->piece_end;
  const auto size = static_cast<int64_t>(text.size());
  for (int64_t pos = 0; pos < size;) {
    const int64_t begin = pos;
    size_t pieces = 0;
    for (; pieces < block.size() && pos < size; ++pieces) {
      const int64_t end = piece_end(text, pos);
      const int64_t length = end - pos;
      Piece& piece = block[pieces];
      piece.bytes = text.substr(pos, length);
      piece.may_be_whole = parts_.whole_pieces && length <= parts_.tokens.longest();
      if (piece.may_be_whole) {
        const bool is_short = length <= 8 && size - pos >= 8;
        piece.key =
            is_short ? Vocabulary::ShortKey(&text[pos], length) : Vocabulary::KeyOf(piece.bytes);
        piece.may_be_whole = parts_.tokens.Prefetch(piece.key);
      }
      pos = end;
    }
    // Room for an id a byte, and back to what there is.
    const size_t before = ids.size();
    ids.resize(before + static_cast<size_t>(pos - begin));
    IdWriter out{&ids[before]};
    for (size_t i = 0; i < pieces; ++i) {
      const auto [bytes, key, may_be_whole] = block[i];
      const int32_t whole = may_be_whole ? parts_.tokens.Find(key, bytes) : -1;
      if (whole >= 0) {
        out.Add(whole);
      } else if (bytes.data() + bytes.size() + Merger::kReadAhead <= text.data() + size) {
        merger_.Append(bytes, out);
      } else {
        std::string last(bytes);
        last.append(Merger::kReadAhead, '\0');
        merger_.Append(std::string_view(last).substr(0, bytes.size()), out);
      }
    }
    ids.resize(static_cast<size_t>(out.end - ids.data()));
  }
}

}  // namespace rose

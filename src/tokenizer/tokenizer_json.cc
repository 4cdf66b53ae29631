// The tokenizer.json form (Hugging Face tokenizers). Everything that would change ids and is not
// offered is refused by name; what has no effect on ids (decoder, padding, truncation) is not read.
#include <algorithm>
#include <unordered_map>

#include "base/json.h"
#include "base/utf8.h"
#include "tokenizer/bpe_tokenizer.h"
#include "tokenizer/split_rule.h"

namespace rose {
namespace {

// The published file has 1.7 million values, nested six deep.
constexpr JsonLimits kLimits{.depth = 16, .values = 20'000'000};

// The end of a message that names a value; not all of it, since a file may hold anything.
std::string Excerpt(std::string_view text) {
  constexpr size_t kMost = 300;
  if (text.size() <= kMost) return std::string(text);
  size_t length = kMost;
  while (length > 0 && (text[length] & 0xC0) == 0x80) --length;  // not within a character
  return StrCat(text.substr(0, length), "...");
}

std::string Excerpt(const JsonValue* value) {
  return value ? Excerpt(WriteJson(*value)) : "missing";
}

bool IsTrue(const JsonValue& object, std::string_view key) {
  const JsonValue* value = object.Find(key);
  return value && value->boolean() && *value->boolean();
}

std::string_view TypeOf(const JsonValue& object) {
  const JsonValue* type = object.Find("type");
  return type && type->string() ? std::string_view(*type->string()) : std::string_view();
}

bool IsAbsent(const JsonValue* value) {
  return !value || value->is_null();
}

// Fields that must be absent, null, false, "" or 0 because their effect is not offered.
Status CheckUnset(const JsonValue& object, std::string_view where,
                  std::initializer_list<std::string_view> keys) {
  for (const std::string_view key : keys) {
    const JsonValue* value = object.Find(key);
    if (IsAbsent(value)) continue;
    if (value->boolean() && !*value->boolean()) continue;
    if (value->string() && value->string()->empty()) continue;
    if (value->number() && value->AsDouble() == 0.0) continue;
    return Unsupported(where, ".", key, " is ", Excerpt(value),
                       "; only tokenizers without it can be used");
  }
  return Status();
}

// ---- the steps around the model ----

Result<const SplitRule*> ReadSplit(const JsonValue& step) {
  const JsonValue* pattern = step.Find("pattern");
  const JsonValue* regex = pattern ? pattern->Find("Regex") : nullptr;
  if (!regex || !regex->string()) {
    return InvalidArgument("pre_tokenizer: Split has no pattern.Regex, but ", Excerpt(pattern));
  }
  const SplitRule* found = nullptr;
  std::string known;
  for (const SplitRule& rule : SplitRules()) {
    if (*regex->string() == rule.pattern) found = &rule;
    known += StrCat(known.empty() ? "" : ", ", rule.name);
  }
  if (found == nullptr) {
    return Unsupported("pre_tokenizer: the split pattern ", Excerpt(*regex->string()),
                       " is unknown; known are those of ", known,
                       " (docs/new-model.md says how to add one)");
  }
  const JsonValue* behavior = step.Find("behavior");
  if (!behavior || !behavior->string() || *behavior->string() != "Isolated") {
    return Unsupported("pre_tokenizer: Split.behavior is ", Excerpt(behavior),
                       ", not \"Isolated\"");
  }
  ROSE_RETURN_IF_ERROR(CheckUnset(step, "pre_tokenizer: Split", {"invert"}));
  return found;
}

Result<const SplitRule*> ReadPreTokenizer(const JsonValue* pre) {
  const JsonValue* steps = pre ? pre->Find("pretokenizers") : nullptr;
  if (!steps || !steps->array() || TypeOf(*pre) != "Sequence" || steps->array()->size() != 2 ||
      TypeOf((*steps->array())[0]) != "Split" || TypeOf((*steps->array())[1]) != "ByteLevel") {
    return Unsupported("pre_tokenizer must be a Sequence of Split and ByteLevel, but is ",
                       Excerpt(pre));
  }
  ROSE_ASSIGN_OR_RETURN(const SplitRule* split, ReadSplit((*steps->array())[0]));
  const JsonValue& bytes = (*steps->array())[1];
  // Both are true where the field is absent.
  for (const std::string_view key : {"add_prefix_space", "use_regex"}) {
    const JsonValue* value = bytes.Find(key);
    if (!value || !value->boolean() || *value->boolean()) {
      return Unsupported("pre_tokenizer: ByteLevel.", key, " is ", Excerpt(value), ", not false");
    }
  }
  return split;
}

Status ReadSteps(const JsonValue& root, BpeParts& parts) {
  if (const JsonValue* normalizer = root.Find("normalizer"); !IsAbsent(normalizer)) {
    parts.is_nfc = TypeOf(*normalizer) == "NFC";
    if (!parts.is_nfc)
      return Unsupported("normalizer is ", Excerpt(normalizer), "; only NFC or none is offered");
  }
  ROSE_ASSIGN_OR_RETURN(parts.split, ReadPreTokenizer(root.Find("pre_tokenizer")));
  const JsonValue* post = root.Find("post_processor");
  if (!IsAbsent(post) && TypeOf(*post) != "ByteLevel") {
    return Unsupported("post_processor is ", Excerpt(post), "; only ByteLevel is offered");
  }
  return Status();
}

// ---- the model ----

// Byte -> code point of GPT-2's printable form, and back: bytes that print stand for themselves,
// the other 68 for U+0100, U+0101, ... in increasing order.
class ByteLetters {
 public:
  ByteLetters() {
    uint32_t next = 0x100;
    for (uint32_t byte = 0; byte < 256; ++byte) {
      const bool prints = (byte >= 0x21 && byte <= 0x7E) || (byte >= 0xA1 && byte <= 0xAC) ||
                          (byte >= 0xAE && byte <= 0xFF);
      bytes_.emplace(prints ? byte : next++, static_cast<char>(byte));
    }
  }

  // The bytes that `letters`, valid UTF-8, stand for; nullopt if one of them stands for none.
  std::optional<std::string> Bytes(std::string_view letters) const {
    std::string bytes;
    for (int64_t pos = 0; pos < static_cast<int64_t>(letters.size());) {
      const Utf8Char letter = DecodeUtf8(letters, pos);
      const auto found = bytes_.find(letter.code_point);
      if (found == bytes_.end()) return std::nullopt;
      bytes.push_back(found->second);
      pos += letter.length;
    }
    return bytes;
  }

 private:
  std::unordered_map<uint32_t, char> bytes_;
};

Status AddVocabulary(const JsonValue& model, const ByteLetters& letters, BpeParts& parts) {
  const JsonValue* vocab = model.Find("vocab");
  if (!vocab || !vocab->object()) return InvalidArgument("model.vocab is missing or no object");
  parts.tokens = Vocabulary(static_cast<int64_t>(vocab->object()->size()));
  for (const auto& [key, value] : *vocab->object()) {
    const auto id = value.AsInteger();
    if (!id) {
      return InvalidArgument("model.vocab: the id of \"", Excerpt(key), "\" is ", Excerpt(&value),
                             ", no whole number");
    }
    // Trainers list special tokens here as well, not in byte letters.
    if (const auto special = parts.specials.Id(key); special && *special == *id) continue;
    const auto bytes = letters.Bytes(key);
    if (!bytes) {
      return InvalidArgument("model.vocab: \"", Excerpt(key), "\" is not in byte-level letters");
    }
    if (const Status status = parts.tokens.Add(*bytes, *id); !status.ok()) {
      return InvalidArgument("model.vocab: \"", Excerpt(key), "\": ", status.message());
    }
  }
  if (const Status status = parts.tokens.Index(); !status.ok()) {
    return InvalidArgument("model.vocab: ", status.message());
  }
  return Status();
}

// Both halves of one entry of model.merges: ["a", "b"] or "a b".
std::optional<std::pair<std::string_view, std::string_view>> MergeHalves(const JsonValue& entry) {
  if (const auto* pair = entry.array()) {
    if (pair->size() != 2 || !(*pair)[0].string() || !(*pair)[1].string()) return std::nullopt;
    return std::pair<std::string_view, std::string_view>(*(*pair)[0].string(),
                                                         *(*pair)[1].string());
  }
  if (!entry.string()) return std::nullopt;
  const std::string_view text = *entry.string();
  const size_t space = text.find(' ');
  if (space == text.npos || text.find(' ', space + 1) != text.npos) return std::nullopt;
  return std::pair(text.substr(0, space), text.substr(space + 1));
}

Status AddMerges(const JsonValue& model, const ByteLetters& letters, BpeParts& parts) {
  const JsonValue* merges = model.Find("merges");
  if (!merges || !merges->array()) return InvalidArgument("model.merges is missing or no array");
  parts.merges.emplace(static_cast<int64_t>(merges->array()->size()));
  int32_t rank = 0;
  for (const JsonValue& entry : *merges->array()) {
    const auto halves = MergeHalves(entry);
    if (!halves) {
      return InvalidArgument("model.merges: entry ", rank, " is ", Excerpt(&entry),
                             ", not a pair of tokens");
    }
    const auto left = letters.Bytes(halves->first);
    const auto right = letters.Bytes(halves->second);
    if (!left || !right) {
      return InvalidArgument("model.merges: entry ", rank, ", ", Excerpt(&entry),
                             ", is not in byte-level letters");
    }
    const int32_t left_id = parts.tokens.Find(*left);
    const int32_t right_id = parts.tokens.Find(*right);
    const int32_t joined_id = parts.tokens.Find(*left + *right);
    if (left_id < 0 || right_id < 0 || joined_id < 0) {
      return InvalidArgument("model.merges: entry ", rank, ", ", Excerpt(&entry), ", names ",
                             left_id < 0    ? "a left token"
                             : right_id < 0 ? "a right token"
                                            : "a result",
                             " that is not in model.vocab");
    }
    parts.merges->Set(left_id, right_id, rank, joined_id);
    ++rank;
  }
  return Status();
}

Status AddModel(const JsonValue& root, BpeParts& parts) {
  const JsonValue* model = root.Find("model");
  if (!model || !model->object()) return InvalidArgument("\"model\" is missing or no object");
  if (model->Find("type") && TypeOf(*model) != "BPE") {
    return Unsupported("model.type is ", Excerpt(model->Find("type")), "; only \"BPE\" is offered");
  }
  // unk_token, fuse_unk and byte_fallback only matter where a byte has no token, which is refused.
  ROSE_RETURN_IF_ERROR(
      CheckUnset(*model, "model", {"dropout", "continuing_subword_prefix", "end_of_word_suffix"}));
  const ByteLetters letters;
  ROSE_RETURN_IF_ERROR(AddVocabulary(*model, letters, parts));
  ROSE_RETURN_IF_ERROR(AddMerges(*model, letters, parts));
  parts.whole_pieces = IsTrue(*model, "ignore_merges");
  return Status();
}

// ---- special tokens ----

Status AddSpecials(const JsonValue& root, BpeParts& parts) {
  const JsonValue* added = root.Find("added_tokens");
  if (IsAbsent(added)) return Status();
  if (!added->array()) return InvalidArgument("added_tokens is no array, but ", Excerpt(added));
  for (const JsonValue& entry : *added->array()) {
    const JsonValue* content = entry.Find("content");
    const JsonValue* id = entry.Find("id");
    if (!content || !content->string() || !id || !id->AsInteger()) {
      return InvalidArgument("added_tokens: ", Excerpt(&entry), " needs a content and a whole id");
    }
    ROSE_RETURN_IF_ERROR(CheckUnset(entry, "added_tokens: " + Excerpt(*content->string()),
                                    {"single_word", "lstrip", "rstrip"}));
    if (parts.is_nfc && IsTrue(entry, "normalized")) {
      return Unsupported("added_tokens: ", Excerpt(*content->string()),
                         ".normalized is true; only tokens that are found before NFC can be used");
    }
    if (const Status status = parts.specials.Add(*content->string(), *id->AsInteger());
        !status.ok()) {
      return InvalidArgument("added_tokens: ", Excerpt(status.message()));
    }
    const JsonValue* special = entry.Find("special");
    if (special && special->boolean() && !*special->boolean())
      parts.specials.MarkShown(static_cast<int32_t>(*id->AsInteger()));
  }
  return Status();
}

}  // namespace

Result<std::unique_ptr<Tokenizer>> ParseTokenizerJson(std::string_view json) {
  ROSE_ASSIGN_OR_RETURN(const JsonValue root, ParseJson(json, kLimits));
  if (!root.object()) return InvalidArgument("the document is no JSON object");
  BpeParts parts;
  ROSE_RETURN_IF_ERROR(ReadSteps(root, parts));
  ROSE_RETURN_IF_ERROR(AddSpecials(root, parts));
  ROSE_RETURN_IF_ERROR(AddModel(root, parts));
  return BpeTokenizer::Create(std::move(parts));
}

}  // namespace rose

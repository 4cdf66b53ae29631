#include "api/token_fields.h"

#include <algorithm>

namespace rose {
namespace {

constexpr int64_t kMaxPriority = 1'000'000;  // days, as a step counts like a second

constexpr size_t kMaxBadWords = 1024;
constexpr size_t kMaxBadWordBytes = 512;
// About 70 bytes of JSON each.
constexpr int64_t kMaxLogprobsOfAnswer = 1 << 20;

void ReadBadWords(FieldReader& fields, const ApiContext& context, SamplingParams& out) {
  const auto* words = fields.Array("bad_words");
  if (words && words->size() > kMaxBadWords) return fields.Fail("bad_words", "has more than 1024");
  for (size_t i = 0; words && i < words->size(); ++i) {
    const std::string* word = (*words)[i].string();
    if (!word || word->empty() || word->size() > kMaxBadWordBytes)
      return fields.FailAt(StrCat("bad_words[", i, "]"), "must be a text of 1 to 512 bytes");
    // In running text a word follows a blank, which most vocabularies make part of its first token.
    const std::string bare = word->substr(std::min(word->find_first_not_of(' '), word->size() - 1));
    for (const std::string& form : {bare, " " + bare}) {
      std::vector<int32_t> ids = context.tokenizer->Encode(form);
      if (std::find(out.bad_words.begin(), out.bad_words.end(), ids) == out.bad_words.end())
        out.bad_words.push_back(std::move(ids));
    }
  }
}

}  // namespace

std::vector<int32_t> ReadTokenIds(FieldReader& fields, const ApiContext& context,
                                  std::string_view name) {
  std::vector<int32_t> ids;
  const auto* items = fields.Array(name);
  for (size_t i = 0; items && i < items->size(); ++i) {
    const auto id = (*items)[i].AsInteger();
    if (!id || *id < 0 || *id >= context.vocab) {
      fields.FailAt(StrCat(name, "[", i, "]"), "is no token id of the vocabulary");
      return {};
    }
    ids.push_back(static_cast<int32_t>(*id));
  }
  return ids;
}

void CheckWholeVocabulary(FieldReader& fields, const ApiContext& context, std::string_view name,
                          int64_t logprobs, int64_t positions) {
  if (logprobs <= kMaxTopLogprobs) return;
  const int64_t most = std::max<int64_t>(1, kMaxLogprobsOfAnswer / context.vocab);
  if (positions <= most) return;
  fields.Fail(name, StrCat("-1 is the whole vocabulary, which is given for at most ", most,
                           " tokens, not ", positions, "; ask for fewer tokens or fewer logprobs"));
}

void ReadTokenFields(FieldReader& fields, const ApiContext& context, Generation& out) {
  SamplingParams& sampling = out.request.sampling;
  sampling.allowed_ids = ReadTokenIds(fields, context, "allowed_token_ids");
  if (fields.Get("allowed_token_ids") && sampling.allowed_ids.empty())
    fields.Fail("allowed_token_ids", "must have at least one token id");
  ReadBadWords(fields, context, sampling);
  sampling.logprob_ids = ReadTokenIds(fields, context, "logprob_token_ids");
  if (static_cast<int64_t>(sampling.logprob_ids.size()) > kMaxTopLogprobs)
    fields.Fail("logprob_token_ids", StrCat("has more than ", kMaxTopLogprobs, " ids"));
  if (fields.Get("prompt_logprobs")) {
    const int64_t top = fields.Integer("prompt_logprobs", 0, -1, kMaxTopLogprobs);
    if (out.stream && top != 0)
      fields.Fail("prompt_logprobs", "is not given in streams; ask with stream: false");
    out.request.prompt_logprobs = top < 0 ? context.vocab : top;
  }
  out.request.cache_salt = fields.String("cache_salt");
  out.request.priority = fields.Integer("priority", 0, -kMaxPriority, kMaxPriority);
  out.return_token_ids = fields.Bool("return_token_ids", false);
  out.tokens_as_ids = fields.Bool("return_tokens_as_token_ids", false);
}

}  // namespace rose

#include "api/logprob_json.h"

#include <algorithm>
#include <cmath>

#include "base/utf8.h"

namespace rose {
namespace {

constexpr float kLowest = -9999.0f;  // JSON has no infinity

// As text, U+FFFD for what is none.
std::string TokenText(int32_t id, const Tokenizer& tokenizer) {
  Utf8Stream stream;
  std::string text = stream.Push(tokenizer.Bytes(id));
  return text + stream.Finish();
}

void WriteToken(JsonWriter& json, const TokenLogprob& token, const Tokenizer& tokenizer,
                bool as_ids) {
  json.Key("token").String(as_ids ? "token_id:" + std::to_string(token.id)
                                  : TokenText(token.id, tokenizer));
  json.Key("logprob").Float(JsonLogprob(token.logprob));
  json.Key("bytes");
  const std::string_view bytes = tokenizer.Bytes(token.id);
  if (bytes.empty()) {
    json.Null();
    return;
  }
  json.BeginArray();
  for (const char byte : bytes) json.Integer(static_cast<unsigned char>(byte));
  json.EndArray();
}

}  // namespace

float JsonLogprob(float logprob) {
  return std::isfinite(logprob) ? std::max(logprob, kLowest) : kLowest;
}

std::string LogprobJson(const SampledToken& token, const Tokenizer& tokenizer, bool as_ids) {
  std::string out;
  JsonWriter json(out);
  json.BeginObject();
  WriteToken(json, {token.id, token.logprob}, tokenizer, as_ids);
  json.Key("top_logprobs").BeginArray();
  for (const TokenLogprob& top : token.top) {
    json.BeginObject();
    WriteToken(json, top, tokenizer, as_ids);
    json.EndObject();
  }
  json.EndArray().EndObject();
  return out;
}

std::string TokenName(int32_t id, const Tokenizer& tokenizer) {
  const std::string_view bytes = tokenizer.Bytes(id);
  if (IsValidUtf8(bytes)) return std::string(bytes);
  constexpr char kDigits[] = "0123456789abcdef";
  std::string name = "bytes:";
  for (const char c : bytes) {
    const auto byte = static_cast<unsigned char>(c);
    name += {'\\', 'x', kDigits[byte >> 4], kDigits[byte & 15]};
  }
  return name;
}

void WritePromptLogprobs(JsonWriter& json, const std::vector<SampledToken>& scores, int64_t top,
                         const Tokenizer& tokenizer) {
  json.BeginArray().Null();
  for (const SampledToken& score : scores) {
    json.BeginObject();
    bool has_token = false;
    const auto add = [&](const TokenLogprob& token, int64_t rank) {
      json.Key(std::to_string(token.id)).BeginObject();
      json.Key("logprob").Float(JsonLogprob(token.logprob)).Key("rank");
      if (rank > 0) {
        json.Integer(rank);
      } else {
        json.Null();
      }
      json.Key("decoded_token").String(TokenText(token.id, tokenizer)).EndObject();
      has_token = has_token || token.id == score.id;
    };
    const int64_t likely = std::min(top, std::ssize(score.top));
    for (int64_t i = 0; i < likely; ++i) add(score.top[i], i + 1);
    if (!has_token) add({score.id, score.logprob}, 0);
    json.EndObject();
  }
  json.EndArray();
}

}  // namespace rose

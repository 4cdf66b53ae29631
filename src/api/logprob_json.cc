#include "api/logprob_json.h"

#include <algorithm>
#include <cmath>

#include "api/json_writer.h"

namespace rose {
namespace {

constexpr float kLowest = -9999.0f;  // JSON has no infinity

void WriteToken(JsonWriter& json, int32_t id, float logprob, const Tokenizer& tokenizer) {
  const std::string_view bytes = tokenizer.Bytes(id);
  Utf8Stream stream;
  std::string text = stream.Push(bytes);
  text += stream.Finish();
  json.Key("token").String(text);
  json.Key("logprob").Float(std::isfinite(logprob) ? std::max(logprob, kLowest) : kLowest);
  json.Key("bytes");
  if (bytes.empty()) {
    json.Null();
    return;
  }
  json.BeginArray();
  for (const char byte : bytes) json.Integer(static_cast<unsigned char>(byte));
  json.EndArray();
}

}  // namespace

std::string LogprobJson(const SampledToken& token, const Tokenizer& tokenizer) {
  std::string out;
  JsonWriter json(out);
  json.BeginObject();
  WriteToken(json, token.id, token.logprob, tokenizer);
  json.Key("top_logprobs").BeginArray();
  for (const TokenLogprob& top : token.top) {
    json.BeginObject();
    WriteToken(json, top.id, top.logprob, tokenizer);
    json.EndObject();
  }
  json.EndArray().EndObject();
  return out;
}

}  // namespace rose

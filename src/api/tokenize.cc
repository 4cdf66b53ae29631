#include "api/tokenize.h"

#include "api/chat_completions.h"
#include "api/completions.h"
#include "api/json_writer.h"
#include "api/logprob_json.h"
#include "api/token_fields.h"

namespace rose {
namespace {

// To count tokens is how clients learn that a prompt is too long.
ApiContext WithoutLimits(ApiContext context) {
  context.max_context = int64_t{1} << 40;
  context.max_prompt_total = context.max_context;
  return context;
}

std::string TokensBody(const std::vector<int32_t>& ids, const ApiContext& context,
                       bool with_texts) {
  std::string out;
  JsonWriter json(out);
  json.BeginObject().Key("count").Integer(std::ssize(ids));
  json.Key("max_model_len").Integer(context.max_context);
  json.Key("tokens").Integers(ids);
  json.Key("token_strs");
  if (with_texts) {
    json.BeginArray();
    for (const int32_t id : ids) json.String(TokenName(id, *context.tokenizer));
    json.EndArray();
  } else {
    json.Null();
  }
  json.EndObject();
  return out;
}

}  // namespace

Reply Tokenize(std::string_view body, const ApiContext& context, int64_t now) {
  const auto json = ParseJson(body);
  if (!json.ok()) return ErrorFromStatus(json.status());
  std::optional<ApiError> error;
  FieldReader fields(*json, "", error);
  const bool with_texts = fields.Bool("return_token_strs", false);
  std::vector<int32_t> ids;
  if (fields.Get("messages") && fields.Get("prompt")) {
    fields.Fail("prompt", "cannot be given together with messages; send one of them");
  }
  if (!error && fields.Get("messages")) {
    auto parsed = ParseChatRequest(body, WithoutLimits(context), now);
    if (auto* failed = std::get_if<ApiError>(&parsed)) return std::move(*failed);
    ids = std::move(std::get<ChatCall>(parsed).request.prompt);
  } else {
    Generation call;
    if (!error) ReadModel(fields, context, call);
    if (!fields.Get("prompt")) fields.Fail("prompt", "is missing; give a text, or messages");
    ids = context.tokenizer->EncodeWithSpecials(fields.String("prompt"));
  }
  if (error) return *error;
  return TokensBody(ids, context, with_texts);
}

Reply Detokenize(std::string_view body, const ApiContext& context, int64_t) {
  const auto json = ParseJson(body);
  if (!json.ok()) return ErrorFromStatus(json.status());
  std::optional<ApiError> error;
  FieldReader fields(*json, "", error);
  Generation call;
  if (!error) ReadModel(fields, context, call);
  if (!fields.Get("tokens")) fields.Fail("tokens", "is missing");
  const std::vector<int32_t> ids = ReadTokenIds(fields, context, "tokens");
  if (error) return *error;
  Utf8Stream utf8;
  std::string text = utf8.Push(context.tokenizer->Decode(ids));
  text += utf8.Finish();
  std::string out;
  JsonWriter(out).BeginObject().Key("prompt").String(text).EndObject();
  return out;
}

Reply RenderChatCompletion(std::string_view body, const ApiContext& context, int64_t now) {
  auto parsed = ParseChatRequest(body, context, now);
  if (auto* error = std::get_if<ApiError>(&parsed)) return std::move(*error);
  std::string out;
  JsonWriter json(out);
  json.BeginObject().Key("token_ids").Integers(std::get<ChatCall>(parsed).request.prompt);
  json.EndObject();
  return out;
}

Reply RenderCompletion(std::string_view body, const ApiContext& context, int64_t now) {
  auto parsed = ParseCompletionRequest(body, context, now);
  if (auto* error = std::get_if<ApiError>(&parsed)) return std::move(*error);
  std::string out;
  JsonWriter json(out);
  json.BeginArray();
  for (const std::vector<int32_t>& prompt : std::get<CompletionCall>(parsed).prompts) {
    json.BeginObject().Key("token_ids").Integers(prompt).EndObject();
  }
  json.EndArray();
  return out;
}

}  // namespace rose

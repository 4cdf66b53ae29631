#include "api/generation.h"

#include <algorithm>
#include <limits>

namespace rose {
namespace {

constexpr size_t kMaxStops = 16;
constexpr size_t kMaxStopBytes = 512;
constexpr size_t kMaxStopIds = 256;

bool IsOff(const JsonValue& value) {
  if (value.boolean()) return !*value.boolean();
  if (value.string()) return value.string()->empty();
  if (value.array()) return value.array()->empty();
  return value.object() && value.object()->empty();
}

void ReadPenalties(FieldReader& fields, SamplingParams& p) {
  p.presence_penalty = fields.Number("presence_penalty", p.presence_penalty, -2, 2);
  p.frequency_penalty = fields.Number("frequency_penalty", p.frequency_penalty, -2, 2);
  p.repetition_penalty = fields.Number("repetition_penalty", p.repetition_penalty, 0.01, 100);
}

void ReadBias(FieldReader& fields, const ApiContext& context, SamplingParams& p) {
  const JsonValue* bias = fields.Get("logit_bias");
  if (!bias) return;
  if (!bias->object()) return fields.Fail("logit_bias", "must be an object of token ids");
  for (const auto& [key, value] : *bias->object()) {
    const std::string path = "logit_bias." + key;
    // A key is a decimal number, which JSON's grammar for numbers checks as well.
    const auto id = JsonValue(JsonValue::Number{key}).AsInteger();
    const bool digits = !key.empty() && key.find_first_not_of("0123456789") == key.npos;
    if (!digits || !id || *id >= context.vocab)
      return fields.FailAt(path, "names no token id of the vocabulary");
    const auto number = value.AsDouble();
    if (!number) return fields.FailAt(path, "must be a number between -100 and 100");
    p.logit_bias.emplace_back(static_cast<int32_t>(*id),
                              static_cast<float>(std::clamp(*number, -100.0, 100.0)));
  }
}

void ReadStopIds(FieldReader& fields, const ApiContext& context, std::vector<int32_t>& ids) {
  if (!fields.Bool("ignore_eos", false)) ids = context.format->stop_ids();
  const auto* more = fields.Array("stop_token_ids");
  for (size_t i = 0; more && i < more->size(); ++i) {
    const auto id = (*more)[i].AsInteger();
    if (!id || *id < 0 || *id >= context.vocab)
      return fields.FailAt(StrCat("stop_token_ids[", i, "]"), "is no token id of the vocabulary");
    if (std::find(ids.begin(), ids.end(), *id) == ids.end())
      ids.push_back(static_cast<int32_t>(*id));
    if (ids.size() > kMaxStopIds) return fields.Fail("stop_token_ids", "has more than 256 ids");
  }
}

}  // namespace

Request Generation::RequestOf(int64_t index) const {
  Request out = request;
  if (new_constraint) out.constraint = new_constraint();
  // Any fixed function of seed and index does; this constant spreads the bits (2^64 / golden
  // ratio).
  if (out.sampling.seed && index > 0)
    out.sampling.seed = *out.sampling.seed + static_cast<uint64_t>(index) * 0x9e3779b97f4a7c15u;
  return out;
}

std::vector<Request> Generation::Requests() const {
  std::vector<Request> out;
  for (int64_t i = 0; i < choices; ++i) out.push_back(RequestOf(i));
  return out;
}

void Generation::ForgetPrompt() {
  chat.messages = {};
  chat.response_format.reset();
  form.reset();
  new_constraint = nullptr;
  for (ToolSpec& tool : chat.tools) tool = {.name = std::move(tool.name)};
  if (!return_token_ids) request.prompt = {};
}

std::optional<ApiError> FailureOf(const TokenEvent& event) {
  switch (event.finish) {
    case FinishReason::kNone:
    case FinishReason::kStop:
    case FinishReason::kLength:
      return {};
    case FinishReason::kCancelled:
      return ApiError{.http_status = 503, .message = "The request was cancelled by the server."};
    case FinishReason::kExpired:
      return ApiError{.http_status = 503,
                      .message = "The server is too busy: " + event.error + ". Try again later."};
    case FinishReason::kError:
      break;
  }
  const bool too_hard = event.error.starts_with(kConstraintTooHard);
  // Further lines are for who runs the server: what a device was doing when it failed.
  return ApiError{.http_status = too_hard ? 400 : 500,
                  .message = event.error.substr(0, event.error.find('\n')) + (too_hard ? "." : "")};
}

void Refuse(FieldReader& fields, std::span<const char* const> names) {
  for (const char* name : names)
    if (const JsonValue* value = fields.Get(name); value && !IsOff(*value))
      fields.Fail(name, "is not supported by this server");
}

void ReadModel(FieldReader& fields, const ApiContext& context, Generation& out) {
  const auto& served = context.models;
  out.model = fields.String("model", served[0]);
  if (std::find(served.begin(), served.end(), out.model) == served.end())
    fields.Fail(UnknownModel(out.model));
}

void ReadSampling(FieldReader& fields, const ApiContext& context, SamplingParams& out) {
  out = context.defaults;
  out.temperature = fields.Number("temperature", out.temperature, 0, 2);
  out.top_p = fields.Number("top_p", out.top_p, 0, 1);
  // 0 leaves the most likely token alone; the engine wants it positive.
  if (out.top_p == 0) out.top_p = std::numeric_limits<double>::min();
  out.min_p = fields.Number("min_p", out.min_p, 0, 1);
  out.top_k = static_cast<int>(std::max<int64_t>(
      0, fields.Integer("top_k", out.top_k, -1, std::numeric_limits<int>::max())));
  if (fields.Get("seed"))
    out.seed = static_cast<uint64_t>(fields.Integer("seed", 0, INT64_MIN, INT64_MAX));
  ReadPenalties(fields, out);
  ReadBias(fields, context, out);
}

void ReadChoices(FieldReader& fields, const ApiContext& context, Generation& out) {
  out.choices = fields.Integer("n", 1, 1, std::min(context.max_choices, context.max_requests));
  if (out.choices > 1 && out.request.sampling.temperature == 0)
    fields.Fail("n", "must be 1 with temperature 0, since all choices would be the same");
}

void ReadStops(FieldReader& fields, const ApiContext& context, std::string_view name,
               Generation& out) {
  out.include_stop = fields.Bool("include_stop_str_in_output", false);
  if (const JsonValue* stop = fields.Get(name)) {
    if (stop->string()) out.stop.push_back(*stop->string());
    if (!stop->string() && !stop->array())
      return fields.Fail(name, "must be a string or a list of strings");
    for (const JsonValue& item : stop->array() ? *stop->array() : JsonValue::Array()) {
      if (!item.string()) return fields.Fail(name, "must be a string or a list of strings");
      out.stop.push_back(*item.string());
    }
  }
  if (out.stop.size() > kMaxStops) return fields.Fail(name, "has more than 16 strings");
  for (const std::string& text : out.stop)
    if (text.empty() || text.size() > kMaxStopBytes)
      return fields.Fail(name, "must hold strings of 1 to 512 bytes");
  ReadStopIds(fields, context, out.request.stop_ids);
}

void ReadStream(FieldReader& fields, Generation& out) {
  out.stream = fields.Bool("stream", false);
  const JsonValue* json = fields.Get("stream_options");
  if (!json || (json->object() && json->object()->empty())) return;
  if (!out.stream) return fields.Fail("stream_options", "is only allowed with stream: true");
  FieldReader options = fields.Inner(*json, "stream_options");
  out.include_usage = options.Bool("include_usage", false);
  out.continuous_usage = options.Bool("continuous_usage_stats", false);
}

void SetEffort(FieldReader& fields, const ApiContext& context, const std::string& path,
               std::string_view effort, ChatRequest& out) {
  const bool may_be_none = context.format->may_skip_thoughts();
  if (effort == "low") {
    out.effort = ReasoningEffort::kLow;
  } else if (effort == "medium") {
    out.effort = ReasoningEffort::kMedium;
  } else if (effort == "high") {
    out.effort = ReasoningEffort::kHigh;
  } else if (may_be_none && (effort == "none" || effort == "minimal")) {
    out.effort = ReasoningEffort::kNone;
  } else {
    fields.FailAt(path, StrCat("must be ", may_be_none ? "\"none\", \"minimal\", " : "",
                               "\"low\", \"medium\" or \"high\", not \"", effort, "\""));
  }
}

std::string DateOf(const ApiContext& context, int64_t now) {
  return context.fixed_date.empty() ? UtcDate(now) : context.fixed_date;
}

ApiError ContextError(const ApiContext& context, std::string_view name, std::string_view input,
                      int64_t used, int64_t wanted) {
  const bool prompt_fits = used < context.max_context;
  ApiError error{.param = std::string(prompt_fits ? name : input),
                 .code = "context_length_exceeded"};
  error.message = StrCat("This model's maximum context length is ", context.max_context,
                         " tokens. However, the ", input,
                         (input == "messages" ? " have " : " has "), used, " tokens");
  if (prompt_fits) error.message += StrCat(" and ", name, " asks for ", wanted);
  error.message += StrCat(". Shorten the ", input, " or ask for fewer tokens.");
  return error;
}

void ReadPromptAndLimits(FieldReader& fields, const ApiContext& context, std::string_view name,
                         std::string_view input, Generation& out) {
  auto prompt = context.format->Render(out.chat);
  if (!prompt.ok()) return fields.Fail(ErrorFromStatus(prompt.status()));
  out.request.prompt = std::move(prompt).value();
  ReadLimits(fields, context, name, input, out);
}

void ReadLimits(FieldReader& fields, const ApiContext& context, std::string_view name,
                std::string_view input, Generation& out) {
  Request& request = out.request;
  const int64_t used = static_cast<int64_t>(request.prompt.size());
  const int64_t room = context.max_context - used;
  request.max_tokens = fields.Integer(name, std::max<int64_t>(room, 1), 1, INT64_MAX);
  if (!fields.ok()) return;
  if (request.max_tokens > room)
    return fields.Fail(ContextError(context, name, input, used, request.max_tokens));
  request.min_tokens = fields.Integer("min_tokens", 0, 0, request.max_tokens);
  if (used * out.choices > context.max_prompt_total)
    fields.Fail("n", StrCat("is too large for a prompt of ", used, " tokens"));
}

}  // namespace rose

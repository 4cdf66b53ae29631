// ParseCompletionRequest: the body of POST /v1/completions, field by field.
#include <algorithm>

#include "api/chat_tools.h"
#include "api/completions.h"
#include "api/output_form.h"
#include "api/token_fields.h"

namespace rose {
namespace {

constexpr int64_t kMaxLogprobs = 20;
constexpr int64_t kMaxAnswers = 1024;
constexpr int64_t kDefaultTokens = 16;

// Fields that would change the answer and are not offered. A value that means "off" is fine.
constexpr const char* kRefused[] = {"suffix", "use_beam_search"};

class CompletionParser {
 public:
  CompletionParser(const JsonValue& body, const ApiContext& context)
      : context_(context), fields_(body, "", error_) {}

  std::variant<CompletionCall, ApiError> Parse(int64_t now) {
    if (!error_) ReadModel(fields_, context_, call_);
    if (!error_) {
      Refuse(fields_, kRefused);
      ReadPrompts();
      ReadSampling(fields_, context_, call_.request.sampling);
      ReadChoices(fields_, context_, call_);
      ReadStops(fields_, context_, "stop", call_);
      ReadStream(fields_, call_);
      ReadTokenFields(fields_, context_, call_);
      ReadShape();
      call_.form =
          FormOf(ReadResponseFormat(fields_, "response_format", error_), "response_format");
      ReadForm(fields_, call_.form);
    }
    if (!error_) ReadTokenLimits();
    if (!error_) ReadLogprobs();
    if (!error_) ConstrainText(fields_, context_, call_);
    if (error_) return *error_;
    call_.created = now;
    call_.id = context_.NewId("cmpl-");
    return std::move(call_);
  }

 private:
  // prompt: a text, a list of texts, a list of token ids, or a list of such lists.
  void ReadPrompts() {
    const JsonValue* prompt = fields_.Get("prompt");
    if (!prompt) return fields_.Fail("prompt", "is missing");
    const auto* items = prompt->array();
    if (!items || (!items->empty() && items->front().number())) return AddPrompt(*prompt, "prompt");
    if (items->empty()) return fields_.Fail("prompt", "must not be empty");
    for (size_t i = 0; i < items->size() && !error_; ++i)
      AddPrompt((*items)[i], StrCat("prompt[", i, "]"));
  }

  void AddPrompt(const JsonValue& json, const std::string& path) {
    std::vector<int32_t>& ids = call_.prompts.emplace_back();
    if (json.string()) {
      ids = context_.tokenizer->EncodeWithSpecials(*json.string());
    } else if (json.array()) {
      for (const JsonValue& item : *json.array()) {
        const auto id = item.AsInteger();
        if (!id || *id < 0 || *id >= context_.vocab)
          return fields_.FailAt(path, "must hold ids of the vocabulary, as integers");
        ids.push_back(static_cast<int32_t>(*id));
      }
    } else {
      return fields_.FailAt(path, "must be a text, a list of token ids, or a list of these");
    }
    if (ids.empty()) fields_.FailAt(path, "must have at least one token");
  }

  void ReadShape() {
    call_.echo = fields_.Bool("echo", false);
    call_.skip_special = fields_.Bool("skip_special_tokens", true);
    fields_.Bool("add_special_tokens", true);  // this vocabulary adds none
    const int64_t best_of = fields_.Integer("best_of", call_.choices, 1, INT64_MAX);
    if (best_of != call_.choices)
      fields_.Fail("best_of", "is not supported by this server beyond n; leave it out");
    const int64_t most = std::min(kMaxAnswers, context_.max_requests);
    if (call_.answers() > most)
      fields_.Fail("prompt", StrCat("and n ask for ", call_.answers(),
                                    " answers at once; this server takes at most ", most));
  }

  void ReadTokenLimits() {
    int64_t wanted = fields_.Integer("max_tokens", kDefaultTokens, 0, INT64_MAX);
    if (error_) return;
    call_.only_prompt = wanted == 0;
    if (call_.only_prompt && !call_.echo)
      return fields_.Fail("max_tokens", "must be at least 1, unless echo is true");
    Truncate(wanted);
    int64_t longest = 0, total = 0;
    for (const auto& prompt : call_.prompts) {
      longest = std::max(longest, std::ssize(prompt));
      total += std::ssize(prompt) * call_.choices;
    }
    const int64_t room = context_.max_context - longest;
    if (!fields_.Get("max_tokens")) wanted = std::clamp<int64_t>(room, 1, kDefaultTokens);
    // Even for a prompt alone the engine draws a token.
    Request& request = call_.request;
    request.max_tokens = std::max<int64_t>(1, wanted);
    if (request.max_tokens > room)
      return fields_.Fail(ContextError(context_, "max_tokens", "prompt", longest, wanted));
    request.min_tokens = fields_.Integer("min_tokens", 0, 0, request.max_tokens);
    if (total > context_.max_prompt_total)
      fields_.Fail("prompt", StrCat("has ", total, " tokens, counted for each of n; at most ",
                                    context_.max_prompt_total, " are taken at once"));
  }

  // truncate_prompt_tokens: the last k tokens of each prompt; -1 = as many as fit.
  void Truncate(int64_t wanted) {
    if (!fields_.Get("truncate_prompt_tokens")) return;
    int64_t keep = fields_.Integer("truncate_prompt_tokens", 1, -1, INT64_MAX);
    if (keep == 0) return fields_.Fail("truncate_prompt_tokens", "must be -1 or at least 1");
    if (keep < 0) keep = std::max<int64_t>(1, context_.max_context - std::max<int64_t>(1, wanted));
    for (auto& prompt : call_.prompts) {
      if (std::ssize(prompt) > keep) prompt.erase(prompt.begin(), prompt.end() - keep);
    }
  }

  void ReadLogprobs() {
    int64_t top = -1;
    if (fields_.Get("logprobs")) top = fields_.Integer("logprobs", 0, -1, kMaxLogprobs);
    if (fields_.Get("logprobs") && top < 0) top = context_.vocab;
    call_.logprobs = top;
    call_.prompt_logprobs = call_.request.prompt_logprobs;
    call_.request.sampling.logprobs = static_cast<int>(top);
    if (call_.echo && top > call_.request.prompt_logprobs) call_.request.prompt_logprobs = top;
    int64_t positions = call_.request.max_tokens * call_.answers(), prompt_tokens = 0;
    for (const auto& prompt : call_.prompts) prompt_tokens += std::ssize(prompt) * call_.choices;
    CheckWholeVocabulary(fields_, context_, "logprobs", top,
                         positions + (call_.echo ? prompt_tokens : 0));
    CheckWholeVocabulary(fields_, context_, "prompt_logprobs", call_.prompt_logprobs,
                         prompt_tokens);
  }

  const ApiContext& context_;
  std::optional<ApiError> error_;
  FieldReader fields_;
  CompletionCall call_;
};

}  // namespace

std::vector<Request> CompletionCall::Requests() const {
  std::vector<Request> out;
  for (const std::vector<int32_t>& prompt : prompts) {
    for (int64_t i = 0; i < choices; ++i) {
      out.push_back(RequestOf(i));
      out.back().prompt = prompt;
    }
  }
  return out;
}

std::variant<CompletionCall, ApiError> ParseCompletionRequest(std::string_view body,
                                                              const ApiContext& context,
                                                              int64_t now) {
  const auto json = ParseJson(body);
  if (!json.ok()) return ErrorFromStatus(json.status());
  return CompletionParser(*json, context).Parse(now);
}

Prepared PrepareCompletion(std::string_view body, const ApiContext& context, int64_t now) {
  auto parsed = ParseCompletionRequest(body, context, now);
  if (auto* error = std::get_if<ApiError>(&parsed)) return std::move(*error);
  const CompletionCall& call = std::get<CompletionCall>(parsed);
  return PreparedCall{call.model, call.stream, call.Requests(),
                      std::make_unique<CompletionAnswer>(call, context)};
}

}  // namespace rose

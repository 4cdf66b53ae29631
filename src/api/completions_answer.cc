// CompletionAnswer: the choices of a completion, written as one body or as stream chunks.
#include <algorithm>
#include <cmath>

#include "api/choices_json.h"
#include "api/completion_choice.h"
#include "api/completions.h"
#include "api/json_writer.h"
#include "api/logprob_json.h"

namespace rose {
namespace {

constexpr std::string_view kObject = "text_completion";

}  // namespace

struct CompletionAnswer::State {
  struct Choice {
    CompletionChoice choice;
    CompletionPiece whole;  // not streamed
    bool begun = false;     // streamed: a chunk is out
  };

  CompletionCall call;
  const ApiContext& context;
  int64_t prompt_tokens = 0;
  std::vector<std::unique_ptr<Choice>> choices;
  std::optional<ApiError> failed;

  State(const CompletionCall& the_call, const ApiContext& the_context)
      : call(the_call), context(the_context) {
    for (std::vector<int32_t>& prompt : call.prompts) {
      prompt_tokens += std::ssize(prompt);
      // A stream may live for minutes: it keeps no prompt that it does not show.
      if (!call.echo && !call.return_token_ids) prompt = {};
    }
    for (int64_t i = 0; i < call.answers(); ++i)
      choices.push_back(
          std::make_unique<Choice>(Choice{CompletionChoice(call, context, PromptOf(i)), {}}));
  }

  const std::vector<int32_t>& PromptOf(int64_t index) const {
    return call.prompts[index / call.choices];
  }

  int64_t CompletionTokens() const {
    int64_t sum = 0;
    for (const auto& choice : choices) sum += choice->choice.completion_tokens();
    return sum;
  }
  Usage UsageNow() const {
    int64_t cached = 0;
    for (const auto& choice : choices) cached = std::max(cached, choice->choice.cached_tokens());
    return {prompt_tokens, CompletionTokens(), cached, /*reasoning_tokens=*/0};
  }

  std::string Name(int32_t id) const {
    return call.tokens_as_ids ? StrCat("token_id:", id) : TokenName(id, *context.tokenizer);
  }

  // The most likely by name, and the token itself.
  void WriteTop(JsonWriter& json, const SampledToken& token) const {
    std::vector<std::string> names;
    json.BeginObject();
    const auto add = [&](int32_t id, float logprob) {
      std::string name = Name(id);
      if (std::find(names.begin(), names.end(), name) != names.end()) return;
      json.Key(name).Float(JsonLogprob(logprob));
      // Over a whole vocabulary names are not compared, but they differ.
      if (names.size() < 100) names.push_back(std::move(name));
    };
    for (const TokenLogprob& top : token.top) add(top.id, top.logprob);
    const auto is_token = [&](const TokenLogprob& top) { return top.id == token.id; };
    if (std::none_of(token.top.begin(), token.top.end(), is_token)) add(token.id, token.logprob);
    json.EndObject();
  }

  void WriteLogprobs(JsonWriter& json, const std::vector<TextLogprob>& entries) const {
    json.BeginObject().Key("text_offset").BeginArray();
    for (const TextLogprob& entry : entries) json.Integer(entry.offset);
    json.EndArray().Key("token_logprobs").BeginArray();
    for (const TextLogprob& entry : entries) {
      if (entry.has_logprob) {
        json.Float(JsonLogprob(entry.token.logprob));
      } else {
        json.Null();
      }
    }
    json.EndArray().Key("tokens").BeginArray();
    for (const TextLogprob& entry : entries) json.String(Name(entry.token.id));
    json.EndArray().Key("top_logprobs").BeginArray();
    for (const TextLogprob& entry : entries) {
      if (entry.has_logprob) {
        WriteTop(json, entry.token);
      } else {
        json.Null();
      }
    }
    json.EndArray().EndObject();
  }

  // The members that a choice has in a chunk and in a body.
  void WriteChoice(JsonWriter& json, int64_t index, const CompletionPiece& piece) const {
    const CompletionChoice& choice = choices[index]->choice;
    json.Key("index").Integer(index).Key("text").String(piece.text).Key("logprobs");
    if (call.logprobs >= 0) {
      WriteLogprobs(json, piece.logprobs);
    } else {
      json.Null();
    }
    json.Key("finish_reason").StringOrNull(choice.finish_reason());
    json.Key("stop_reason").Raw(choice.stop_reason());
    WriteIds(json, call, "token_ids", piece.token_ids);
  }

  void WritePromptIds(JsonWriter& json, int64_t index) const {
    WriteIds(json, call, "prompt_token_ids", PromptOf(index));
  }

  std::string Chunk(int64_t index, const CompletionPiece& piece) {
    std::string out;
    JsonWriter json(out);
    WriteHead(json, call, kObject);
    json.Key("choices").BeginArray().BeginObject();
    WriteChoice(json, index, piece);
    if (!std::exchange(choices[index]->begun, true)) WritePromptIds(json, index);
    json.EndObject().EndArray();
    WriteChunkUsage(json, call, UsageNow());
    json.EndObject();
    return out;
  }
};

CompletionAnswer::CompletionAnswer(const CompletionCall& call, const ApiContext& context)
    : state_(std::make_unique<State>(call, context)) {}
CompletionAnswer::~CompletionAnswer() = default;

void CompletionAnswer::Push(int64_t index, const TokenEvent& event,
                            std::vector<StreamEvent>& events) {
  State& s = *state_;
  ROSE_CHECK(index >= 0 && index < s.call.answers(), "choice ", index);
  State::Choice& choice = *s.choices[index];
  if (choice.choice.ended() || s.failed) return;
  CompletionPiece piece = choice.choice.Push(event);
  if ((s.failed = choice.choice.failed())) {
    if (s.call.stream) events.push_back({ErrorBody(*s.failed)});
    return;
  }
  if (s.call.stream) {
    if (!piece.empty() || choice.choice.ended()) events.push_back({s.Chunk(index, piece)});
    return;
  }
  choice.whole.text += piece.text;
  std::move(piece.logprobs.begin(), piece.logprobs.end(),
            std::back_inserter(choice.whole.logprobs));
  choice.whole.token_ids.insert(choice.whole.token_ids.end(), piece.token_ids.begin(),
                                piece.token_ids.end());
}

bool CompletionAnswer::ended(int64_t index) const {
  return state_->choices[index]->choice.ended();
}

bool CompletionAnswer::done() const {
  return state_->failed || std::all_of(state_->choices.begin(), state_->choices.end(),
                                       [](const auto& c) { return c->choice.ended(); });
}

const std::optional<ApiError>& CompletionAnswer::failed() const {
  return state_->failed;
}

void CompletionAnswer::Finish(std::vector<StreamEvent>& events) {
  const State& s = *state_;
  FinishChunks(s.call, kObject, s.failed.has_value(), s.UsageNow(), events);
}

std::string CompletionAnswer::Body() const {
  const State& s = *state_;
  ROSE_CHECK(done() && !s.failed, "an answer that is not complete has no body");
  std::string out;
  JsonWriter json(out);
  WriteHead(json, s.call, kObject);
  json.Key("choices").BeginArray();
  for (int64_t i = 0; i < s.call.answers(); ++i) {
    json.BeginObject();
    s.WriteChoice(json, i, s.choices[i]->whole);
    s.WritePromptIds(json, i);
    json.Key("prompt_logprobs");
    if (s.call.prompt_logprobs >= 0) {
      WritePromptLogprobs(json, s.choices[i]->choice.prompt_scores(), s.call.prompt_logprobs,
                          *s.context.tokenizer);
    } else {
      json.Null();
    }
    json.EndObject();
  }
  json.EndArray();
  json.Key("service_tier").Null().Key("system_fingerprint").Null();
  WriteUsage(json.Key("usage"), s.UsageNow());
  json.Key("kv_transfer_params").Null().EndObject();
  return out;
}

int64_t CompletionAnswer::prompt_tokens() const {
  return state_->prompt_tokens;
}
int64_t CompletionAnswer::completion_tokens() const {
  return state_->CompletionTokens();
}

}  // namespace rose

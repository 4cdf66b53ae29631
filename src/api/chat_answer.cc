// ChatAnswer: the choices of an answer, written as one body or as stream chunks.
#include <algorithm>

#include "api/chat_choice.h"
#include "api/chat_completions.h"
#include "api/choices_json.h"
#include "api/json_writer.h"
#include "api/logprob_json.h"

namespace rose {
namespace {

constexpr std::string_view kChunk = "chat.completion.chunk";

// The message of a choice that is not streamed.
struct Message {
  struct Call {
    std::string id, name, arguments;
  };
  std::string reasoning, content;
  std::vector<Call> calls;
  std::vector<std::string> logprobs;

  void Add(ChoiceDelta delta) {
    switch (delta.kind) {
      case ChoiceDelta::Kind::kReasoning:
        reasoning += delta.text;
        return;
      case ChoiceDelta::Kind::kContent:
        content += delta.text;
        std::move(delta.logprobs.begin(), delta.logprobs.end(), std::back_inserter(logprobs));
        return;
      case ChoiceDelta::Kind::kCallOpened:
        calls.push_back({delta.call_id, delta.text, ""});
        return;
      case ChoiceDelta::Kind::kArguments:
        calls[delta.call].arguments += delta.text;
        return;
      case ChoiceDelta::Kind::kClosed:
        return;
    }
  }
};

void WriteLogprobs(JsonWriter& json, const std::vector<std::string>& entries) {
  json.BeginObject().Key("content").BeginArray();
  for (const std::string& entry : entries) json.Raw(entry);
  json.EndArray().Key("refusal").Null().EndObject();
}

// The object inside "delta".
void WriteDelta(JsonWriter& json, const ChoiceDelta& delta) {
  json.BeginObject();
  switch (delta.kind) {
    case ChoiceDelta::Kind::kReasoning:
      json.Key("reasoning").String(delta.text).Key("reasoning_content").String(delta.text);
      break;
    case ChoiceDelta::Kind::kContent:
      json.Key("content").String(delta.text);
      break;
    case ChoiceDelta::Kind::kCallOpened:
      json.Key("tool_calls").BeginArray().BeginObject();
      json.Key("index").Integer(delta.call);
      json.Key("id").String(delta.call_id).Key("type").String("function");
      json.Key("function").BeginObject();
      json.Key("name").String(delta.text).Key("arguments").String("").EndObject();
      json.EndObject().EndArray();
      break;
    case ChoiceDelta::Kind::kArguments:
      json.Key("tool_calls").BeginArray().BeginObject();
      json.Key("index").Integer(delta.call);
      json.Key("function").BeginObject().Key("arguments").String(delta.text).EndObject();
      json.EndObject().EndArray();
      break;
    case ChoiceDelta::Kind::kClosed:
      break;
  }
  json.EndObject();
}

void WriteMessage(JsonWriter& json, const Message& message, bool include_reasoning) {
  json.BeginObject().Key("role").String("assistant").Key("content");
  // Calls alone have no content; anything else has some, if only an empty one.
  if (message.content.empty() && !message.calls.empty()) {
    json.Null();
  } else {
    json.String(message.content);
  }
  if (include_reasoning) {
    json.Key("reasoning").StringOrNull(message.reasoning);
    json.Key("reasoning_content").StringOrNull(message.reasoning);
  }
  for (const char* name : {"refusal", "annotations", "audio", "function_call"})
    json.Key(name).Null();
  if (!message.calls.empty()) {
    json.Key("tool_calls").BeginArray();
    for (const Message::Call& call : message.calls) {
      json.BeginObject().Key("id").String(call.id).Key("type").String("function");
      json.Key("function").BeginObject().Key("name").String(call.name);
      json.Key("arguments").String(call.arguments).EndObject().EndObject();
    }
    json.EndArray();
  }
  json.EndObject();
}

ChatCall WithoutPrompt(ChatCall call) {
  call.ForgetPrompt();
  return call;
}

}  // namespace

struct ChatAnswer::State {
  struct Choice {
    ChatChoice choice;
    Message message;                              // not streamed
    bool role_sent = false;                       // streamed
    int64_t last_reasoning = -1, last_text = -1;  // the message that last spoke in each field

    // Several messages of a field are joined by line ends.
    void Join(ChoiceDelta& delta) {
      const bool reasoning = delta.kind == ChoiceDelta::Kind::kReasoning;
      if ((!reasoning && delta.kind != ChoiceDelta::Kind::kContent) || delta.text.empty()) return;
      int64_t& last = reasoning ? last_reasoning : last_text;
      if (last >= 0 && last != delta.message) delta.text.insert(0, "\n");
      last = delta.message;
    }
  };

  const ChatCall call;  // without what only the prompt needed
  const ApiContext& context;
  const int64_t prompt_tokens;
  std::vector<std::unique_ptr<Choice>> choices;
  std::optional<ApiError> failed;

  State(const ChatCall& the_call, const ApiContext& the_context)
      : call(WithoutPrompt(the_call)),
        context(the_context),
        prompt_tokens(static_cast<int64_t>(the_call.request.prompt.size())) {
    for (int64_t i = 0; i < call.choices; ++i)
      choices.push_back(std::make_unique<Choice>(Choice{ChatChoice(call, context), {}}));
  }

  int64_t Sum(int64_t (ChatChoice::*count)() const) const {
    int64_t sum = 0;
    for (const auto& choice : choices) sum += (choice->choice.*count)();
    return sum;
  }

  Usage UsageNow() const {
    int64_t cached = 0;
    for (const auto& choice : choices) cached = std::max(cached, choice->choice.cached_tokens());
    return {prompt_tokens, Sum(&ChatChoice::completion_tokens), cached,
            Sum(&ChatChoice::reasoning_tokens)};
  }

  // One chunk of a choice; `delta` is the JSON of its delta, `logprobs` is null or JSON.
  std::string Chunk(int64_t index, std::string_view delta, std::string_view logprobs) {
    ChatChoice& choice = choices[index]->choice;
    const bool last = delta == "{}";
    const bool is_first = !std::exchange(choices[index]->role_sent, true);
    std::string out;
    JsonWriter json(out);
    WriteHead(json, call, kChunk);
    json.Key("choices").BeginArray().BeginObject();
    json.Key("index").Integer(index).Key("delta").Raw(delta).Key("logprobs").Raw(logprobs);
    json.Key("finish_reason");
    if (last) {
      json.String(choice.finish_reason()).Key("stop_reason").Raw(choice.stop_reason());
    } else {
      json.Null();
    }
    if (call.return_token_ids) json.Key("token_ids").Integers(choice.TakeTokenIds());
    json.EndObject().EndArray();
    if (call.return_token_ids && is_first)
      json.Key("prompt_token_ids").Integers(call.request.prompt);
    WriteChunkUsage(json, call, UsageNow());
    json.EndObject();
    return out;
  }

  void StreamDeltas(int64_t index, const std::vector<ChoiceDelta>& deltas,
                    std::vector<StreamEvent>& events) {
    Choice& choice = *choices[index];
    if (!choice.role_sent)
      events.push_back({Chunk(index, R"({"role":"assistant","content":""})", "null")});
    for (const ChoiceDelta& delta : deltas) {
      if (delta.kind == ChoiceDelta::Kind::kClosed) continue;  // chat knows no single messages
      std::string text, logprobs = "null";
      JsonWriter json(text);
      WriteDelta(json, delta);
      if (!delta.logprobs.empty()) {
        logprobs.clear();
        JsonWriter entries(logprobs);
        WriteLogprobs(entries, delta.logprobs);
      }
      events.push_back({Chunk(index, text, logprobs)});
    }
    if (choice.choice.ended()) events.push_back({Chunk(index, "{}", "null")});
  }
};

ChatAnswer::ChatAnswer(const ChatCall& call, const ApiContext& context)
    : state_(std::make_unique<State>(call, context)) {}
ChatAnswer::~ChatAnswer() = default;

void ChatAnswer::Push(int64_t index, const TokenEvent& event, std::vector<StreamEvent>& events) {
  State& s = *state_;
  ROSE_CHECK(index >= 0 && index < s.call.choices, "choice ", index);
  State::Choice& choice = *s.choices[index];
  if (choice.choice.ended() || s.failed) return;
  std::vector<ChoiceDelta> deltas;
  choice.choice.Push(event, deltas);
  for (ChoiceDelta& delta : deltas) choice.Join(delta);
  if ((s.failed = choice.choice.failed())) {
    if (s.call.stream) events.push_back({ErrorBody(*s.failed)});
    return;
  }
  if (s.call.stream) return s.StreamDeltas(index, deltas, events);
  for (ChoiceDelta& delta : deltas) choice.message.Add(std::move(delta));
}

bool ChatAnswer::ended(int64_t index) const {
  return state_->choices[index]->choice.ended();
}

bool ChatAnswer::done() const {
  return state_->failed || std::all_of(state_->choices.begin(), state_->choices.end(),
                                       [](const auto& c) { return c->choice.ended(); });
}

const std::optional<ApiError>& ChatAnswer::failed() const {
  return state_->failed;
}

void ChatAnswer::Finish(std::vector<StreamEvent>& events) {
  const State& s = *state_;
  FinishChunks(s.call, kChunk, s.failed.has_value(), s.UsageNow(), events);
}

std::string ChatAnswer::Body() const {
  const State& s = *state_;
  ROSE_CHECK(done() && !s.failed, "an answer that is not complete has no body");
  std::string out;
  JsonWriter json(out);
  WriteHead(json, s.call, "chat.completion");
  json.Key("choices").BeginArray();
  for (int64_t i = 0; i < s.call.choices; ++i) {
    const State::Choice& choice = *s.choices[i];
    json.BeginObject().Key("index").Integer(i).Key("message");
    WriteMessage(json, choice.message, s.call.include_reasoning);
    json.Key("logprobs");
    if (s.call.request.sampling.logprobs >= 0) {
      WriteLogprobs(json, choice.message.logprobs);
    } else {
      json.Null();
    }
    json.Key("finish_reason").String(choice.choice.finish_reason());
    json.Key("stop_reason").Raw(choice.choice.stop_reason());
    WriteIds(json, s.call, "token_ids", choice.choice.token_ids());
    json.EndObject();
  }
  json.EndArray();
  json.Key("prompt_logprobs");
  if (s.call.request.prompt_logprobs >= 0) {
    WritePromptLogprobs(json, s.choices[0]->choice.prompt_scores(), s.call.request.prompt_logprobs,
                        *s.context.tokenizer);
  } else {
    json.Null();
  }
  WriteIds(json, s.call, "prompt_token_ids", s.call.request.prompt);
  json.Key("service_tier").Null().Key("system_fingerprint").Null();
  WriteUsage(json.Key("usage"), s.UsageNow());
  json.Key("kv_transfer_params").Null().EndObject();
  return out;
}

int64_t ChatAnswer::prompt_tokens() const {
  return state_->prompt_tokens;
}
int64_t ChatAnswer::completion_tokens() const {
  return state_->Sum(&ChatChoice::completion_tokens);
}

int64_t ChatAnswer::dropped_bytes() const {
  return state_->Sum(&ChatChoice::dropped_bytes);
}

}  // namespace rose

// MessagesAnswer: content blocks, written as one body or as the events of a stream.
#include <algorithm>
#include <utility>

#include "api/chat_choice.h"
#include "api/json_writer.h"
#include "api/messages.h"
#include "base/json.h"

namespace rose {
namespace {

struct Block {
  enum class Type { kThinking, kText, kToolUse };
  Type type = Type::kText;
  std::string id, name;  // kToolUse
  std::string text;      // not streamed: thought, text or the input as written
};

Block::Type TypeOf(ChoiceDelta::Kind kind) {
  switch (kind) {
    case ChoiceDelta::Kind::kReasoning:
      return Block::Type::kThinking;
    case ChoiceDelta::Kind::kContent:
      return Block::Type::kText;
    case ChoiceDelta::Kind::kCallOpened:
    case ChoiceDelta::Kind::kArguments:
    case ChoiceDelta::Kind::kClosed:  // has no text: a block ends when the next begins
      break;
  }
  return Block::Type::kToolUse;
}

// The input of a call as an object, whatever the model wrote.
void WriteInput(JsonWriter& json, const std::string& text) {
  const auto parsed = ParseJson(text);
  if (parsed.ok() && parsed->object()) {
    json.Raw(WriteJson(*parsed));
    return;
  }
  json.BeginObject();
  if (text.find_first_not_of(" \t\r\n") != text.npos) json.Key("INVALID_JSON").String(text);
  json.EndObject();
}

void WriteBlock(JsonWriter& json, const Block& block) {
  json.BeginObject().Key("type");
  switch (block.type) {
    case Block::Type::kThinking:
      json.String("thinking").Key("thinking").String(block.text).Key("signature").String("");
      break;
    case Block::Type::kText:
      json.String("text").Key("text").String(block.text).Key("citations").Null();
      break;
    case Block::Type::kToolUse:
      json.String("tool_use").Key("id").String(block.id).Key("name").String(block.name);
      WriteInput(json.Key("input"), block.text);
      break;
  }
  json.EndObject();
}

// The names of a block's deltas and of the field that they fill.
void WriteDelta(JsonWriter& json, Block::Type type, std::string_view text) {
  constexpr const char* kNames[] = {"thinking_delta", "text_delta", "input_json_delta"};
  constexpr const char* kFields[] = {"thinking", "text", "partial_json"};
  const auto index = static_cast<size_t>(type);
  json.BeginObject().Key("type").String(kNames[index]);
  json.Key(kFields[index]).String(text).EndObject();
}

// {"type": name, ...}: the caller adds the rest and the brace.
JsonWriter& BeginEvent(JsonWriter& json, std::string_view name) {
  return json.BeginObject().Key("type").String(name);
}

}  // namespace

struct MessagesAnswer::State {
  const int64_t prompt_tokens;
  const MessagesCall call;  // without what only the prompt needed
  ChatChoice choice;
  std::vector<Block> blocks;
  int64_t message = -1;  // of the last block: another message begins a new one
  bool open = false;     // streamed: the last block has not been closed
  std::optional<ApiError> failed;

  State(MessagesCall the_call, const ApiContext& context)
      : prompt_tokens(static_cast<int64_t>(the_call.request.prompt.size())),
        call((the_call.ForgetPrompt(), std::move(the_call))),
        choice(call, context) {}

  // What the stop reason is called here, and the stop sequence if one was met.
  void WriteStop(JsonWriter& json) const {
    const std::string& reason = choice.finish_reason();
    const bool sequence = reason == "stop" && choice.stop_reason().starts_with('"');
    json.Key("stop_reason");
    // A call that was named in the request is a plain stop in OpenAI's API, not here.
    const bool calls = !blocks.empty() && blocks.back().type == Block::Type::kToolUse;
    if (reason == "tool_calls" || (reason == "stop" && calls && !sequence)) {
      json.String("tool_use");
    } else if (reason == "length") {
      json.String(call.fills_context ? "model_context_window_exceeded" : "max_tokens");
    } else {
      json.String(sequence ? "stop_sequence" : "end_turn");
    }
    json.Key("stop_sequence").Raw(sequence ? choice.stop_reason() : "null");
  }

  // Tokens of the prompt that came from the cache are counted apart.
  void WriteUsage(JsonWriter& json) const {
    const int64_t cached = choice.cached_tokens();
    json.BeginObject().Key("input_tokens").Integer(prompt_tokens - cached);
    json.Key("cache_creation_input_tokens").Integer(0);
    json.Key("cache_read_input_tokens").Integer(cached);
    json.Key("output_tokens").Integer(choice.completion_tokens()).EndObject();
  }

  // `done`: with all blocks and the stop reason, else as it begins.
  void WriteMessage(JsonWriter& json, bool done) const {
    json.BeginObject().Key("id").String(call.id).Key("type").String("message");
    json.Key("role").String("assistant").Key("model").String(call.model);
    json.Key("content").BeginArray();
    for (const Block& block : blocks) WriteBlock(json, block);
    json.EndArray();
    if (done) {
      WriteStop(json);
    } else {
      json.Key("stop_reason").Null().Key("stop_sequence").Null();
    }
    WriteUsage(json.Key("usage"));
    json.EndObject();
  }

  int64_t last() const { return static_cast<int64_t>(blocks.size()) - 1; }

  void StreamDelta(std::string_view delta, std::vector<StreamEvent>& events) const {
    std::string out;
    JsonWriter json(out);
    BeginEvent(json, "content_block_delta").Key("index").Integer(last());
    json.Key("delta").Raw(delta).EndObject();
    events.push_back({std::move(out), "content_block_delta"});
  }

  void Close(std::vector<StreamEvent>& events) {
    if (!std::exchange(open, false)) return;
    if (blocks.back().type == Block::Type::kThinking)
      StreamDelta(R"({"type":"signature_delta","signature":""})", events);
    std::string out;
    JsonWriter json(out);
    BeginEvent(json, "content_block_stop").Key("index").Integer(last()).EndObject();
    events.push_back({std::move(out), "content_block_stop"});
  }

  void Open(const ChoiceDelta& delta, std::vector<StreamEvent>& events) {
    Close(events);
    Block block{.type = TypeOf(delta.kind)};
    if (block.type == Block::Type::kToolUse) {
      block.name = delta.text;
      block.id = delta.call_id;
    }
    blocks.push_back(std::move(block));
    message = delta.message;
    if (!call.stream) return;
    open = true;
    std::string out;
    JsonWriter json(out);
    BeginEvent(json, "content_block_start").Key("index").Integer(last());
    WriteBlock(json.Key("content_block"), blocks.back());
    json.EndObject();
    events.push_back({std::move(out), "content_block_start"});
  }

  void Add(const ChoiceDelta& delta, std::vector<StreamEvent>& events) {
    if (delta.kind == ChoiceDelta::Kind::kCallOpened) return Open(delta, events);
    if (delta.text.empty()) return;
    const Block::Type type = TypeOf(delta.kind);
    if (blocks.empty() || blocks.back().type != type || message != delta.message)
      Open(delta, events);
    if (!call.stream) {
      blocks.back().text += delta.text;
      return;
    }
    std::string out;
    JsonWriter json(out);
    WriteDelta(json, type, delta.text);
    StreamDelta(out, events);
  }

  void StreamEnd(std::vector<StreamEvent>& events) {
    Close(events);
    std::string out;
    JsonWriter json(out);
    BeginEvent(json, "message_delta").Key("delta").BeginObject();
    WriteStop(json);
    WriteUsage(json.EndObject().Key("usage"));
    json.EndObject();
    events.push_back({std::move(out), "message_delta"});
  }
};

MessagesAnswer::MessagesAnswer(MessagesCall call, const ApiContext& context)
    : state_(std::make_unique<State>(std::move(call), context)) {}
MessagesAnswer::~MessagesAnswer() = default;

void MessagesAnswer::Begin(std::vector<StreamEvent>& events) {
  std::string out;
  JsonWriter json(out);
  BeginEvent(json, "message_start").Key("message");
  state_->WriteMessage(json, false);
  json.EndObject();
  events.push_back({std::move(out), "message_start"});
  events.push_back({R"({"type":"ping"})", "ping"});
}

void MessagesAnswer::Push(int64_t index, const TokenEvent& event,
                          std::vector<StreamEvent>& events) {
  State& s = *state_;
  ROSE_CHECK(index == 0, "request ", index);
  if (s.choice.ended()) return;
  std::vector<ChoiceDelta> deltas;
  s.choice.Push(event, deltas);
  if ((s.failed = s.choice.failed())) {
    if (s.call.stream) events.push_back({MessagesErrorBody(*s.failed), "error"});
    return;
  }
  for (const ChoiceDelta& delta : deltas) s.Add(delta, events);
  if (s.call.stream && s.choice.ended()) s.StreamEnd(events);
}

bool MessagesAnswer::ended(int64_t) const {
  return state_->choice.ended();
}
bool MessagesAnswer::done() const {
  return state_->choice.ended();
}
const std::optional<ApiError>& MessagesAnswer::failed() const {
  return state_->failed;
}

void MessagesAnswer::Finish(std::vector<StreamEvent>& events) {
  if (!state_->failed) events.push_back({R"({"type":"message_stop"})", "message_stop"});
}

std::string MessagesAnswer::Body() const {
  ROSE_CHECK(done() && !state_->failed, "an answer that is not complete has no body");
  std::string out;
  JsonWriter json(out);
  state_->WriteMessage(json, true);
  return out;
}

int64_t MessagesAnswer::prompt_tokens() const {
  return state_->prompt_tokens;
}
int64_t MessagesAnswer::completion_tokens() const {
  return state_->choice.completion_tokens();
}

}  // namespace rose

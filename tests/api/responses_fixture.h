// The Responses API over the byte tokenizer: requests, answers made from text with markers, and a
// client that is as strict as the official ones.
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "api/chat_fixture.h"
#include "api/responses_answer.h"
#include "api/responses_store.h"

namespace rose {

class ResponsesFixture : public ChatFixture {
 public:
  explicit ResponsesFixture(const ResponseStoreLimits& limits = {},
                            const Dialect& dialect = HarmonyDialect())
      : ChatFixture(dialect), store(limits, [this] { return now; }) {
    context().responses = &store;
  }

  std::variant<ResponsesCall, ApiError> Parse(std::string_view body) {
    return ParseResponsesRequest(body, context(), 1764400000);
  }
  // With a text as input and these further fields.
  std::variant<ResponsesCall, ApiError> ParseWith(std::string_view fields) {
    return Parse(StrCat(R"({"input":"hi")", fields.empty() ? "" : ",", fields, "}"));
  }
  ResponsesCall CallOf(std::string_view body) {
    auto parsed = Parse(body);
    if (const auto* error = std::get_if<ApiError>(&parsed)) {
      ADD_FAILURE() << ErrorBody(*error);
      return {};
    }
    return std::get<ResponsesCall>(std::move(parsed));
  }
  ResponsesCall Call(std::string_view fields) {
    return CallOf(StrCat(R"({"input":"hi")", fields.empty() ? "" : ",", fields, "}"));
  }
  // "param: message", or "" if the request is accepted.
  std::string ErrorOf(const std::variant<ResponsesCall, ApiError>& parsed) {
    const auto* error = std::get_if<ApiError>(&parsed);
    return error ? error->param + ": " + error->message : "";
  }

  // The prompt of an input, from the first turn to before "<|start|>assistant".
  std::string TurnsOf(const ResponsesCall& call) {
    std::string prompt;
    for (const int32_t id : call.request.prompt) prompt += context().tokenizer->Bytes(id);
    const size_t system_end = prompt.find("<|end|>") + 7;
    constexpr std::string_view kEnd = "<|start|>assistant";
    EXPECT_TRUE(prompt.ends_with(kEnd));
    return prompt.substr(system_end, prompt.size() - kEnd.size() - system_end);
  }
  std::string Turns(std::string_view input, std::string_view fields = "") {
    return TurnsOf(CallOf(StrCat(R"({"input":)", input, fields.empty() ? "" : ",", fields, "}")));
  }

  // The whole body of an answer that is not streamed.
  JsonValue Body(ResponsesCall call, std::string_view text) {
    call.stream = false;
    ResponsesAnswer answer(std::move(call), context());
    std::vector<StreamEvent> events;
    answer.Started([] {});
    answer.Push(0, EventOf(text), events);
    EXPECT_TRUE(answer.done());
    EXPECT_TRUE(events.empty());
    return *ParseJson(answer.Body());
  }
  // All events of a stream, `step` tokens an event of the engine.
  std::vector<StreamEvent> Stream(ResponsesCall call, std::string_view text, size_t step = 1) {
    call.stream = true;
    ResponsesAnswer answer(std::move(call), context());
    std::vector<StreamEvent> events;
    answer.Started([] {});
    answer.Begin(events);
    for (const TokenEvent& event : Steps(text, step)) answer.Push(0, event, events);
    EXPECT_TRUE(answer.done());
    answer.Finish(events);
    return events;
  }

  int64_t now = 1000;  // of the store, in seconds
  ResponseStore store;
};

// Folds a stream as the official clients do, and fails where they throw: an unknown type, a delta
// without its part, a part without its item, an item that changes its identity.
class StrictAccumulator {
 public:
  void Push(const StreamEvent& event) {
    const auto json = ParseJson(event.data);
    ASSERT_TRUE(json.ok()) << event.data;
    const std::string type = Str(*json, "type");
    EXPECT_EQ(event.name, type);
    EXPECT_EQ(event.data.find('\n'), std::string::npos);
    EXPECT_EQ(Text(*json, "sequence_number"), std::to_string(types.size()));
    ASSERT_FALSE(ended_) << "an event after the end: " << type;
    ASSERT_EQ(types.empty(), type == "response.created");
    types.push_back(type);
    if (type == "response.created" || type == "response.queued" || type == "response.in_progress")
      return Head(*json);
    if (type == "response.completed" || type == "response.incomplete" || type == "response.failed")
      return End(*json);
    Inside(*json, type);
  }

  // The final object as the server sent it; its output equals what the events said.
  JsonValue final() const { return final_; }
  std::vector<std::string> types;
  std::vector<std::string> texts;  // of the items, from the deltas

 private:
  static std::string Str(const JsonValue& json, std::string_view path) {
    const std::string* text = At(json, path).string();
    EXPECT_TRUE(text) << path << " in " << WriteJson(json);
    return text ? *text : "";
  }

  void Head(const JsonValue& json) {
    EXPECT_EQ(Text(json, "response.output"), "[]");
    EXPECT_EQ(Text(json, "response.usage"), "null");
    if (id_.empty()) id_ = Str(json, "response.id");
    EXPECT_EQ(Str(json, "response.id"), id_);
  }

  void End(const JsonValue& json) {
    ended_ = true;
    final_ = At(json, "response");
    EXPECT_EQ(Str(final_, "id"), id_);
    EXPECT_TRUE(item_.is_null()) << "an item is still open";
    std::string items;
    for (const JsonValue& item : done_) items += (items.empty() ? "" : ",") + WriteJson(item);
    EXPECT_EQ(Text(final_, "output"), "[" + items + "]");
  }

  void Inside(const JsonValue& json, const std::string& type) {
    EXPECT_EQ(Text(json, "output_index"), std::to_string(done_.size()));
    if (type == "response.output_item.added") return ItemAdded(json);
    ASSERT_FALSE(item_.is_null()) << type << " without an item";
    if (type == "response.output_item.done") return ItemDone(json);
    EXPECT_EQ(Str(json, "item_id"), Str(item_, "id"));
    const std::string kind = Str(item_, "type");
    if (kind == "function_call") return Arguments(json, type);
    EXPECT_EQ(Text(json, "content_index"), "0");
    const std::string part = kind == "reasoning" ? "reasoning_text" : "output_text";
    if (type == "response.content_part.added") {
      EXPECT_EQ(part_, "");
      EXPECT_EQ(Str(json, "part.type"), part);
      EXPECT_EQ(Str(json, "part.text"), "");
      part_ = "open";
    } else if (type == "response." + part + ".delta") {
      ASSERT_EQ(part_, "open");
      texts.back() += Str(json, "delta");
      Logprobs(json, part == "output_text");
    } else if (type == "response." + part + ".done") {
      ASSERT_EQ(part_, "open");
      EXPECT_EQ(Str(json, "text"), texts.back());
      part_ = "said";
      if (part == "output_text") {
        EXPECT_EQ(Text(json, "logprobs"), "[" + logprobs_ + "]");
      }
    } else if (type == "response.content_part.done") {
      ASSERT_EQ(part_, "said");
      EXPECT_EQ(Str(json, "part.text"), texts.back());
      part_ = "done";
    } else {
      ADD_FAILURE() << "Unhandled response stream event " << type;
    }
  }

  void Logprobs(const JsonValue& json, bool wanted) {
    EXPECT_EQ(json.Find("logprobs") != nullptr, wanted);
    if (!wanted) return;
    for (const JsonValue& entry : *At(json, "logprobs").array())
      logprobs_ += (logprobs_.empty() ? "" : ",") + WriteJson(entry);
  }

  void ItemAdded(const JsonValue& json) {
    ASSERT_TRUE(item_.is_null()) << "two items at once";
    item_ = At(json, "item");
    EXPECT_EQ(Str(item_, "status"), "in_progress");
    if (Str(item_, "type") == "function_call") {
      EXPECT_EQ(Str(item_, "arguments"), "");
    } else {
      EXPECT_EQ(Text(item_, "content"), "[]");
    }
    part_ = logprobs_ = "";
    texts.emplace_back();
  }

  void ItemDone(const JsonValue& json) {
    const JsonValue& item = At(json, "item");
    EXPECT_EQ(part_, "done");
    for (const char* same : {"id", "type", "call_id", "name"})
      EXPECT_EQ(Text(item, same), Text(item_, same));
    const std::string kind = Str(item, "type");
    EXPECT_EQ(Str(item, kind == "function_call" ? "arguments" : "content.0.text"), texts.back());
    if (kind == "reasoning") {
      EXPECT_EQ(Text(item, "summary"), "[]");
    }
    if (kind == "message") {
      EXPECT_EQ(Text(item, "content.0.annotations"), "[]");
      EXPECT_EQ(Text(item, "content.0.logprobs"), "[" + logprobs_ + "]");
      EXPECT_EQ(Str(item, "role"), "assistant");
    }
    done_.push_back(item);
    item_ = JsonValue();
  }

  void Arguments(const JsonValue& json, const std::string& type) {
    ASSERT_EQ(part_, "");
    if (type == "response.function_call_arguments.delta") {
      texts.back() += Str(json, "delta");
      return;
    }
    ASSERT_EQ(type, "response.function_call_arguments.done");
    EXPECT_EQ(Str(json, "arguments"), texts.back());
    EXPECT_EQ(Str(json, "name"), Str(item_, "name"));
    part_ = "done";
  }

  std::string id_;
  JsonValue item_;  // the open one
  std::string part_, logprobs_;
  std::vector<JsonValue> done_;
  bool ended_ = false;
  JsonValue final_;
};

inline StrictAccumulator Accumulate(const std::vector<StreamEvent>& events) {
  StrictAccumulator out;
  for (const StreamEvent& event : events) out.Push(event);
  return out;
}

}  // namespace rose

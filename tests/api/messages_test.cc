#include "api/messages.h"

#include "api/chat_fixture.h"
#include "api/messages_request.h"

namespace rose {
namespace {

constexpr char kAnswer[] =
    "<|channel|>analysis<|message|>think<|end|><|start|>assistant<|channel|>final<|message|>It is "
    "\xf0\x9f\xa6\x99.<|return|>";
constexpr char kCall[] =
    "<|channel|>analysis<|message|>look<|end|><|start|>assistant<|channel|>commentary<|message|>I "
    "look.<|end|><|start|>assistant<|channel|>commentary to=functions.grep <|constrain|>json"
    R"(<|message|>{"p": "x", "n": 1e2}<|call|>)";
constexpr char kTools[] =
    R"("tools":[{"name":"grep","input_schema":{"type":"object","properties":{}}}])";
constexpr char kShown[] = R"("thinking":{"type":"enabled","budget_tokens":4096})";

class MessagesTest : public ChatFixture, public testing::Test {
 protected:
  std::variant<MessagesCall, ApiError> ParseBody(std::string_view body) {
    return ParseMessagesRequest(body, context(), 1764400000);
  }
  // One user message, max_tokens and further fields.
  static std::string With(std::string_view fields) {
    return StrCat(R"({"max_tokens":100,"messages":[{"role":"user","content":"hi"}])",
                  fields.empty() ? "" : ",", fields, "}");
  }
  // With these messages.
  static std::string Talk(std::string_view messages, std::string_view fields = "") {
    return StrCat(R"({"max_tokens":100,"messages":[)", messages, "]", fields.empty() ? "" : ",",
                  fields, "}");
  }
  MessagesCall CallOf(std::string_view body) {
    auto parsed = ParseBody(body);
    if (const auto* error = std::get_if<ApiError>(&parsed)) ADD_FAILURE() << error->message;
    return std::get<MessagesCall>(std::move(parsed));
  }
  std::string Message(std::string_view body) {
    auto parsed = ParseBody(body);
    const auto* error = std::get_if<ApiError>(&parsed);
    return error ? error->message : "";
  }
  // The messages, tools and so on as chat completions get them.
  static JsonValue Chat(std::string_view body) {
    std::optional<ApiError> error;
    TranslatedMessages out = TranslateMessages(*ParseJson(body), error);
    EXPECT_FALSE(error) << error->message;
    return out.chat;
  }

  JsonValue BodyOf(MessagesCall call, std::string_view text) {
    call.stream = false;
    MessagesAnswer answer(std::move(call), context());
    std::vector<StreamEvent> events;
    answer.Push(0, EventOf(text), events);
    EXPECT_TRUE(answer.done());
    EXPECT_TRUE(events.empty());
    return *ParseJson(answer.Body());
  }
  std::vector<StreamEvent> EventsOf(MessagesCall call, std::string_view text, size_t step = 1) {
    call.stream = true;
    MessagesAnswer answer(std::move(call), context());
    std::vector<StreamEvent> events;
    answer.Begin(events);
    for (const TokenEvent& event : Steps(text, step)) answer.Push(0, event, events);
    EXPECT_TRUE(answer.done());
    answer.Finish(events);
    return events;
  }
};

JsonValue::Object& Fields(std::vector<JsonValue::Object>& blocks, const JsonValue& event) {
  return blocks.at(static_cast<size_t>(*At(event, "index").AsInteger()));
}

std::string& StringIn(JsonValue::Object& fields, std::string_view name) {
  for (auto& [key, value] : fields)
    if (key == name) return const_cast<std::string&>(*value.string());
  fields.emplace_back(name, JsonValue(std::string()));
  return const_cast<std::string&>(*fields.back().second.string());
}

void Set(JsonValue::Object& fields, std::string_view name, JsonValue value) {
  for (auto& [key, old] : fields)
    if (key == name) {
      old = std::move(value);
      return;
    }
  fields.emplace_back(name, std::move(value));
}

// What a strict client makes of the events: the message, as JSON.
std::string Fold(const std::vector<StreamEvent>& events) {
  JsonValue::Object message;
  std::vector<JsonValue::Object> blocks;
  std::vector<std::string> inputs;
  bool open = false, ended = false;
  for (const StreamEvent& event : events) {
    const auto json = ParseJson(event.data);
    EXPECT_TRUE(json.ok()) << event.data;
    EXPECT_EQ(event.name, *At(*json, "type").string());
    EXPECT_FALSE(ended) << "an event after message_stop";
    EXPECT_EQ(message.empty(), event.name == "message_start");
    if (event.name == "message_start") {
      message = *At(*json, "message").object();
    } else if (event.name == "content_block_start") {
      EXPECT_FALSE(std::exchange(open, true));
      EXPECT_EQ(*At(*json, "index").AsInteger(), static_cast<int64_t>(blocks.size()));
      blocks.push_back(*At(*json, "content_block").object());
      inputs.emplace_back();
    } else if (event.name == "content_block_delta") {
      EXPECT_TRUE(open);
      const std::string type = *At(*json, "delta.type").string();
      JsonValue::Object& block = Fields(blocks, *json);
      if (type == "text_delta") StringIn(block, "text") += *At(*json, "delta.text").string();
      if (type == "thinking_delta")
        StringIn(block, "thinking") += *At(*json, "delta.thinking").string();
      if (type == "signature_delta")
        StringIn(block, "signature") += *At(*json, "delta.signature").string();
      if (type == "input_json_delta") inputs.back() += *At(*json, "delta.partial_json").string();
    } else if (event.name == "content_block_stop") {
      EXPECT_TRUE(std::exchange(open, false));
      if (!inputs.back().empty()) Set(Fields(blocks, *json), "input", *ParseJson(inputs.back()));
    } else if (event.name == "message_delta") {
      EXPECT_FALSE(open);
      for (const auto& [key, value] : *At(*json, "delta").object()) Set(message, key, value);
      Set(message, "usage", At(*json, "usage"));
    } else if (event.name == "message_stop") {
      ended = true;
    } else {
      EXPECT_EQ(event.name, "ping");
    }
  }
  EXPECT_TRUE(ended);
  JsonValue::Array content;
  for (JsonValue::Object& block : blocks) content.emplace_back(std::move(block));
  Set(message, "content", JsonValue(std::move(content)));
  return WriteJson(JsonValue(std::move(message)));
}

TEST_F(MessagesTest, SystemBlocksAndTextsBecomeMessages) {
  const JsonValue chat = Chat(Talk(
      R"({"role":"user","content":[{"type":"text","text":"a"},{"type":"text","text":"b",
          "cache_control":{"type":"ephemeral"}}]},{"role":"assistant","content":"c"},
         {"role":"user","content":"d"})",
      R"("system":[{"type":"text","text":"s1"},{"type":"text","text":"s2"}],"temperature":0.5,
         "stop_sequences":["X"],"top_k":5,"metadata":{"user_id":"u"})"));
  EXPECT_EQ(Text(chat, "messages"),
            R"([{"role":"system","content":"s1s2"},{"role":"user","content":"ab"},)"
            R"({"role":"assistant","content":"c"},{"role":"user","content":"d"}])");
  EXPECT_EQ(Text(chat, "stop"), R"(["X"])");
  EXPECT_EQ(Text(chat, "temperature"), "0.5");
  EXPECT_EQ(Text(chat, "top_k"), "5");
}

TEST_F(MessagesTest, CallsResultsAndThoughtsBecomeMessages) {
  const JsonValue chat = Chat(Talk(
      R"({"role":"user","content":"q"},{"role":"assistant","content":[
          {"type":"thinking","thinking":"hm","signature":""},{"type":"redacted_thinking","data":"x"},
          {"type":"text","text":"I look."},
          {"type":"tool_use","id":"t1","name":"f","input":{"b":1,"a":"x"}},
          {"type":"tool_use","id":"t2","name":"g","input":{}}]},
         {"role":"user","content":[{"type":"tool_result","tool_use_id":"t1","content":"r1"},
          {"type":"tool_result","tool_use_id":"t2","is_error":true,
           "content":[{"type":"text","text":"r2"}]},{"type":"text","text":"and?"}]})"));
  EXPECT_EQ(
      Text(chat, "messages"),
      R"([{"role":"user","content":"q"},{"role":"assistant","reasoning":"hm","content":"I look.",)"
      R"("tool_calls":[{"id":"t1","type":"function","function":{"name":"f",)"
      R"("arguments":"{\"b\":1,\"a\":\"x\"}"}},{"id":"t2","type":"function",)"
      R"("function":{"name":"g","arguments":"{}"}}]},)"
      R"({"role":"tool","tool_call_id":"t1","content":"r1"},)"
      R"({"role":"tool","tool_call_id":"t2","content":"Error: r2"},)"
      R"({"role":"user","content":"and?"}])");
}

TEST_F(MessagesTest, ToolsAndTheirChoice) {
  const std::string tools =
      R"("tools":[{"name":"f","description":"d","input_schema":{"type":"object"},"strict":true,
          "cache_control":{"type":"ephemeral"}},{"type":"custom","name":"g",
          "input_schema":{"type":"object"}}],"tool_choice":)";
  JsonValue chat = Chat(With(tools + R"({"type":"any","disable_parallel_tool_use":true})"));
  EXPECT_EQ(Text(chat, "tools"),
            R"([{"type":"function","function":{"name":"f","description":"d",)"
            R"("parameters":{"type":"object"},"strict":true}},{"type":"function",)"
            R"("function":{"name":"g","parameters":{"type":"object"}}}])");
  EXPECT_EQ(Text(chat, "tool_choice"), R"("required")");
  EXPECT_EQ(Text(chat, "parallel_tool_calls"), "false");
  chat = Chat(With(tools + R"({"type":"tool","name":"g"})"));
  EXPECT_EQ(Text(chat, "tool_choice"), R"({"type":"function","function":{"name":"g"}})");
  EXPECT_EQ(Text(Chat(With(tools + R"({"type":"none"})")), "tool_choice"), R"("none")");
  EXPECT_EQ(Text(Chat(With(tools + R"({"type":"auto"})")), "tool_choice"), R"("auto")");
}

TEST_F(MessagesTest, ThinkingDecidesEffortAndWhetherThoughtsAreShown) {
  struct Case {
    const char* fields;
    const char* effort;
    const char* shown;
  };
  for (const Case& c : std::vector<Case>{
           {"", "null", "false"},
           {R"("thinking":{"type":"disabled"})", R"("low")", "false"},
           {R"("thinking":{"type":"enabled","budget_tokens":1024})", R"("low")", "true"},
           {R"("thinking":{"type":"enabled","budget_tokens":8000})", R"("medium")", "true"},
           {R"("thinking":{"type":"enabled","budget_tokens":32000})", R"("high")", "true"},
           {R"("thinking":{"type":"adaptive"})", "null", "true"},
           {R"("thinking":{"type":"adaptive","display":"omitted"})", "null", "false"},
           {R"("thinking":{"type":"adaptive"},"output_config":{"effort":"max"})", R"("high")",
            "true"},
           {R"("output_config":{"effort":"low"})", R"("low")", "false"}}) {
    const JsonValue chat = Chat(With(c.fields));
    EXPECT_EQ(Text(chat, "reasoning_effort"), c.effort) << c.fields;
    EXPECT_EQ(Text(chat, "include_reasoning"), c.shown) << c.fields;
  }
}

TEST_F(MessagesTest, OutputFormatIsAStrictSchema) {
  const JsonValue chat =
      Chat(With(R"("output_config":{"format":{"type":"json_schema","schema":{"type":"object"}}})"));
  EXPECT_EQ(Text(chat, "response_format"),
            R"({"type":"json_schema","json_schema":{"name":"response","strict":true,)"
            R"("schema":{"type":"object"}}})");
}

TEST_F(MessagesTest, ATextOfTheAssistantIsContinued) {
  const std::string begun =
      R"({"role":"user","content":"q"},{"role":"assistant","content":"It is"})";
  EXPECT_EQ(Text(Chat(Talk(begun)), "continue_final_message"), "true");
  EXPECT_EQ(
      Text(Chat(Talk(begun + R"(,{"role":"user","content":"go on"})")), "continue_final_message"),
      "null");
  EXPECT_EQ(Message(Talk(begun, StrCat(kTools, R"(,"tool_choice":{"type":"any"})"))),
            "messages end with a text of the assistant, which cannot be continued as a forced call "
            "or in a format; end with a message of the user.");
}

TEST_F(MessagesTest, FaultsNameTheirField) {
  const auto one = [](std::string_view block) {
    return Talk(StrCat(R"({"role":"user","content":[)", block, "]}"));
  };
  EXPECT_EQ(Message(R"({"messages":[{"role":"user","content":"hi"}]})"), "max_tokens is missing.");
  EXPECT_EQ(Message(R"({"max_tokens":5,"messages":[]})"),
            "messages must be a list with at least one message.");
  EXPECT_EQ(Message(one(R"({"type":"image","source":{}})")),
            "messages[0].content[0].type is \"image\", which this model can not read; it reads "
            "text.");
  EXPECT_EQ(Message(one(R"({"type":"tool_result","tool_use_id":"x","content":"y"})")),
            "messages[0].content[0].tool_use_id \"x\" is the id of no tool_use before it.");
  EXPECT_EQ(Message(Talk(R"({"role":"user","content":5})")),
            "messages[0].content must be a string or a list of blocks.");
  EXPECT_EQ(Message(Talk(R"({"role":"bot","content":"x"})")),
            "messages[0].role must be \"user\" or \"assistant\".");
  EXPECT_NE(Message(With(R"("tools":[{"type":"web_search_20250305","name":"web_search"}])"))
                .find("tools[0].type is \"web_search_20250305\", a tool that this server does not"),
            std::string::npos);
  EXPECT_EQ(Message(With(StrCat(kTools, R"(,"tool_choice":{"type":"tool","name":"h"})"))),
            "tool_choice.name \"h\" is not among the tools.");
  for (const char* choice : {R"({"type":"any"})", R"({"type":"tool","name":"f"})"})
    EXPECT_EQ(Message(With(StrCat(R"("tool_choice":)", choice))),
              "tool_choice is only allowed together with tools.");
  EXPECT_EQ(Message(With(R"("tool_choice":17)")), "tool_choice must be an object.");
  EXPECT_EQ(Message(With(R"("stop_sequences":[""])")),
            "stop_sequences must hold strings of 1 to 512 bytes.");
  EXPECT_EQ(Message(With(R"("mcp_servers":[{"url":"x"}])")),
            "mcp_servers is not supported by this server.");
  EXPECT_EQ(Message(With(R"("thread":{"type":"create"})")),
            "thread is not supported by this server; leave it out, and send the whole conversation "
            "in messages.");
  EXPECT_EQ(Message(With(R"("thread":null)")), "");
  EXPECT_EQ(Message(With(R"("thinking":{"type":"on"})")),
            "thinking.type must be \"enabled\", \"disabled\" or \"adaptive\".");
}

// Anthropic's own tool loop holds its history at the server unless it finds this code.
// The request is translated; its errors are not.
TEST_F(MessagesTest, FaultsThatChatCompletionsFindNameTheFieldOfHere) {
  const auto starts = [&](std::string_view fields, std::string_view start) {
    const std::string message = Message(With(fields));
    EXPECT_TRUE(message.starts_with(start)) << message;
  };
  starts(R"("stop_sequences":[""])", "stop_sequences must ");
  starts(R"("output_config":{"format":{"type":"json_schema","schema":{"not":{}}}})",
         "output_config.format cannot be enforced: ");
  starts(R"("tools":[{"name":"a b","input_schema":{}}])", "tools[0].name must ");
  starts(R"("tools":[{"name":"a","input_schema":{}},{"name":"a","input_schema":{}}])",
         "tools[1].name ");
}

TEST_F(MessagesTest, ThreadsAreRefusedByTheirCode) {
  const auto parsed = ParseBody(With(R"("thread":{"type":"create"})"));
  const JsonValue body = *ParseJson(MessagesErrorBody(std::get<ApiError>(parsed)));
  EXPECT_EQ(Text(body, "error.type"), "\"invalid_request_error\"");
  EXPECT_EQ(Text(body, "error.details"), R"({"error_code":"thread_unsupported_request"})");
}

TEST_F(MessagesTest, ErrorsHaveTheirShape) {
  EXPECT_EQ(MessagesErrorBody({.http_status = 404, .message = "no \"x\""}),
            R"({"type":"error","error":{"type":"not_found_error","message":"no \"x\""}})");
  for (const auto& [status, type] :
       std::vector<std::pair<int, std::string>>{{400, "invalid_request_error"},
                                                {401, "authentication_error"},
                                                {413, "request_too_large"},
                                                {429, "rate_limit_error"},
                                                {503, "overloaded_error"},
                                                {500, "api_error"}})
    EXPECT_EQ(Text(*ParseJson(MessagesErrorBody({.http_status = status})), "error.type"),
              '"' + type + '"');
}

TEST_F(MessagesTest, BodyHoldsTextAndUsage) {
  const MessagesCall call = CallOf(With(kShown));
  const int64_t prompt = static_cast<int64_t>(call.request.prompt.size());
  const JsonValue body = BodyOf(call, kAnswer);
  EXPECT_EQ(Text(body, "id"), "\"msg_id2\"");
  EXPECT_EQ(Text(body, "type") + Text(body, "role"), R"("message""assistant")");
  EXPECT_EQ(Text(body, "content"),
            R"([{"type":"thinking","thinking":"think","signature":""},)"
            "{\"type\":\"text\",\"text\":\"It is \xf0\x9f\xa6\x99.\",\"citations\":null}]");
  EXPECT_EQ(Text(body, "stop_reason") + Text(body, "stop_sequence"), "\"end_turn\"null");
  EXPECT_EQ(Text(body, "usage.input_tokens"), std::to_string(prompt));
  EXPECT_EQ(Text(BodyOf(CallOf(With("")), kAnswer), "content.0.type"), "\"text\"");
}

TEST_F(MessagesTest, CallsAreToolUse) {
  const JsonValue body = BodyOf(CallOf(With(StrCat(kTools, ",", kShown))), kCall);
  EXPECT_EQ(Text(body, "content.1.text"), "\"I look.\"");
  EXPECT_EQ(Text(body, "content.2.type") + Text(body, "content.2.name"), R"("tool_use""grep")");
  EXPECT_EQ(Text(body, "content.2.input"), R"({"p":"x","n":100.0})");
  EXPECT_EQ(Text(body, "stop_reason"), "\"tool_use\"");
}

TEST_F(MessagesTest, ANamedCallIsToolUseToo) {
  const MessagesCall call =
      CallOf(With(StrCat(kTools, R"(,"tool_choice":{"type":"tool","name":"grep"})")));
  EXPECT_EQ(Text(BodyOf(call, kCall), "stop_reason"), "\"tool_use\"");
}

TEST_F(MessagesTest, InputThatIsNoObjectIsKept) {
  const std::string cut(kCall, std::string_view(kCall).find("\"n\""));
  const JsonValue body = BodyOf(CallOf(With(kTools)), cut);
  EXPECT_EQ(Text(body, "content.1.input"), R"({"INVALID_JSON":"{\"p\": \"x\", "})");
  EXPECT_EQ(Text(body, "stop_reason"), "\"max_tokens\"");
}

TEST_F(MessagesTest, StopReasons) {
  const JsonValue stopped = BodyOf(CallOf(With(R"("stop_sequences":["is"])")), kAnswer);
  EXPECT_EQ(Text(stopped, "stop_reason") + Text(stopped, "stop_sequence"),
            R"("stop_sequence""is")");
  EXPECT_EQ(Text(stopped, "content.0.text"), "\"It \"");
  // More than fits is taken as all that fits, and the answer says so when that was the end.
  MessagesCall call =
      CallOf(R"({"max_tokens":200000,"messages":[{"role":"user","content":"hi"}]})");
  EXPECT_EQ(call.request.max_tokens + static_cast<int64_t>(call.request.prompt.size()),
            context().max_context);
  EXPECT_EQ(Text(BodyOf(call, "<|channel|>final<|message|>ab"), "stop_reason"),
            "\"model_context_window_exceeded\"");
}

TEST_F(MessagesTest, StreamFoldsToTheBody) {
  for (const char* text : {kAnswer, kCall, "<|channel|>final<|message|>cut", "plain"}) {
    for (const size_t step : {1, 3, 1000}) {
      MessagesCall call = CallOf(With(StrCat(kTools, ",", kShown)));
      call.id = "msg_1";
      std::string folded = Fold(EventsOf(call, text, step));
      std::string body = WriteJson(BodyOf(call, text));
      // The ids of calls are new each time.
      for (std::string* side : {&folded, &body})
        if (const size_t at = side->find("call_id"); at != side->npos)
          side->erase(at, side->find('"', at) - at);
      EXPECT_EQ(folded, body) << step;
    }
  }
}

TEST_F(MessagesTest, AFailureEndsTheStreamAsAnErrorEvent) {
  MessagesCall call = CallOf(With(R"("stream":true)"));
  MessagesAnswer answer(call, context());
  std::vector<StreamEvent> events;
  answer.Begin(events);
  TokenEvent failure;
  failure.finish = FinishReason::kError;
  failure.error = "out of memory";
  answer.Push(0, failure, events);
  EXPECT_TRUE(answer.done());
  answer.Finish(events);
  ASSERT_EQ(events.size(), 3u);
  EXPECT_EQ(events[2].name, "error");
  EXPECT_EQ(events[2].data,
            R"({"type":"error","error":{"type":"api_error","message":"out of memory"}})");
}

TEST_F(MessagesTest, CountsTokens) {
  const std::string body = R"({"messages":[{"role":"user","content":"hi"}]})";
  const auto counted = CountMessageTokens(body, context(), 1764400000);
  ASSERT_TRUE(std::holds_alternative<std::string>(counted));
  EXPECT_EQ(std::get<std::string>(counted),
            StrCat(R"({"input_tokens":)", CallOf(With("")).request.prompt.size(), "}"));
}

}  // namespace
}  // namespace rose

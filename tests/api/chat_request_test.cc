#include <cmath>

#include "api/chat_fixture.h"
#include "grammar/grammars.h"

namespace rose {
namespace {

TEST(ChatRequest, DefaultsAreTheModelsOwn) {
  ChatFixture chat;
  const ChatCall call = chat.Call("");
  EXPECT_EQ(call.id, "chatcmpl-id1");
  EXPECT_EQ(call.model, "rosebud");
  EXPECT_EQ(call.created, 1764400000);
  EXPECT_EQ(call.choices, 1);
  EXPECT_FALSE(call.stream);
  EXPECT_TRUE(call.include_reasoning);
  EXPECT_EQ(call.request.max_tokens, 100000 - static_cast<int64_t>(call.request.prompt.size()));
  EXPECT_EQ(call.request.stop_ids, (std::vector<int32_t>{200002, 200012, 199999}));
}

TEST(Case109, NoHiddenSamplingDefaults) {
  ChatFixture chat;
  const SamplingParams p = chat.Call("").request.sampling;
  EXPECT_EQ(p.temperature, 1.0);
  EXPECT_EQ(p.top_p, 1.0);
  EXPECT_EQ(p.top_k, 0);
  EXPECT_EQ(p.min_p, 0.0);
  EXPECT_EQ(p.presence_penalty, 0.0);
  EXPECT_EQ(p.frequency_penalty, 0.0);
  EXPECT_EQ(p.repetition_penalty, 1.0);
  EXPECT_FALSE(p.seed);
  EXPECT_TRUE(p.logit_bias.empty());
  // The operator's defaults hold where the request says nothing.
  chat.context().defaults.temperature = 0.25;
  EXPECT_EQ(chat.Call("").request.sampling.temperature, 0.25);
  EXPECT_EQ(chat.Call(R"("temperature":null)").request.sampling.temperature, 0.25);
}

TEST(ChatRequest, ReadsEveryField) {
  ChatFixture chat;
  const ChatCall call = chat.Call(
      R"("model":"alias","temperature":0.5,"top_p":0.9,"top_k":40,"min_p":0.1,"seed":-7,)"
      R"("presence_penalty":1,"frequency_penalty":-2,"repetition_penalty":1.1,)"
      R"("logit_bias":{"65":3.5,"66":-1000},"logprobs":true,"top_logprobs":2,)"
      R"("max_completion_tokens":50,"max_tokens":60,"min_tokens":5,"n":2,"stop":["a","b"],)"
      R"("stop_token_ids":[65],"stream":true,"reasoning_effort":"high","include_reasoning":false,)"
      R"("stream_options":{"include_usage":true,"continuous_usage_stats":true},)"
      R"("parallel_tool_calls":false,"user":"u","metadata":{"a":1},"store":true,"unknown":[1])");
  const SamplingParams& p = call.request.sampling;
  EXPECT_EQ(call.model, "alias");
  EXPECT_EQ(p.temperature, 0.5);
  EXPECT_EQ(p.top_p, 0.9);
  EXPECT_EQ(p.top_k, 40);
  EXPECT_EQ(p.min_p, 0.1);
  EXPECT_EQ(p.seed, static_cast<uint64_t>(-7));
  EXPECT_EQ(p.presence_penalty, 1);
  EXPECT_EQ(p.frequency_penalty, -2);
  EXPECT_EQ(p.repetition_penalty, 1.1);
  EXPECT_EQ(p.logit_bias, (std::vector<std::pair<int32_t, float>>{{65, 3.5f}, {66, -100.0f}}));
  EXPECT_EQ(p.logprobs, 2);
  EXPECT_EQ(call.request.max_tokens, 50);
  EXPECT_EQ(call.request.min_tokens, 5);
  EXPECT_EQ(call.choices, 2);
  EXPECT_EQ(call.stop, (std::vector<std::string>{"a", "b"}));
  EXPECT_EQ(call.request.stop_ids, (std::vector<int32_t>{200002, 200012, 199999, 65}));
  EXPECT_TRUE(call.stream && call.include_usage && call.continuous_usage && call.only_one_call);
  EXPECT_FALSE(call.include_reasoning);
  EXPECT_NE(chat.Prompt(call).find("Reasoning: high"), std::string::npos);
  // Each choice has its own seed; the first the request's.
  EXPECT_EQ(call.RequestOf(0).sampling.seed, p.seed);
  EXPECT_NE(call.RequestOf(1).sampling.seed, p.seed);
  EXPECT_TRUE(chat.Call(R"("ignore_eos":true)").request.stop_ids.empty());
}

TEST(ChatRequest, NullAndEmptyCountAsAbsent) {
  ChatFixture chat;
  for (const char* field : {"model",
                            "temperature",
                            "top_p",
                            "top_k",
                            "min_p",
                            "seed",
                            "presence_penalty",
                            "logit_bias",
                            "logprobs",
                            "top_logprobs",
                            "max_tokens",
                            "max_completion_tokens",
                            "n",
                            "stop",
                            "stream",
                            "stream_options",
                            "tools",
                            "tool_choice",
                            "response_format",
                            "reasoning_effort",
                            "include_reasoning",
                            "parallel_tool_calls",
                            "functions",
                            "echo",
                            "chat_template_kwargs"})
    EXPECT_EQ(chat.ErrorOf(chat.ParseWith(StrCat("\"", field, "\":null"))), "") << field;
  for (const char* fields : {R"("logit_bias":{})", R"("stop":[])", R"("tools":[])",
                             R"("tools":[],"tool_choice":"auto")", R"("stream_options":{})",
                             R"("tool_choice":"none")", R"("response_format":{"type":"text"})"})
    EXPECT_EQ(chat.ErrorOf(chat.ParseWith(fields)), "") << fields;
}

TEST(Case096, NIsASmallInteger) {
  ChatFixture chat;
  for (const char* n : {"0", "-1", "1.5", "\"2\"", "129", "1000000", "9223372036854775808", "1e99"})
    EXPECT_EQ(chat.ErrorOf(chat.ParseWith(StrCat("\"n\":", n))),
              "n: n must be an integer between 1 and 128.")
        << n;
  EXPECT_EQ(chat.Call(R"("n":128)").choices, 128);
  EXPECT_EQ(chat.ErrorOf(chat.ParseWith(R"("n":2,"temperature":0)")).substr(0, 3), "n: ");
  chat.context().max_prompt_total = 1000;
  EXPECT_EQ(chat.ErrorOf(chat.ParseWith(R"("n":100)")).substr(0, 3), "n: ");
}

TEST(Case097, NumbersAreCheckedOnBothSides) {
  ChatFixture chat;
  for (const char* field : {"temperature", "top_p", "min_p", "presence_penalty",
                            "frequency_penalty", "repetition_penalty", "top_k", "max_tokens"}) {
    for (const char* value : {"1e999", "-1e999", "\"1\"", "true", "[1]", "{}", "-3", "\"NaN\""}) {
      auto parsed = chat.ParseWith(StrCat("\"", field, "\":", value));
      ASSERT_TRUE(std::holds_alternative<ApiError>(parsed)) << field << value;
      EXPECT_EQ(std::get<ApiError>(parsed).param, field) << value;
      EXPECT_EQ(std::get<ApiError>(parsed).http_status, 400);
      EXPECT_TRUE(ParseJson(ErrorBody(std::get<ApiError>(parsed))).ok());
    }
    // These are no JSON.
    for (const char* value : {"NaN", "Infinity", "-Infinity"}) {
      auto parsed = chat.ParseWith(StrCat("\"", field, "\":", value));
      ASSERT_TRUE(std::holds_alternative<ApiError>(parsed));
      EXPECT_EQ(std::get<ApiError>(parsed).http_status, 400);
    }
  }
  for (const char* value : {"1e999", "\"3\"", "null", "NaN", "\"NaN\""})
    EXPECT_NE(chat.ErrorOf(chat.ParseWith(StrCat(R"("logit_bias":{"65":)", value, "}"))), "");
  for (const char* key : {"-1", "x", "", "200013", "1.0", "99999999999999999999"})
    EXPECT_EQ(
        chat.ErrorOf(chat.ParseWith(StrCat(R"("logit_bias":{")", key, R"(":1})"))),
        StrCat("logit_bias.", key, ": logit_bias.", key, " names no token id of the vocabulary."));
}

TEST(ChatRequest, WrongTypesNameTheField) {
  ChatFixture chat;
  const std::pair<const char*, const char*> cases[] = {
      {R"("model":1)", "model"},
      {R"("stream":"yes")", "stream"},
      {R"("stream_options":{"include_usage":true})", "stream_options"},
      {R"("stream":true,"stream_options":{"include_usage":1})", "stream_options.include_usage"},
      {R"("stop":1)", "stop"},
      {R"("stop":[""])", "stop"},
      {R"("stop":["a",1])", "stop"},
      {R"("seed":1.5)", "seed"},
      {R"("seed":9223372036854775808)", "seed"},
      {R"("top_logprobs":2)", "top_logprobs"},
      {R"("logprobs":true,"top_logprobs":21)", "top_logprobs"},
      {R"("max_tokens":0)", "max_tokens"},
      {R"("min_tokens":5,"max_tokens":4)", "min_tokens"},
      {R"("reasoning_effort":"none")", "reasoning_effort"},
      {R"("reasoning_effort":"minimal")", "reasoning_effort"},
      {R"("tools":{})", "tools"},
      {R"("tools":[1])", "tools[0]"},
      {R"("tools":[{"type":"web_search_preview"}])", "tools[0].type"},
      {R"("tools":[{"type":"function"}])", "tools[0].function"},
      {R"("tools":[{"type":"function","function":{}}])", "tools[0].function.name"},
      {R"("tools":[{"type":"function","function":{"name":"a b"}}])", "tools[0].function.name"},
      {R"("tools":[{"type":"function","function":{"name":"f","parameters":[]}}])",
       "tools[0].function.parameters"},
      {R"("tool_choice":"auto")", "tool_choice"},
      {R"("tool_choice":"required")", "tool_choice"},
      {R"("tool_choice":"sometimes")", "tool_choice"},
      {R"("response_format":"json")", "response_format"},
      {R"("response_format":{"type":"grammar"})", "response_format.type"},
      {R"("response_format":{"type":"json_schema"})", "response_format.json_schema"},
      {R"("response_format":{"type":"json_schema","json_schema":{"name":"a"}})",
       "response_format.json_schema.schema"},
      {R"("functions":[{"name":"f"}])", "functions"},
      {R"("guided_json":[])", "guided_json"},
      {R"("guided_choice":"a")", "guided_choice"},
      {R"("guided_choice":["a",1])", "guided_choice"},
      {R"("guided_regex":1)", "guided_regex"},
      {R"("structured_outputs":"json")", "structured_outputs"},
      {R"("structured_outputs":{"structural_tag":{}})", "structured_outputs.structural_tag"},
      {R"("structured_outputs":{"regex":"a","choice":["a"]})", "structured_outputs.choice"},
      {R"("guided_regex":"a","response_format":{"type":"json_object"})", "guided_regex"},
      {R"("continue_final_message":true)", "continue_final_message"},
      {R"("logit_bias":[1])", "logit_bias"},
      {R"("stop_token_ids":[-1])", "stop_token_ids[0]"},
  };
  for (const auto& [fields, param] : cases) {
    auto parsed = chat.ParseWith(fields);
    ASSERT_TRUE(std::holds_alternative<ApiError>(parsed)) << fields;
    const ApiError& error = std::get<ApiError>(parsed);
    EXPECT_EQ(error.param, param) << fields;
    EXPECT_EQ(error.http_status, 400);
    EXPECT_TRUE(error.message.starts_with(param)) << error.message;
  }
  for (const char* body : {"", "[]", "1", "{", "{}", R"({"messages":[]})", R"({"messages":"hi"})"})
    EXPECT_NE(chat.ErrorOf(chat.Parse(body)), "") << body;
}

TEST(ChatRequest, AnUnknownModelIsNotFound) {
  ChatFixture chat;
  auto parsed = chat.ParseWith(R"("model":"X")");
  const ApiError& error = std::get<ApiError>(parsed);
  EXPECT_EQ(error.http_status, 404);
  EXPECT_EQ(error.param, "model");
  EXPECT_TRUE(error.message.starts_with("The model `X` does not exist"));
}

TEST(ChatRequest, TooLongForTheContext) {
  ChatFixture chat;
  chat.context().max_context = 1000;
  const std::string body =
      R"({"messages":[{"role":"user","content":")" + std::string(1000, 'x') + "\"}]}";
  for (auto parsed : {chat.Parse(body), chat.ParseWith(R"("max_tokens":999)"),
                      chat.ParseWith(R"("max_completion_tokens":9223372036854775807)")}) {
    ASSERT_TRUE(std::holds_alternative<ApiError>(parsed));
    const ApiError& error = std::get<ApiError>(parsed);
    EXPECT_EQ(error.http_status, 400);
    EXPECT_EQ(error.code, "context_length_exceeded");
    EXPECT_NE(error.message.find("maximum context length is 1000 tokens"), std::string::npos);
  }
}

TEST(Case050, ToolChoiceNoneHidesTheTools) {
  ChatFixture chat;
  const std::string tools = R"("tools":[{"type":"function","function":{"name":"f"}}])";
  const ChatCall none = chat.Call(tools + R"(,"tool_choice":"none")");
  EXPECT_EQ(chat.Prompt(none), chat.Prompt(chat.Call("")));
  EXPECT_FALSE(none.calls_allowed);
  const JsonValue body =
      chat.Body(none, "<|channel|>commentary to=functions.f<|message|>{}<|call|>");
  EXPECT_EQ(At(body, "choices.0.message").Find("tool_calls"), nullptr);
  EXPECT_EQ(Text(body, "choices.0.finish_reason"), "\"stop\"");
  EXPECT_EQ(Text(body, "choices.0.message.reasoning"), "\"{}\"");
  const ChatCall automatic = chat.Call(tools + R"(,"tool_choice":"auto")");
  EXPECT_TRUE(automatic.calls_allowed);
  EXPECT_EQ(chat.Prompt(automatic), chat.Prompt(chat.Call(tools)));
  EXPECT_NE(chat.Prompt(automatic).find("type f = () => any;"), std::string::npos);
}

TEST(Case110, OneDayOnePrompt) {
  ChatFixture chat;
  chat.context().fixed_date = "";
  const auto prompt = [&](int64_t now) {
    auto parsed =
        ParseChatRequest(R"({"messages":[{"role":"user","content":"hi"}]})", chat.context(), now);
    return chat.Prompt(std::get<ChatCall>(parsed));
  };
  const int64_t midnight = 1764374400;  // 2025-11-29
  EXPECT_EQ(prompt(midnight), prompt(midnight + 86399));
  EXPECT_NE(prompt(midnight).find("Current date: 2025-11-29\n"), std::string::npos);
  EXPECT_NE(prompt(midnight + 86400).find("Current date: 2025-11-30\n"), std::string::npos);
  EXPECT_EQ(UtcDate(0), "1970-01-01");
  EXPECT_EQ(UtcDate(951827696), "2000-02-29");
}

TEST(ChatRequest, ResponseFormatIsShownToTheModel) {
  ROSE_NEEDS_GRAMMARS();
  ChatFixture chat;
  EXPECT_NE(
      chat.Prompt(
              chat.Call(R"("response_format":{"type":"json_schema","json_schema":{"name":"city",)"
                        R"("strict":true,"description":"A city.","schema":{ "type":"object",)"
                        R"("properties":{"b":{"default":1.50},"a":{}} }}})"))
          .find("<|start|>developer<|message|># Response Formats\n\n## city\n\n// A city.\n"
                R"({"type":"object","properties":{"b":{"default":1.5},"a":{}}}<|end|>)"),
      std::string::npos);
  EXPECT_NE(chat.Prompt(chat.Call(R"("response_format":{"type":"json_object"})"))
                .find("## json_object\n\n{\"type\":\"object\"}<|end|>"),
            std::string::npos);
}

TEST(ChatRequest, ToolsAndSchemasMayBeFlat) {
  ChatFixture chat;
  const auto prompt = [&](const char* fields) { return chat.Prompt(chat.Call(fields)); };
  EXPECT_EQ(prompt(R"("tools":[{"type":"function","name":"f","description":"d"}])"),
            prompt(R"("tools":[{"type":"function","function":{"name":"f","description":"d"}}])"));
  EXPECT_EQ(prompt(R"("response_format":{"type":"json_schema","name":"n","schema":{"a":1}})"),
            prompt(R"("response_format":{"type":"json_schema",)"
                   R"("json_schema":{"name":"n","schema":{"a":1}}})"));
  EXPECT_TRUE(chat.ErrorOf(chat.ParseWith(R"("tools":[{"name":"f","parameters":1}])"))
                  .starts_with("tools[0].parameters: "));
}

TEST(ChatRequest, OddTextIsTaken) {
  ChatFixture chat;
  const auto prompt = [&](const char* content) {
    auto parsed = chat.Parse(StrCat(R"({"messages":[{"role":"user","content":)", content, "}]}"));
    return std::holds_alternative<ApiError>(parsed) ? ErrorBody(std::get<ApiError>(parsed))
                                                    : chat.Prompt(std::get<ChatCall>(parsed));
  };
  EXPECT_NE(prompt(R"("a\u0000b")").find(std::string("<|message|>a\0b<|end|>", 21)),
            std::string::npos);
  EXPECT_NE(prompt(R"("\ud800")").find("<|message|>\uFFFD<|end|>"), std::string::npos);
  EXPECT_NE(prompt("\"\xff\"").find("Invalid JSON"), std::string::npos);
}

TEST(Case099, DeepRequestsAreRefused) {
  ChatFixture chat;
  for (const int depth : {1000, 1000000}) {
    const std::string deep = std::string(depth, '[') + std::string(depth, ']');
    EXPECT_NE(chat.ErrorOf(chat.ParseWith("\"x\":" + deep)), "");
    EXPECT_NE(chat.ErrorOf(chat.ParseWith("\"messages\":" + deep)), "");
  }
}

}  // namespace
}  // namespace rose

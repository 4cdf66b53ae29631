// All chat formats through all chat endpoints, over loopback: answers, streams, calls, thoughts.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "api/chat_fixture.h"
#include "server/stub_backend.h"

namespace rose {
namespace {

const ModelAnswer kThought{.thoughts = "Think\n\ntwice.", .text = "Hi \"you\", \u4eca\u5929!"};
const ModelAnswer kCall{.thoughts = "look",
                        .text = "One moment.",
                        .calls = {{"", "f", R"({"city": "K\u00f6ln", "n": 1.50})"}}};

class FormatsOverHttp : public FormatTest {
 protected:
  // Answers every prompt with `said`, and keeps the prompts.
  void Serve(const ModelAnswer& said) {
    backend_ = std::make_unique<StubBackend>(
        [this, said](const std::string& prompt) {
          prompts_.push_back(prompt);
          return dialect().say(said);
        },
        0, EngineConfig{}, HttpServerConfig{}, dialect());
  }
  JsonValue Ask(std::string_view path, std::string_view body) {
    const HttpReply reply = backend_->Ask("POST", path, body);
    EXPECT_EQ(reply.status, 200) << reply.body;
    return ParseJson(reply.body).value();
  }
  // The data of a stream's events, "[DONE]" aside.
  std::vector<JsonValue> Stream(std::string_view path, std::string_view body) {
    HttpClient client = backend_->Connect();
    EXPECT_TRUE(client.SendRequest("POST", path, body).ok());
    std::vector<JsonValue> events;
    SseReader reader;
    const auto reply = client.ReadReply([&](std::string_view piece) {
      reader.Push(piece, [&](std::string_view data) {
        if (data != "[DONE]") events.push_back(ParseJson(data).value());
      });
      return true;
    });
    EXPECT_TRUE(reply.ok() && reply->status == 200);
    return events;
  }
  // The strings at `path` in all events, joined.
  static std::string Joined(const std::vector<JsonValue>& events, std::string_view path) {
    std::string out;
    for (const JsonValue& event : events)
      if (const std::string* text = At(event, path).string()) out += *text;
    return out;
  }
  static std::string Str(const JsonValue& json, std::string_view path) {
    const std::string* text = At(json, path).string();
    return text ? *text : WriteJson(At(json, path));
  }

  std::vector<std::string> prompts_;  // of the engine's thread; read when it is idle
  std::unique_ptr<StubBackend> backend_;
};
INSTANTIATE_FORMATS(FormatsOverHttp);

constexpr std::string_view kChat = "/v1/chat/completions";
constexpr char kUser[] = R"("messages":[{"role":"user","content":"hi"}])";
constexpr char kTools[] =
    R"("tools":[{"type":"function","function":{"name":"f","parameters":{"type":"object"}}}])";

TEST_P(FormatsOverHttp, ChatCompletions) {
  Serve(kThought);
  const JsonValue body = Ask(kChat, StrCat("{", kUser, "}"));
  EXPECT_EQ(Str(body, "choices.0.message.content"), kThought.text);
  EXPECT_EQ(Str(body, "choices.0.message.reasoning"), kThought.thoughts);
  EXPECT_EQ(Str(body, "choices.0.finish_reason"), "stop");
  const auto events = Stream(kChat, StrCat("{", kUser, R"(,"stream":true})"));
  EXPECT_EQ(Joined(events, "choices.0.delta.content"), kThought.text);
  EXPECT_EQ(Joined(events, "choices.0.delta.reasoning"), kThought.thoughts);
  EXPECT_EQ(Joined(events, "choices.0.finish_reason"), "stop");
}

TEST_P(FormatsOverHttp, LogprobsCoverTheContent) {
  Serve(kThought);
  const JsonValue body = Ask(kChat, StrCat("{", kUser, R"(,"logprobs":true})"));
  const JsonValue& entries = At(body, "choices.0.logprobs.content");
  ASSERT_TRUE(entries.array());
  std::string text;
  for (const JsonValue& entry : *entries.array())
    for (const JsonValue& byte : *At(entry, "bytes").array())
      text += static_cast<char>(*byte.AsInteger());
  while (text.starts_with('\n')) text.erase(0, 1);
  EXPECT_EQ(text, kThought.text);
  EXPECT_GT(*At(body, "usage.completion_tokens_details.reasoning_tokens").AsInteger(), 2);
}

TEST_P(FormatsOverHttp, ChatToolCalls) {
  Serve(kCall);
  const std::string fields = StrCat(kUser, ",", kTools);
  const JsonValue body = Ask(kChat, StrCat("{", fields, "}"));
  EXPECT_EQ(Str(body, "choices.0.message.tool_calls.0.function.name"), "f");
  EXPECT_EQ(Text(body, "choices.0.message.tool_calls.0.function.arguments"),
            R"("{\"city\": \"K\\u00f6ln\", \"n\": 1.50}")");
  EXPECT_EQ(Str(body, "choices.0.message.content"), kCall.text);
  EXPECT_EQ(Str(body, "choices.0.message.reasoning"), kCall.thoughts);
  EXPECT_EQ(Str(body, "choices.0.finish_reason"), "tool_calls");
  const auto events = Stream(kChat, StrCat("{", fields, R"(,"stream":true})"));
  EXPECT_EQ(Joined(events, "choices.0.delta.tool_calls.0.function.name"), "f");
  EXPECT_EQ(Joined(events, "choices.0.delta.tool_calls.0.function.arguments"),
            kCall.calls[0].arguments);
  EXPECT_EQ(Joined(events, "choices.0.finish_reason"), "tool_calls");
  // Nobody asked for it: a thought.
  EXPECT_EQ(Text(Ask(kChat, StrCat("{", kUser, "}")), "choices.0.message.tool_calls"), "null");
}

TEST_P(FormatsOverHttp, SeveralCallsOrOneAlone) {
  ModelAnswer twice = kCall;
  twice.text = "";  // a forced call has none before it
  twice.calls.push_back({"", "f", "{}"});
  Serve(twice);
  const auto calls = [&](std::string_view field) {
    const JsonValue body = Ask(kChat, StrCat("{", kUser, ",", kTools, field, "}"));
    return At(body, "choices.0.message.tool_calls").array()->size();
  };
  EXPECT_EQ(calls(""), dialect().says_many_calls ? 2u : 1u);
  EXPECT_EQ(calls(R"(,"parallel_tool_calls":false)"), 1u);
  const HttpReply named =
      backend_->Ask("POST", kChat,
                    StrCat("{", kUser, ",", kTools,
                           R"(,"tool_choice":{"type":"function","function":{"name":"f"}}})"));
  const JsonValue body = ParseJson(named.body).value();
  EXPECT_EQ(At(body, "choices.0.message.tool_calls").array()->size(), 1u) << named.body;
}

TEST_P(FormatsOverHttp, ToolLoopsGoOnFromWhatWasSampled) {
  Serve(kCall);
  const JsonValue body = Ask(kChat, StrCat("{", kUser, ",", kTools, "}"));
  Ask(kChat,
      StrCat(R"({"messages":[{"role":"user","content":"hi"},)", Text(body, "choices.0.message"),
             R"(,{"role":"tool","tool_call_id":)", Text(body, "choices.0.message.tool_calls.0.id"),
             R"(,"content":"21 C"}],)", kTools, "}"));
  backend_->ExpectIdle();
  ASSERT_EQ(prompts_.size(), 2u);
  EXPECT_TRUE(prompts_[1].starts_with(prompts_[0] + dialect().say(kCall))) << prompts_[1];
  EXPECT_NE(prompts_[1].find("21 C"), std::string::npos);
}

TEST_P(FormatsOverHttp, AnAnswerComesBackWithoutItsThoughts) {
  Serve(kThought);
  const JsonValue body = Ask(kChat, StrCat("{", kUser, "}"));
  Ask(kChat, StrCat(R"({"messages":[{"role":"user","content":"hi"},)",
                    Text(body, "choices.0.message"), R"(,{"role":"user","content":"and?"}]})"));
  backend_->ExpectIdle();
  EXPECT_NE(prompts_.at(1).find(kThought.text), std::string::npos);
  EXPECT_EQ(prompts_.at(1).find("twice"), std::string::npos);
}

TEST_P(FormatsOverHttp, Responses) {
  Serve(kThought);
  const JsonValue body = Ask("/v1/responses", R"({"input":"hi"})");
  EXPECT_EQ(Str(body, "output.0.type"), "reasoning");
  EXPECT_EQ(Str(body, "output.0.content.0.text"), kThought.thoughts);
  EXPECT_EQ(Str(body, "output.1.content.0.text"), kThought.text);
  EXPECT_EQ(Str(body, "status"), "completed");
  std::string text, thoughts;
  for (const JsonValue& event : Stream("/v1/responses", R"({"input":"hi","stream":true})")) {
    if (Str(event, "type") == "response.output_text.delta") text += Str(event, "delta");
    if (Str(event, "type") == "response.reasoning_text.delta") thoughts += Str(event, "delta");
  }
  EXPECT_EQ(text, kThought.text);
  EXPECT_EQ(thoughts, kThought.thoughts);
}

TEST_P(FormatsOverHttp, ResponsesAreContinuedAfterACall) {
  Serve(kCall);
  const std::string tools = R"("tools":[{"type":"function","name":"f"}])";
  const JsonValue body = Ask("/v1/responses", StrCat(R"({"input":"hi",)", tools, "}"));
  EXPECT_EQ(Str(body, "output.2.type"), "function_call");
  EXPECT_EQ(Str(body, "output.2.name"), "f");
  EXPECT_EQ(Str(body, "output.2.arguments"), kCall.calls[0].arguments);
  const std::string answer = StrCat(R"({"type":"function_call_output","call_id":)",
                                    Text(body, "output.2.call_id"), R"(,"output":"21 C"})");
  Ask("/v1/responses", StrCat(R"({"previous_response_id":)", Text(body, "id"), R"(,"input":[)",
                              answer, "],", tools, "}"));
  // The same by hand.
  Ask("/v1/responses",
      StrCat(R"({"input":[{"role":"user","content":"hi"},)", Text(body, "output.0"), ",",
             Text(body, "output.1"), ",", Text(body, "output.2"), ",", answer, "],", tools, "}"));
  backend_->ExpectIdle();
  ASSERT_EQ(prompts_.size(), 2u);  // the second and the third are the same
  EXPECT_TRUE(prompts_[1].starts_with(prompts_[0] + dialect().say(kCall))) << prompts_[1];
}

TEST_P(FormatsOverHttp, Messages) {
  Serve(kThought);
  const std::string fields = StrCat(R"("max_tokens":500,)", kUser,
                                    R"(,"thinking":{"type":"enabled","budget_tokens":4096})");
  const JsonValue body = Ask("/v1/messages", StrCat("{", fields, "}"));
  EXPECT_EQ(Str(body, "content.0.thinking"), kThought.thoughts);
  EXPECT_EQ(Str(body, "content.1.text"), kThought.text);
  EXPECT_EQ(Str(body, "stop_reason"), "end_turn");
  const auto events = Stream("/v1/messages", StrCat("{", fields, R"(,"stream":true})"));
  EXPECT_EQ(Joined(events, "delta.text"), kThought.text);
  EXPECT_EQ(Joined(events, "delta.thinking"), kThought.thoughts);
}

TEST_P(FormatsOverHttp, MessagesToolCalls) {
  Serve(kCall);
  const std::string fields = StrCat(R"("max_tokens":500,)", kUser,
                                    R"(,"tools":[{"name":"f","input_schema":{"type":"object"}}])");
  const JsonValue body = Ask("/v1/messages", StrCat("{", fields, "}"));
  EXPECT_EQ(Str(body, "content.0.text"), kCall.text);
  EXPECT_EQ(Str(body, "content.1.name"), "f");
  EXPECT_EQ(Str(body, "content.1.input.city"), "K\u00f6ln");
  EXPECT_EQ(Str(body, "stop_reason"), "tool_use");
  const auto events = Stream("/v1/messages", StrCat("{", fields, R"(,"stream":true})"));
  EXPECT_EQ(Joined(events, "content_block.name"), "f");
  EXPECT_EQ(Joined(events, "delta.partial_json"), kCall.calls[0].arguments);
}

TEST_P(FormatsOverHttp, ThoughtsCanBeLeftOutWhereTheFormatCan) {
  Serve(kThought);
  const bool can = backend_->format->may_skip_thoughts();
  for (const char* effort : {"none", "minimal"}) {
    const std::string field = StrCat(R"("reasoning_effort":")", effort, "\"");
    EXPECT_EQ(backend_->Ask("POST", kChat, StrCat("{", kUser, ",", field, "}")).status,
              can ? 200 : 400);
    EXPECT_EQ(backend_
                  ->Ask("POST", "/v1/responses",
                        StrCat(R"({"input":"hi","reasoning":{"effort":")", effort, "\"}}"))
                  .status,
              can ? 200 : 400);
  }
  backend_->ExpectIdle();
  prompts_.clear();
  backend_->answers.clear();
  Ask(kChat, StrCat("{", kUser, R"(,"chat_template_kwargs":{"enable_thinking":false}})"));
  Ask("/v1/messages",
      StrCat(R"({"max_tokens":9,)", R"("messages":[{"role":"user","content":"ho"}])",
             R"(,"thinking":{"type":"disabled"}})"));
  backend_->ExpectIdle();
  ASSERT_EQ(prompts_.size(), 2u);
  for (const std::string& prompt : prompts_)
    EXPECT_EQ(prompt.ends_with("<think>\n\n</think>\n\n"), can) << prompt;
}

}  // namespace
}  // namespace rose

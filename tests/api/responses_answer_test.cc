#include <random>

#include "api/responses_fixture.h"

namespace rose {
namespace {

constexpr char kTools[] =
    R"("tools":[{"type":"function","name":"f"},{"type":"function","name":"grep"}])";
constexpr char kAnswer[] =
    "<|channel|>analysis<|message|>think<|end|><|start|>assistant<|channel|>final<|message|>It is "
    "\xf0\x9f\xa6\x99.<|return|>";
constexpr char kCall[] =
    "<|channel|>analysis<|message|>look<|end|><|start|>assistant<|channel|>analysis "
    R"(to=functions.grep code<|message|>{"p":"see functions.y"}<|call|>)";
constexpr char kPreamble[] =
    "<|channel|>commentary<|message|>Plan: two steps.<|end|><|start|>assistant<|channel|>"
    "commentary to=functions.f <|constrain|>json<|message|>{}<|call|>";

// The body without the ids, which are made anew for every answer.
std::string WithoutIds(const JsonValue& body) {
  std::string text = WriteJson(body);
  for (const char* prefix : {"\"resp_id", "\"msg_id", "\"rs_id", "\"fc_id", "\"call_id"})
    for (size_t at = 0; (at = text.find(prefix, at)) != text.npos;) {
      const size_t begin = at + std::string_view(prefix).size();
      const size_t end = text.find_first_not_of("0123456789", begin);
      if (text[end] == '"') text.erase(begin, end - begin);
      at = begin;
    }
  return text;
}

TEST(ResponsesAnswer, TheBodyHasEveryField) {
  ResponsesFixture api;
  const ResponsesCall call = api.Call("");
  const size_t prompt = call.request.prompt.size();
  const JsonValue body = api.Body(call, kAnswer);
  EXPECT_EQ(
      WriteJson(body),
      StrCat(
          R"({"id":"resp_id2","object":"response","created_at":1764400000,)"
          R"("status":"completed","background":false,"error":null,"incomplete_details":null,)"
          R"("model":"rosebud","instructions":null,"max_output_tokens":null,)"
          R"("max_tool_calls":null,"metadata":{},"parallel_tool_calls":true,)"
          R"("previous_response_id":null,"prompt":null,)"
          R"("reasoning":{"effort":"medium","summary":null},"service_tier":"auto",)"
          R"("store":true,"temperature":1,"text":{"format":{"type":"text"}},)"
          R"("tool_choice":"auto","tools":[],"top_logprobs":0,"top_p":1,)"
          R"("truncation":"disabled","user":null,"prompt_cache_key":null,)"
          R"("safety_identifier":null,"output":[{"id":"rs_id3","type":"reasoning",)"
          R"("summary":[],"content":[{"type":"reasoning_text","text":"think"}],)"
          R"("encrypted_content":null,"status":"completed"},{"id":"msg_id4",)"
          R"("type":"message","role":"assistant","content":[{"type":"output_text",)"
          R"("text":"It is )",
          "\U0001F999",
          R"(.","annotations":[],"logprobs":[]}],"status":"completed"}],)"
          R"("usage":{"input_tokens":)",
          prompt,
          R"(,"input_tokens_details":{"cached_tokens":0,"cache_write_tokens":0},"output_tokens":45,)",
          R"("output_tokens_details":{"reasoning_tokens":5},"total_tokens":)", prompt + 45, "}}"));
}

TEST(Case051, TheOrderOfEvents) {
  ResponsesFixture api;
  using Types = std::vector<std::string>;
  const auto types = [&](const char* text) {
    Types out;
    for (std::string type : Accumulate(api.Stream(api.Call(kTools), text, 1000)).types)
      out.push_back(type.substr(std::string_view("response.").size()));
    return out;
  };
  EXPECT_EQ(types("<|channel|>final<|message|>Hi<|return|>"),
            (Types{"created", "in_progress", "output_item.added", "content_part.added",
                   "output_text.delta", "output_text.done", "content_part.done", "output_item.done",
                   "completed"}));
  EXPECT_EQ(
      types(kAnswer),
      (Types{"created", "in_progress", "output_item.added", "content_part.added",
             "reasoning_text.delta", "reasoning_text.done", "content_part.done", "output_item.done",
             "output_item.added", "content_part.added", "output_text.delta", "output_text.done",
             "content_part.done", "output_item.done", "completed"}));
  EXPECT_EQ(types(kCall),
            (Types{"created", "in_progress", "output_item.added", "content_part.added",
                   "reasoning_text.delta", "reasoning_text.done", "content_part.done",
                   "output_item.done", "output_item.added", "function_call_arguments.delta",
                   "function_call_arguments.done", "output_item.done", "completed"}));
  EXPECT_EQ(types(kPreamble),
            (Types{"created", "in_progress", "output_item.added", "content_part.added",
                   "output_text.delta", "output_text.done", "content_part.done", "output_item.done",
                   "output_item.added", "function_call_arguments.delta",
                   "function_call_arguments.done", "output_item.done", "completed"}));
}

TEST(Case051, AMessageIsDoneWhenItEnds) {
  ResponsesFixture api;
  ResponsesAnswer answer(api.Call(R"("stream":true)"), api.context());
  std::vector<StreamEvent> events;
  TokenEvent event = api.EventOf("<|channel|>analysis<|message|>a<|end|>");
  event.finish = FinishReason::kNone;
  answer.Push(0, event, events);
  EXPECT_EQ(events.back().name, "response.output_item.done");
}

TEST(Case107, ThoughtsGoOutOnce) {
  for (const char* summary : {"null", "\"auto\"", "\"detailed\""}) {
    ResponsesFixture api;
    const auto call = api.Call(StrCat(R"("reasoning":{"summary":)", summary, "}"));
    const StrictAccumulator stream = Accumulate(api.Stream(call, kAnswer));
    EXPECT_EQ(stream.texts[0], "think");
    EXPECT_EQ(Text(stream.final(), "output.0.summary"), "[]");
    EXPECT_EQ(Text(stream.final(), "reasoning.summary"), summary);
  }
}

TEST(Case021, OneCallInBothForms) {
  ResponsesFixture api;
  const JsonValue body = api.Body(api.Call(kTools), kCall);
  const JsonValue streamed = Accumulate(api.Stream(api.Call(kTools), kCall)).final();
  for (const JsonValue& form : {body, streamed}) {
    ASSERT_EQ(At(form, "output").array()->size(), 2u);
    EXPECT_EQ(Text(form, "output.1.type"), "\"function_call\"");
    EXPECT_EQ(Text(form, "output.1.name"), "\"grep\"");
    EXPECT_EQ(*At(form, "output.1.arguments").string(), R"({"p":"see functions.y"})");
    EXPECT_EQ(Text(form, "output.0.content.0.text"), "\"look\"");
    EXPECT_EQ(Text(form, "status"), "\"completed\"");
  }
}

TEST(Case007, TheRecipientMakesACallOnAnyChannel) {
  ResponsesFixture api;
  const auto name = [&](const char* recipient) {
    const char* tools = R"("tools":[{"name":"grep"},{"name":"functions.x"}])";
    return Text(api.Body(api.Call(tools), StrCat("<|channel|>analysis to=", recipient,
                                                 " code<|message|>{}<|call|>")),
                "output.0.name");
  };
  EXPECT_EQ(name("functions.grep"), "\"grep\"");
  EXPECT_EQ(name("functions.functions.x"), "\"functions.x\"");
  // A call that nobody allowed is a thought.
  EXPECT_EQ(Text(api.Body(api.Call(""), kCall), "output.1.type"), "\"reasoning\"");
}

TEST(Case020, APreambleIsAMessageBeforeTheCall) {
  ResponsesFixture api;
  const JsonValue body = api.Body(api.Call(kTools), kPreamble);
  EXPECT_EQ(Text(body, "output.0.type"), "\"message\"");
  EXPECT_EQ(Text(body, "output.0.content.0.text"), "\"Plan: two steps.\"");
  EXPECT_EQ(Text(body, "output.1.type"), "\"function_call\"");
  EXPECT_EQ(Text(body, "usage.output_tokens_details.reasoning_tokens"), "0");
}

TEST(Case015, NothingComesAfterACall) {
  ResponsesFixture api;
  const ResponsesCall call = api.Call(StrCat(kTools, R"(,"stop":"x")"));
  EXPECT_EQ(call.request.stop_ids, (std::vector<int32_t>{200002, 200012, 199999}));
  const JsonValue body = api.Body(
      call, StrCat(kCall,
                   "<|start|>functions.grep to=assistant<|channel|>commentary<|message|>made "
                   "up<|end|>"));
  EXPECT_EQ(At(body, "output").array()->size(), 2u);
}

TEST(Case053, CutByTheLimit) {
  ResponsesFixture api;
  JsonValue body = api.Body(api.Call(kTools), "<|channel|>analysis<|message|>hal");
  EXPECT_EQ(Text(body, "status"), "\"incomplete\"");
  EXPECT_EQ(Text(body, "incomplete_details.reason"), "\"max_output_tokens\"");
  EXPECT_EQ(Text(body, "output.0.content.0.text"), "\"hal\"");
  EXPECT_EQ(Text(body, "output.0.status"), "\"incomplete\"");
  EXPECT_EQ(Text(body, "usage.output_tokens"), "13");
  EXPECT_EQ(
      Accumulate(api.Stream(api.Call(kTools), "<|channel|>analysis<|message|>h")).types.back(),
      "response.incomplete");
  // A call that was cut, and one that was cut before it had a name.
  body = api.Body(api.Call(kTools), "<|channel|>commentary to=functions.f<|message|>{\"a");
  EXPECT_EQ(Text(body, "output.0.status"), "\"incomplete\"");
  EXPECT_EQ(*At(body, "output.0.arguments").string(), "{\"a");
  body = api.Body(api.Call(kTools), "<|channel|>commentary to=functions");
  EXPECT_EQ(Text(body, "output"), "[]");
  // Cut between two messages: what was complete stays so.
  body = api.Body(api.Call(kTools), "<|channel|>analysis<|message|>a<|end|><|start|>assi");
  EXPECT_EQ(Text(body, "output.0.status"), "\"completed\"");
  EXPECT_EQ(Text(body, "status"), "\"incomplete\"");
}

TEST(Case012, ACompleteResponseSaysSomething) {
  ResponsesFixture api;
  const char* text =
      "<|channel|>analysis<|message|>a<|end|><|start|>assistant<|channel|>final"
      "<|message|><|return|>";
  const StrictAccumulator stream = Accumulate(api.Stream(api.Call(""), text));
  EXPECT_EQ(Text(stream.final(), "output.1.type"), "\"message\"");
  EXPECT_EQ(Text(stream.final(), "output.1.content.0.text"), "\"\"");
  EXPECT_EQ(WithoutIds(stream.final()), WithoutIds(api.Body(api.Call(""), text)));
}

TEST(Case058, UsageIsReal) {
  ResponsesFixture api;
  const ResponsesCall call = api.Call("");
  const size_t prompt = call.request.prompt.size();
  ResponsesAnswer answer(call, api.context());
  TokenEvent event = api.EventOf(kAnswer);
  event.cached_tokens = 64;
  std::vector<StreamEvent> events;
  answer.Push(0, event, events);
  EXPECT_EQ(Text(*ParseJson(answer.Body()), "usage"),
            StrCat(R"({"input_tokens":)", prompt,
                   R"(,"input_tokens_details":{"cached_tokens":64,"cache_write_tokens":0},)",
                   R"("output_tokens":45,"output_tokens_details":{"reasoning_tokens":5},)",
                   R"("total_tokens":)", prompt + 45, "}"));
}

TEST(ResponsesAnswer, LogprobsAreSentIfIncluded) {
  ResponsesFixture api;
  const char* text = "<|channel|>final<|message|>ab<|return|>";
  EXPECT_EQ(Text(api.Body(api.Call(""), text), "output.0.content.0.logprobs"), "[]");
  const auto call = api.Call(R"("include":["message.output_text.logprobs"],"top_logprobs":2)");
  const JsonValue body = api.Body(call, text);
  ASSERT_EQ(At(body, "output.0.content.0.logprobs").array()->size(), 2u);
  EXPECT_EQ(Text(body, "output.0.content.0.logprobs.0"),
            R"({"token":"a","logprob":-0.5,"bytes":[97],"top_logprobs":[{"token":"a",)"
            R"("logprob":-0.5,"bytes":[97]},{"token":"x","logprob":-9999,"bytes":[120]}]})");
  Accumulate(api.Stream(call, text));  // compares those of the deltas with those of the item
}

TEST(ResponsesAnswer, StopStringsEndTheMessage) {
  ResponsesFixture api;
  const StrictAccumulator stream = Accumulate(api.Stream(
      api.Call(R"("stop":["END"])"), "<|channel|>final<|message|>one END two<|return|>"));
  EXPECT_EQ(stream.texts, std::vector<std::string>{"one "});
  EXPECT_EQ(Text(stream.final(), "status"), "\"completed\"");
  EXPECT_EQ(Text(stream.final(), "output.0.status"), "\"completed\"");
}

// Words of the format in any order, and text.
std::string RandomStream(std::mt19937& random) {
  static const std::vector<std::string> kWords = {
      "<|start|>",
      "<|end|>",
      "<|message|>",
      "<|channel|>",
      "<|constrain|>",
      "assistant",
      "analysis",
      "commentary",
      "final",
      " to=functions.f",
      " to=functions.grep",
      "json",
      "{}",
      "text ",
      "\xf0\x9f\xa6\x99",
      "\xff",
      "END",
      "<|channel|>final<|message|>",
      "<|channel|>analysis<|message|>",
      "<|end|><|start|>assistant",
      "<|channel|>commentary to=functions.f <|constrain|>json<|message|>",
      "user",
      "functions.f"};
  std::string out;
  for (int64_t words = 1 + random() % 30; words > 0; --words)
    out += kWords[random() % kWords.size()];
  if (random() % 2) out += random() % 2 ? "<|return|>" : "<|call|>";
  return out;
}

TEST(ResponsesAnswer, TheBodyIsTheSumOfTheEventsWhateverTheModelWrites) {
  std::mt19937 random(7);
  for (int i = 0; i < 1500; ++i) {
    const std::string text = RandomStream(random);
    const std::string fields = i % 3 == 0   ? std::string(kTools)
                               : i % 3 == 1 ? StrCat(kTools, R"(,"stop":"END","top_logprobs":1)")
                                            : std::string(R"("parallel_tool_calls":false)");
    ResponsesFixture api;
    const std::string whole = WithoutIds(api.Body(api.Call(fields), text));
    const StrictAccumulator stream =
        Accumulate(api.Stream(api.Call(fields), text, 1 + random() % 5));
    ASSERT_EQ(WithoutIds(stream.final()), whole) << text;
    ASSERT_FALSE(testing::Test::HasFailure()) << text;
  }
}

TEST(ResponsesAnswer, AFailureIsAnEventOrAnError) {
  ResponsesFixture api;
  for (const bool stream : {false, true}) {
    ResponsesAnswer answer(api.Call(stream ? R"("stream":true)" : ""), api.context());
    std::vector<StreamEvent> events;
    answer.Begin(events);
    TokenEvent event = api.EventOf("<|channel|>final<|message|>a");
    event.finish = FinishReason::kNone;
    answer.Push(0, event, events);
    answer.Push(0, {.finish = FinishReason::kError, .error = "the \"disk\" is full"}, events);
    ASSERT_TRUE(answer.done());
    EXPECT_EQ(answer.failed()->http_status, 500);
    if (!stream) continue;
    answer.Finish(events);
    const StrictAccumulator folded = Accumulate(events);
    EXPECT_EQ(folded.types.back(), "response.failed");
    EXPECT_EQ(Text(folded.final(), "status"), "\"failed\"");
    EXPECT_EQ(Text(folded.final(), "error"),
              R"({"code":"server_error","message":"the \"disk\" is full"})");
    EXPECT_EQ(Text(folded.final(), "output.0.status"), "\"incomplete\"");
  }
}

TEST(ResponsesAnswer, TheEngineIsToldWhenTheTextIsComplete) {
  ResponsesFixture api;
  ResponsesAnswer answer(api.Call(R"("stop":"END")"), api.context());
  std::vector<StreamEvent> events;
  TokenEvent event = api.EventOf("<|channel|>final<|message|>a END b");
  event.finish = FinishReason::kNone;
  answer.Push(0, event, events);
  EXPECT_TRUE(answer.ended(0));
  answer.Push(0, {.finish = FinishReason::kCancelled}, events);
  EXPECT_FALSE(answer.failed());
  EXPECT_EQ(Text(*ParseJson(answer.Body()), "status"), "\"completed\"");
}

TEST(ResponsesAnswer, ACallOfANamespaceIsSplit) {
  ResponsesFixture api;
  const std::string tools =
      R"("tools":[{"type":"namespace","name":"crm","tools":[{"type":"function","name":"f"}]}])";
  const std::string call =
      "<|channel|>commentary to=functions.crm__f <|constrain|>json<|message|>{}<|call|>";
  const JsonValue body = api.Body(api.Call(tools), call);
  EXPECT_EQ(Text(body, "output.0.name") + Text(body, "output.0.namespace"), R"("f""crm")");
  const std::vector<StreamEvent> events = api.Stream(api.Call(tools), call);
  int64_t items = 0;
  for (const StreamEvent& event : events) {
    if (!event.name.starts_with("response.output_item")) continue;
    ++items;
    EXPECT_EQ(Text(*ParseJson(event.data), "item.namespace"), "\"crm\"") << event.data;
  }
  EXPECT_EQ(items, 2);
  // Stored, and continued.
  const std::string more = StrCat(R"("previous_response_id":)", Text(body, "id"), ",", tools);
  const std::string turns =
      api.Turns(StrCat(R"([{"type":"function_call_output","output":"r","call_id":)",
                       Text(body, "output.0.call_id"), "}]"),
                more);
  EXPECT_NE(turns.find("functions.crm__f to=assistant"), std::string::npos) << turns;
}

}  // namespace
}  // namespace rose

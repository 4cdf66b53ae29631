#include "api/chat_fixture.h"

namespace rose {
namespace {

constexpr char kTools[] = R"("tools":[{"type":"function","function":{"name":"f"}},)"
                          R"({"type":"function","function":{"name":"grep"}}])";
constexpr char kAnswer[] =
    "<|channel|>analysis<|message|>think<|end|><|start|>assistant<|channel|>final<|message|>It is "
    "\xf0\x9f\xa6\x99.<|return|>";
constexpr char kCall[] =
    "<|channel|>analysis<|message|>look<|end|><|start|>assistant<|channel|>analysis "
    R"(to=functions.grep code<|message|>{"p":"see functions.y"}<|call|>)";

// What a strict client makes of a stream: it throws on what the official helpers throw on.
struct Folded {
  struct Call {
    std::string id, name, arguments;
    bool operator==(const Call&) const = default;
  };
  std::string role, reasoning, content, finish_reason, stop_reason = "null";
  std::vector<Call> calls;
  std::vector<std::string> logprobs;
  bool operator==(const Folded&) const = default;
};

void FoldCalls(const JsonValue& delta, Folded& out) {
  const JsonValue* calls = delta.Find("tool_calls");
  if (!calls) return;
  for (const JsonValue& call : *calls->array()) {
    const size_t index = *At(call, "index").AsInteger();
    if (const JsonValue* id = call.Find("id")) {
      ASSERT_EQ(index, out.calls.size());
      EXPECT_EQ(Text(call, "type"), "\"function\"");
      out.calls.push_back({*id->string(), *At(call, "function.name").string(), ""});
    } else {
      EXPECT_EQ(At(call, "function").Find("name"), nullptr);
    }
    ASSERT_LT(index, out.calls.size());
    out.calls[index].arguments += *At(call, "function.arguments").string();
  }
}

std::vector<Folded> Fold(const std::vector<std::string>& chunks, int64_t choices = 1) {
  std::vector<Folded> out(choices);
  EXPECT_EQ(chunks.back(), "[DONE]");
  std::string head;
  for (size_t i = 0; i + 1 < chunks.size(); ++i) {
    EXPECT_EQ(chunks[i].find('\n'), std::string::npos);
    const auto chunk = ParseJson(chunks[i]);
    EXPECT_TRUE(chunk.ok()) << chunks[i];
    const std::string this_head = Text(*chunk, "id") + Text(*chunk, "object") +
                                  Text(*chunk, "created") + Text(*chunk, "model");
    if (head.empty()) head = this_head;
    EXPECT_EQ(this_head, head);
    for (const JsonValue& choice : *At(*chunk, "choices").array()) {
      Folded& folded = out[*At(choice, "index").AsInteger()];
      EXPECT_EQ(folded.finish_reason, "") << "a chunk after the last";
      const JsonValue& delta = At(choice, "delta");
      EXPECT_EQ(delta.Find("role") != nullptr, folded.role.empty());
      if (delta.Find("role")) folded.role = *delta.Find("role")->string();
      if (const JsonValue* text = delta.Find("content")) folded.content += *text->string();
      if (const JsonValue* text = delta.Find("reasoning")) {
        folded.reasoning += *text->string();
        EXPECT_EQ(Text(delta, "reasoning_content"), WriteJson(*text));
      }
      FoldCalls(delta, folded);
      if (At(choice, "logprobs.content").array())
        for (const JsonValue& entry : *At(choice, "logprobs.content").array())
          folded.logprobs.push_back(WriteJson(entry));
      EXPECT_NE(choice.Find("finish_reason"), nullptr);
      if (const std::string* reason = At(choice, "finish_reason").string()) {
        folded.finish_reason = *reason;
        folded.stop_reason = Text(choice, "stop_reason");
      }
    }
  }
  for (const Folded& folded : out) EXPECT_NE(folded.finish_reason, "");
  return out;
}

// The same from a body.
Folded FoldBody(const JsonValue& body, int64_t index = 0) {
  Folded out;
  const JsonValue& choice = At(body, StrCat("choices.", index));
  const JsonValue& message = At(choice, "message");
  const auto text = [](const JsonValue& value) { return value.string() ? *value.string() : ""; };
  out.role = text(At(message, "role"));
  out.content = text(At(message, "content"));
  out.reasoning = text(At(message, "reasoning"));
  EXPECT_EQ(Text(message, "reasoning"), Text(message, "reasoning_content"));
  out.finish_reason = text(At(choice, "finish_reason"));
  out.stop_reason = Text(choice, "stop_reason");
  if (const JsonValue* calls = message.Find("tool_calls"))
    for (const JsonValue& call : *calls->array())
      out.calls.push_back({text(At(call, "id")), text(At(call, "function.name")),
                           text(At(call, "function.arguments"))});
  if (At(choice, "logprobs.content").array())
    for (const JsonValue& entry : *At(choice, "logprobs.content").array())
      out.logprobs.push_back(WriteJson(entry));
  return out;
}

void ForgetIds(Folded& folded) {
  for (Folded::Call& call : folded.calls) {
    EXPECT_TRUE(call.id.starts_with("call_id"));
    call.id = "";
  }
}

TEST(ChatAnswer, TheBodyHasEveryField) {
  ChatFixture chat;
  const ChatCall call = chat.Call("");
  const JsonValue body = chat.Body(call, kAnswer);
  EXPECT_EQ(
      WriteJson(body),
      StrCat(R"({"id":"chatcmpl-id1","object":"chat.completion","created":1764400000,)"
             R"("model":"rosebud","choices":[{"index":0,"message":{"role":"assistant",)"
             R"("content":"It is )",
             "\U0001F999",
             R"(.","reasoning":"think","reasoning_content":"think","refusal":null,)"
             R"("annotations":null,"audio":null,"function_call":null},"logprobs":null,)"
             R"("finish_reason":"stop","stop_reason":null,"token_ids":null}],)"
             R"("prompt_logprobs":null,"prompt_token_ids":null,"service_tier":null,)"
             R"("system_fingerprint":null,"usage":{"prompt_tokens":)",
             call.request.prompt.size(), R"(,"total_tokens":)", call.request.prompt.size() + 45,
             R"(,"completion_tokens":45,"prompt_tokens_details":{"cached_tokens":0},)"
             R"("completion_tokens_details":{"reasoning_tokens":5}},"kv_transfer_params":null})"));
}

TEST(Case038, AnyCutOfTheTokensGivesTheSameAnswer) {
  for (const std::string& fields :
       {std::string(kTools), StrCat(kTools, R"(,"logprobs":true,"stop":["is \ud83e\udd99.!","Q"])"),
        StrCat(kTools, R"(,"stop":"is")"), std::string(R"("include_reasoning":false)")}) {
    for (const char* text : {kAnswer, kCall, "no header at all<|return|>",
                             "<|channel|>final<|message|>Hi world!<|return|>after",
                             "<|channel|>commentary<|message|>Plan.<|end|><|start|>assistant"
                             "<|channel|>commentary to=functions.f<|message|><|call|>"}) {
      ChatFixture chat;
      const ChatCall call = chat.Call(fields);
      Folded whole = FoldBody(chat.Body(call, text));
      ForgetIds(whole);
      for (size_t step = 1; step < 80; ++step) {
        Folded streamed = Fold(chat.Stream(call, text, step))[0];
        ForgetIds(streamed);
        EXPECT_EQ(streamed, whole) << text << step;
      }
    }
  }
  ChatFixture chat;
  const ChatCall call = chat.Call("");
  EXPECT_EQ(Fold(chat.Stream(call, "<|channel|>final<|message|>Hi<|return|>after", 100))[0].content,
            "Hi");
}

TEST(Case021, OneCallInEveryForm) {
  ChatFixture chat;
  const ChatCall call = chat.Call(kTools);
  for (Folded folded : {FoldBody(chat.Body(call, kCall)), Fold(chat.Stream(call, kCall))[0]}) {
    ASSERT_EQ(folded.calls.size(), 1u);
    EXPECT_EQ(folded.calls[0].name, "grep");
    EXPECT_EQ(folded.calls[0].arguments, R"({"p":"see functions.y"})");
    EXPECT_EQ(folded.reasoning, "look");
    EXPECT_EQ(folded.content, "");
    EXPECT_EQ(folded.finish_reason, "tool_calls");
    EXPECT_EQ(folded.stop_reason, "200012");
  }
  EXPECT_EQ(Text(chat.Body(call, kCall), "choices.0.message.content"), "null");
  // It follows from the messages, not from the marker that stopped.
  EXPECT_EQ(FoldBody(chat.Body(call, "<|channel|>final<|message|>a<|call|>")).finish_reason,
            "stop");
  EXPECT_EQ(FoldBody(chat.Body(call, "<|channel|>commentary to=functions.f<|message|>{}<|return|>"))
                .finish_reason,
            "tool_calls");
}

TEST(Case012, NeverNothing) {
  ChatFixture chat;
  const ChatCall call = chat.Call("");
  EXPECT_EQ(
      Text(chat.Body(call,
                     "<|channel|>analysis<|message|>a<|end|><|start|>assistant<|channel|>final "
                     "The sum is 4.<|return|>"),
           "choices.0.message.content"),
      "\"The sum is 4.\"");
  for (const char* text : {"<|channel|>analysis<|message|>a", "<|channel|>fin", "<|return|>"})
    EXPECT_EQ(Text(chat.Body(call, text), "choices.0.message.content"), "\"\"");
}

TEST(Case016, ACutCallIsReported) {
  ChatFixture chat;
  const ChatCall call = chat.Call(kTools);
  Folded folded =
      FoldBody(chat.Body(call, "<|channel|>commentary to=functions.f<|message|>{\"a\""));
  EXPECT_EQ(folded.calls.at(0).arguments, "{\"a\"");
  EXPECT_EQ(folded.finish_reason, "length");
  folded = FoldBody(chat.Body(call, "<|channel|>commentary to=functions.f"));
  EXPECT_TRUE(folded.calls.empty());
  EXPECT_EQ(folded.finish_reason, "length");
}

TEST(Case019, ArgumentsAreSentAsSampled) {
  ChatFixture chat;
  const ChatCall call = chat.Call(kTools);
  for (const char* arguments : {R"({"a":{"b":1})", R"({"i":"x"}])", R"([{"i":"x"}])",
                                R"({"a":1}{"b":2})", "ls -R", "{\"a\":\"x\ny\"}"}) {
    const Folded folded = FoldBody(chat.Body(
        call, StrCat("<|channel|>commentary to=functions.f<|message|>", arguments, "<|call|>")));
    EXPECT_EQ(folded.calls.at(0).arguments, arguments);
    EXPECT_EQ(folded.finish_reason, "tool_calls");
  }
  // Nothing at all is an object without members, since clients parse it.
  EXPECT_EQ(FoldBody(chat.Body(call, "<|channel|>commentary to=functions.f<|message|><|call|>"))
                .calls.at(0)
                .arguments,
            "{}");
}

TEST(Case020, APreambleIsContentBesideTheCall) {
  ChatFixture chat;
  const ChatCall call = chat.Call(kTools);
  const JsonValue body = chat.Body(
      call,
      "<|channel|>commentary<|message|>Plan: two steps.<|end|><|start|>assistant<|channel|>"
      "commentary to=functions.f <|constrain|>json<|message|>{}<|call|>");
  const Folded folded = FoldBody(body);
  EXPECT_EQ(folded.content, "Plan: two steps.");
  EXPECT_EQ(folded.calls.size(), 1u);
  EXPECT_EQ(Text(body, "usage.completion_tokens_details.reasoning_tokens"), "0");
}

TEST(ChatAnswer, MessagesOfAFieldAreJoinedByALineEnd) {
  ChatFixture chat;
  const char* text =
      "<|channel|>analysis<|message|>a<|end|><|start|>assistant<|channel|>analysis<|message|>b<|"
      "end|>"
      "<|start|>assistant<|channel|>commentary<|message|>p<|end|><|start|>assistant<|channel|>final"
      "<|message|>c<|return|>";
  const Folded folded = FoldBody(chat.Body(chat.Call(""), text));
  EXPECT_EQ(folded.reasoning, "a\nb");
  EXPECT_EQ(folded.content, "p\nc");
}

TEST(Case049, OneCallIfNoMoreAreWanted) {
  ChatFixture chat;
  const char* text =
      "<|channel|>commentary to=functions.f<|message|>{}<|end|><|start|>assistant<|channel|>"
      "commentary to=functions.grep<|message|>{}<|call|>";
  EXPECT_EQ(FoldBody(chat.Body(chat.Call(kTools), text)).calls.size(), 2u);
  const Folded one =
      FoldBody(chat.Body(chat.Call(StrCat(kTools, R"(,"parallel_tool_calls":false)")), text));
  EXPECT_EQ(one.calls.size(), 1u);
  EXPECT_EQ(one.finish_reason, "tool_calls");
}

TEST(Case106, EveryChoiceHasARoleFirstAndAReasonLast) {
  ChatFixture chat;
  for (const char* text : {kAnswer, kCall, "<|channel|>final<|message|>cut"}) {
    const ChatCall call = chat.Call(StrCat(kTools, R"(,"n":2)"));
    for (const Folded& folded : Fold(chat.Stream(call, text), 2))
      EXPECT_EQ(folded.role, "assistant");
  }
  // An answer that ends before it has said anything.
  const ChatCall call = chat.Call(R"("stream":true)");
  ChatAnswer answer(call, chat.context());
  std::vector<StreamEvent> chunks;
  TokenEvent event;
  event.finish = FinishReason::kLength;
  answer.Push(0, event, chunks);
  EXPECT_TRUE(answer.done());
  answer.Finish(chunks);
  EXPECT_EQ(chunks.size(), 3u);
  EXPECT_EQ(Fold(chat.Data(chunks))[0].finish_reason, "length");
}

TEST(Case058, UsageComesWhenAskedFor) {
  ChatFixture chat;
  const auto usages = [&](const char* fields, const char* text) {
    std::vector<std::string> out;
    for (const std::string& chunk : chat.Stream(chat.Call(fields), text)) {
      if (chunk == "[DONE]") continue;
      const auto json = ParseJson(chunk);
      out.push_back(json->Find("usage") ? Text(*json, "usage.completion_tokens") : "absent");
      if (At(*json, "choices").array()->empty()) out.back() += " alone";
    }
    return out;
  };
  const char* text = "<|channel|>final<|message|>a";
  using Lines = std::vector<std::string>;
  EXPECT_EQ(usages(R"("stream":true)", text), Lines(3, "absent"));
  EXPECT_EQ(usages(R"("stream":true,"stream_options":{"include_usage":false})", text),
            Lines(3, "absent"));
  EXPECT_EQ(usages(R"("stream":true,"stream_options":{"include_usage":true})", text),
            (Lines{"null", "null", "null", "8 alone"}));
  EXPECT_EQ(usages(R"("stream":true,"n":2,"stream_options":{"include_usage":true})", text).back(),
            "16 alone");
  EXPECT_EQ(usages(R"("stream":true,"stream_options":{"include_usage":true,)"
                   R"("continuous_usage_stats":true})",
                   text)
                .size(),
            4u);

  ChatAnswer answer(chat.Call(""), chat.context());
  TokenEvent event = chat.EventOf(text);
  event.cached_tokens = 64;
  std::vector<StreamEvent> chunks;
  answer.Push(0, event, chunks);
  EXPECT_EQ(Text(*ParseJson(answer.Body()), "usage.prompt_tokens_details.cached_tokens"), "64");
}

TEST(ChatAnswer, StopStringsEndTheVisibleText) {
  ChatFixture chat;
  const char* text =
      "<|channel|>analysis<|message|>END<|end|><|start|>assistant<|channel|>final<|message|>one "
      "ENtwo "
      "END three<|return|>";
  const ChatCall call = chat.Call(R"("stop":["END","\nQ:"])");
  const Folded folded = FoldBody(chat.Body(call, text));
  EXPECT_EQ(folded.reasoning, "END");
  EXPECT_EQ(folded.content, "one ENtwo ");
  EXPECT_EQ(folded.finish_reason, "stop");
  EXPECT_EQ(folded.stop_reason, "\"END\"");
  EXPECT_EQ(
      FoldBody(chat.Body(chat.Call(R"("stop":"END","include_stop_str_in_output":true)"), text))
          .content,
      "one ENtwo END");
  // What only began to be one is given out in the end.
  EXPECT_EQ(FoldBody(chat.Body(call, "<|channel|>final<|message|>a EN<|return|>")).content, "a EN");
  EXPECT_EQ(FoldBody(chat.Body(call, "<|channel|>final<|message|>a EN")).content, "a EN");

  // The engine still runs: the choice has ended, so the caller cancels; what comes is ignored.
  ChatAnswer answer(call, chat.context());
  std::vector<StreamEvent> chunks;
  TokenEvent event = chat.EventOf("<|channel|>final<|message|>a END b");
  event.finish = FinishReason::kNone;
  answer.Push(0, event, chunks);
  EXPECT_TRUE(answer.ended(0));
  answer.Push(0, {.finish = FinishReason::kCancelled}, chunks);
  EXPECT_FALSE(answer.failed());
  EXPECT_EQ(FoldBody(*ParseJson(answer.Body())).content, "a ");
  EXPECT_EQ(answer.completion_tokens(), 12);
}

TEST(ChatAnswer, LogprobsCoverTheContent) {
  ChatFixture chat;
  const ChatCall call = chat.Call(R"("logprobs":true,"top_logprobs":2,"stop":"XY")");
  const char* text =
      "<|channel|>analysis<|message|>t<|end|><|start|>assistant<|channel|>final<|message|>"
      "\xc3\xa9X."
      "<|return|>";
  const Folded folded = FoldBody(chat.Body(call, text));
  ASSERT_EQ(folded.logprobs.size(), 4u);  // two bytes of a character, 'X', '.'
  EXPECT_EQ(
      folded.logprobs[2],
      R"({"token":"X","logprob":-0.5,"bytes":[88],"top_logprobs":[{"token":"X","logprob":-0.5,)"
      R"("bytes":[88]},{"token":"x","logprob":-9999,"bytes":[120]}]})");
  EXPECT_TRUE(
      folded.logprobs[0].starts_with("{\"token\":\"\uFFFD\",\"logprob\":-0.5,\"bytes\":[195]"));
  EXPECT_EQ(Fold(chat.Stream(call, text))[0].logprobs, folded.logprobs);
  // Tokens of a stop string are no part of the answer.
  EXPECT_EQ(FoldBody(chat.Body(call, "<|channel|>final<|message|>aXY<|return|>")).logprobs.size(),
            1u);
  EXPECT_EQ(Text(chat.Body(chat.Call(""), text), "choices.0.logprobs"), "null");
}

TEST(ChatAnswer, AFailureIsAnError) {
  ChatFixture chat;
  for (const FinishReason reason : {FinishReason::kError, FinishReason::kCancelled}) {
    for (const bool stream : {false, true}) {
      ChatAnswer answer(
          chat.Call(stream ? R"("stream":true,"stream_options":{"include_usage":true})" : ""),
          chat.context());
      std::vector<StreamEvent> chunks;
      TokenEvent event = chat.EventOf("<|channel|>final<|message|>a");
      event.finish = FinishReason::kNone;
      answer.Push(0, event, chunks);
      answer.Push(0, {.finish = reason, .error = "the \"disk\" is full"}, chunks);
      ASSERT_TRUE(answer.done());
      ASSERT_TRUE(answer.failed());
      EXPECT_EQ(answer.failed()->http_status, reason == FinishReason::kError ? 500 : 503);
      if (!stream) continue;
      EXPECT_TRUE(ParseJson(chunks.back().data)->Find("error"));
      answer.Finish(chunks);
      EXPECT_EQ(chunks.size(), 4u);  // role, text, error, [DONE]
      EXPECT_EQ(chunks.back().data, "[DONE]");
    }
  }
}

TEST(ChatAnswer, AFormThatCannotBeKeptUpIsTheRequestsFault) {
  ChatFixture chat;
  const TokenEvent event{.finish = FinishReason::kError,
                         .error = StrCat(kConstraintTooHard, "it is too hard")};
  std::vector<StreamEvent> chunks;
  ChatAnswer answer(chat.Call(""), chat.context());
  answer.Push(0, event, chunks);
  EXPECT_EQ(answer.failed()->http_status, 400);
  EXPECT_EQ(answer.failed()->message, "The answer's form cannot be kept up: it is too hard.");
  ChatAnswer stream(chat.Call(R"("stream":true)"), chat.context());
  stream.Push(0, event, chunks);
  EXPECT_EQ(Text(*ParseJson(chunks.back().data), "error.type"), "\"BadRequestError\"");
}

TEST(ChatAnswer, IdsNeverRepeat) {
  EXPECT_EQ(RandomHex().size(), 32u);
  EXPECT_NE(RandomHex(), RandomHex());
  ChatFixture chat;
  const ChatCall call = chat.Call(kTools);
  EXPECT_NE(FoldBody(chat.Body(call, kCall)).calls[0].id,
            FoldBody(chat.Body(call, kCall)).calls[0].id);
}

}  // namespace
}  // namespace rose

#include "api/completions.h"

#include <gtest/gtest.h>

#include "api/chat_fixture.h"

namespace rose {
namespace {

class Completions : public testing::Test {
 protected:
  std::variant<CompletionCall, ApiError> Parse(std::string_view body) {
    return ParseCompletionRequest(body, chat_.context(), 1764400000);
  }
  CompletionCall Call(std::string_view fields) {
    auto parsed = Parse(StrCat("{", fields, "}"));
    if (const auto* error = std::get_if<ApiError>(&parsed)) ADD_FAILURE() << ErrorBody(*error);
    return std::get<CompletionCall>(std::move(parsed));
  }
  // "param: message", or "" if the request is accepted.
  std::string ErrorOf(std::string_view fields) {
    auto parsed = Parse(StrCat("{", fields, "}"));
    const auto* error = std::get_if<ApiError>(&parsed);
    return error ? error->param + ": " + error->message : "";
  }
  std::string TextOf(const std::vector<int32_t>& ids) {
    return chat_.context().tokenizer->Decode(ids);
  }

  // What the engine would say of the prompt: token i has the logprob -i, the most likely is 'x'.
  static std::vector<SampledToken> Scores(const std::vector<int32_t>& prompt) {
    std::vector<SampledToken> scores;
    for (size_t i = 1; i < prompt.size(); ++i) {
      scores.push_back({.id = prompt[i],
                        .logprob = -static_cast<float>(i),
                        .top = {{'x', -0.25f}, {0xe2, -0.5f}}});
    }
    return scores;
  }
  // The events of one answer, `step` tokens each; the scores come before the first token.
  std::vector<TokenEvent> Events(const CompletionCall& call, std::string_view text, size_t step) {
    std::vector<TokenEvent> events = chat_.Steps(text, step);
    events.emplace(events.begin());
    if (call.request.prompt_logprobs >= 0) events[0].prompt = Scores(call.prompts[0]);
    return events;
  }
  JsonValue Body(const CompletionCall& call, std::string_view text, size_t step = 1) {
    CompletionAnswer answer(call, chat_.context());
    std::vector<StreamEvent> stream;
    for (int64_t i = 0; i < call.answers(); ++i) {
      for (const TokenEvent& event : Events(call, text, step)) answer.Push(i, event, stream);
    }
    EXPECT_TRUE(answer.done());
    EXPECT_TRUE(stream.empty());
    return *ParseJson(answer.Body());
  }
  std::vector<JsonValue> Stream(const CompletionCall& call, std::string_view text, size_t step) {
    CompletionAnswer answer(call, chat_.context());
    std::vector<StreamEvent> events;
    answer.Begin(events);
    for (int64_t i = 0; i < call.answers(); ++i) {
      for (const TokenEvent& event : Events(call, text, step)) answer.Push(i, event, events);
    }
    EXPECT_TRUE(answer.done());
    answer.Finish(events);
    EXPECT_EQ(events.back().data, "[DONE]");
    events.pop_back();
    std::vector<JsonValue> chunks;
    for (const StreamEvent& event : events) chunks.push_back(*ParseJson(event.data));
    return chunks;
  }

  ChatFixture chat_;
};

TEST_F(Completions, PromptsComeInFourForms) {
  using Ids = std::vector<int32_t>;
  EXPECT_EQ(Call(R"("prompt":"ab")").prompts, (std::vector<Ids>{{97, 98}}));
  EXPECT_EQ(Call(R"("prompt":["ab","c"])").prompts, (std::vector<Ids>{{97, 98}, {99}}));
  EXPECT_EQ(Call(R"("prompt":[5,6])").prompts, (std::vector<Ids>{{5, 6}}));
  EXPECT_EQ(Call(R"("prompt":[[5,6],[7]])").prompts, (std::vector<Ids>{{5, 6}, {7}}));
  EXPECT_EQ(Call(R"("prompt":["a",[7]])").prompts, (std::vector<Ids>{{97}, {7}}));
  // Nothing but its special tokens says what a prompt is.
  EXPECT_EQ(Call(R"("prompt":"<|start|>a<|end|>")").prompts,
            (std::vector<Ids>{{200006, 97, 200007}}));
}

TEST_F(Completions, DefaultsAreTheApis) {
  const CompletionCall call = Call(R"("prompt":"ab")");
  EXPECT_EQ(call.id, "cmpl-id1");
  EXPECT_EQ(call.model, "rosebud");
  EXPECT_EQ(call.request.max_tokens, 16);
  EXPECT_EQ(call.request.sampling.logprobs, -1);
  EXPECT_EQ(call.request.prompt_logprobs, -1);
  EXPECT_EQ(call.request.stop_ids, (std::vector<int32_t>{200002, 200012, 199999}));
  EXPECT_FALSE(call.echo || call.stream);
  chat_.context().max_context = 10;
  EXPECT_EQ(Call(R"("prompt":"abcdef")").request.max_tokens, 4);  // what fits, if it is less
}

TEST_F(Completions, EveryFieldThatIsWrongIsNamed) {
  const auto expect = [&](std::string_view fields, std::string_view part) {
    EXPECT_NE(ErrorOf(fields).find(part), std::string::npos) << fields << " -> " << ErrorOf(fields);
  };
  expect(R"("model":"rosebud")", "prompt: prompt is missing");
  expect(R"("prompt":null)", "prompt: prompt is missing");
  expect(R"("prompt":"")", "prompt: prompt must have at least one token");
  expect(R"("prompt":[])", "prompt: prompt must not be empty");
  expect(R"("prompt":["a",""])", "prompt[1]: ");
  expect(R"("prompt":[[]])", "prompt[0]: ");
  expect(R"("prompt":{"a":1})", "prompt: prompt must be a text");
  expect(R"("prompt":7)", "prompt: prompt must be a text");
  expect(R"("prompt":[1,-1])", "prompt: prompt must hold ids");
  expect(R"("prompt":[1,"a"])", "prompt: prompt must hold ids");
  expect(R"("prompt":[[1],[1.5]])", "prompt[1]: ");
  expect(R"("prompt":[[9999999]])", "prompt[0]: ");
  expect(R"("prompt":"a","model":"other")", "model: ");
  expect(R"("prompt":"a","suffix":"b")", "suffix: ");
  expect(R"("prompt":"a","best_of":2)", "best_of: ");
  expect(R"("prompt":"a","max_tokens":-1)", "max_tokens: ");
  expect(R"("prompt":"a","max_tokens":0)", "unless echo");
  expect(R"("prompt":"a","max_tokens":100000)", "max_tokens: This model's maximum context");
  expect(R"("prompt":"a","min_tokens":17)", "min_tokens: ");
  expect(R"("prompt":"a","logprobs":21)", "logprobs: ");
  expect(R"("prompt":"a","logprobs":true)", "logprobs: ");
  expect(R"("prompt":"a","logprobs":-1)", "logprobs: logprobs -1 is the whole vocabulary");
  expect(R"("prompt":"a","prompt_logprobs":21)", "prompt_logprobs: ");
  expect(R"("prompt":"a","prompt_logprobs":1,"stream":true)", "prompt_logprobs: ");
  expect(R"("prompt":"a","echo":1)", "echo: ");
  expect(R"("prompt":"a","n":0)", "n: ");
  expect(R"("prompt":"a","n":2,"temperature":0)", "n: ");
  expect(R"("prompt":"a","stream_options":{"include_usage":true})", "stream_options: ");
  expect(R"("prompt":"a","truncate_prompt_tokens":0)", "truncate_prompt_tokens: ");
  expect(R"("prompt":"a","allowed_token_ids":[])", "allowed_token_ids: ");
  expect(R"("prompt":"a","allowed_token_ids":[1,-2])", "allowed_token_ids[1]: ");
  expect(R"("prompt":"a","bad_words":["a",""])", "bad_words[1]: ");
  expect(R"("prompt":"a","bad_words":"a")", "bad_words: ");
  expect(R"("prompt":"a","logprob_token_ids":["a"])", "logprob_token_ids[0]: ");
  expect(R"("prompt":"a","guided_regex":7)", "guided_regex: ");
  expect(R"("prompt":"a","response_format":{"type":"json_object"},"guided_regex":"a")",
         "guided_regex: ");
  expect(R"("prompt":"a","return_token_ids":"yes")", "return_token_ids: ");
  // Off is fine.
  EXPECT_EQ(ErrorOf(R"("prompt":"a","suffix":"","best_of":1,"logprobs":null,"seed":null,)"
                    R"("response_format":{"type":"text"},"use_beam_search":false)"),
            "");
  EXPECT_EQ(ErrorOf(R"("prompt":"a","logprobs":-1,"max_tokens":2)"), "");
}

TEST_F(Completions, FieldsReachTheEngine) {
  const CompletionCall call =
      Call(R"("prompt":[[1,2],[3]],"n":2,"seed":5,"max_tokens":7,"min_tokens":2,"stop":["ab"],)"
           R"("stop_token_ids":[65],"allowed_token_ids":[1,65],"bad_words":["no"," so"],)"
           R"("logprobs":3,"logprob_token_ids":[9],"temperature":0.5)");
  const std::vector<Request> requests = call.Requests();
  ASSERT_EQ(requests.size(), 4u);
  EXPECT_EQ(requests[0].prompt, (std::vector<int32_t>{1, 2}));
  EXPECT_EQ(requests[1].prompt, (std::vector<int32_t>{1, 2}));
  EXPECT_EQ(requests[2].prompt, (std::vector<int32_t>{3}));
  EXPECT_EQ(requests[0].sampling.seed, requests[2].sampling.seed);
  EXPECT_NE(requests[0].sampling.seed, requests[1].sampling.seed);
  EXPECT_EQ(requests[3].max_tokens, 7);
  EXPECT_EQ(requests[3].min_tokens, 2);
  EXPECT_EQ(requests[3].stop_ids.back(), 65);
  const SamplingParams& sampling = requests[3].sampling;
  EXPECT_EQ(sampling.allowed_ids, (std::vector<int32_t>{1, 65}));
  EXPECT_EQ(sampling.bad_words, (std::vector<std::vector<int32_t>>{
                                    {'n', 'o'}, {' ', 'n', 'o'}, {'s', 'o'}, {' ', 's', 'o'}}));
  EXPECT_EQ(sampling.logprobs, 3);
  EXPECT_EQ(sampling.logprob_ids, (std::vector<int32_t>{9}));
  EXPECT_EQ(Call(R"("prompt":[1,2,3],"truncate_prompt_tokens":2)").prompts[0],
            (std::vector<int32_t>{2, 3}));
  EXPECT_TRUE(Call(R"("prompt":"a","ignore_eos":true)").request.stop_ids.empty());
}

TEST_F(Completions, ABodyHasWhatClientsRead) {
  const JsonValue body = Body(Call(R"("prompt":"ab","max_tokens":9)"), " hello");
  EXPECT_EQ(Text(body, "object"), R"("text_completion")");
  EXPECT_EQ(Text(body, "id"), R"("cmpl-id1")");
  EXPECT_EQ(Text(body, "choices.0.text"), R"(" hello")");
  EXPECT_EQ(Text(body, "choices.0.finish_reason"), R"("length")");
  EXPECT_EQ(Text(body, "choices.0.logprobs"), "null");
  EXPECT_EQ(Text(body, "usage.prompt_tokens"), "2");
  EXPECT_EQ(Text(body, "usage.completion_tokens"), "6");
  EXPECT_EQ(Text(body, "usage.total_tokens"), "8");
}

TEST_F(Completions, AChoiceForEveryPromptAndEachOfN) {
  const JsonValue body =
      Body(Call(R"("prompt":["a","bcd"],"n":2,"max_tokens":9,"echo":true)"), "!");
  for (int i = 0; i < 4; ++i) {
    EXPECT_EQ(Text(body, StrCat("choices.", i, ".index")), StrCat(i));
    EXPECT_EQ(Text(body, StrCat("choices.", i, ".text")), i < 2 ? R"("a!")" : R"("bcd!")");
  }
  EXPECT_EQ(Text(body, "usage.prompt_tokens"), "4");  // each prompt once
  EXPECT_EQ(Text(body, "usage.completion_tokens"), "4");
}

TEST_F(Completions, SpecialTokensAreShownOnlyIfAsked) {
  const std::string_view said = "<|channel|>final<|message|>x<|return|>";
  JsonValue body = Body(Call(R"("prompt":"a")"), said);
  EXPECT_EQ(Text(body, "choices.0.text"), R"("finalx")");
  EXPECT_EQ(Text(body, "choices.0.finish_reason"), R"("stop")");
  EXPECT_EQ(Text(body, "choices.0.stop_reason"), "null");
  body = Body(Call(R"("prompt":"a","skip_special_tokens":false)"), said);
  EXPECT_EQ(Text(body, "choices.0.text"), R"("<|channel|>final<|message|>x")");
  // A stop id of the request's own ends the text before it.
  body = Body(Call(R"("prompt":"a","stop_token_ids":[200008])"), "ab<|message|>c");
  EXPECT_EQ(Text(body, "choices.0.text"), R"("ab")");
}

// lm-eval's loglikelihood: prompt as ids, one token, the logprobs of everything but the first.
TEST_F(Completions, EchoWithLogprobsScoresThePrompt) {
  const CompletionCall call =
      Call(R"("prompt":[[104,105,33]],"temperature":0,"max_tokens":1,"logprobs":1,"seed":1234,)"
           R"("echo":true)");
  EXPECT_EQ(call.Requests()[0].prompt_logprobs, 1);
  const JsonValue body = Body(call, "?");
  const JsonValue& logprobs = At(body, "choices.0.logprobs");
  EXPECT_EQ(Text(body, "choices.0.text"), R"("hi!?")");
  EXPECT_EQ(Text(logprobs, "tokens"), R"(["h","i","!","?"])");
  EXPECT_EQ(Text(logprobs, "token_logprobs"), "[null,-1,-2,-0.5]");
  EXPECT_EQ(Text(logprobs, "text_offset"), "[0,1,2,3]");
  // The most likely, and the token itself.
  EXPECT_EQ(Text(logprobs, "top_logprobs.0"), "null");
  EXPECT_EQ(Text(logprobs, "top_logprobs.1"), R"({"x":-0.25,"i":-1})");
  EXPECT_EQ(Text(logprobs, "top_logprobs.3"), R"({"?":-0.5,"x":-9999})");
}

TEST_F(Completions, AStopTokenIsAmongTheLogprobsThoughNotInTheText) {
  const JsonValue body =
      Body(Call(R"("prompt":"hi","max_tokens":1,"logprobs":0,"echo":true)"), "<|return|>");
  EXPECT_EQ(Text(body, "choices.0.text"), R"("hi")");
  EXPECT_EQ(Text(body, "choices.0.logprobs.tokens"), R"(["h","i","<|return|>"])");
}

TEST_F(Completions, MaxTokensZeroIsThePromptAlone) {
  const CompletionCall call = Call(R"("prompt":"hi","max_tokens":0,"echo":true,"logprobs":1)");
  const JsonValue body = Body(call, "?");
  EXPECT_EQ(Text(body, "choices.0.text"), R"("hi")");
  EXPECT_EQ(Text(body, "choices.0.finish_reason"), R"("length")");
  EXPECT_EQ(Text(body, "choices.0.logprobs.token_logprobs"), "[null,-1]");
  EXPECT_EQ(Text(body, "usage.completion_tokens"), "0");
}

TEST_F(Completions, PromptLogprobsAreGivenById) {
  const JsonValue body = Body(Call(R"("prompt":"hi","prompt_logprobs":1)"), "?");
  EXPECT_EQ(Text(body, "choices.0.logprobs"), "null");
  EXPECT_EQ(Text(body, "choices.0.prompt_logprobs"),
            R"([null,{"120":{"logprob":-0.25,"rank":1,"decoded_token":"x"},)"
            R"("105":{"logprob":-1,"rank":null,"decoded_token":"i"}}])");
}

TEST_F(Completions, TokensMayBeGivenAsIds) {
  const JsonValue body = Body(Call(R"("prompt":"hi","logprobs":0,"return_token_ids":true,)"
                                   R"("return_tokens_as_token_ids":true)"),
                              "a?");
  EXPECT_EQ(Text(body, "choices.0.prompt_token_ids"), "[104,105]");
  EXPECT_EQ(Text(body, "choices.0.token_ids"), "[97,63]");
  EXPECT_EQ(Text(body, "choices.0.logprobs.tokens"), R"(["token_id:97","token_id:63"])");
}

TEST_F(Completions, HalfACharacterHasANameOfItsOwn) {
  const JsonValue body = Body(Call(R"("prompt":"hi","logprobs":0,"echo":true)"), "\xe2\x82\xac!");
  EXPECT_EQ(Text(body, "choices.0.text"), "\"hi\xe2\x82\xac!\"");
  EXPECT_EQ(Text(body, "choices.0.logprobs.tokens"),
            R"(["h","i","bytes:\\xe2","bytes:\\x82","bytes:\\xac","!"])");
  EXPECT_EQ(Text(body, "choices.0.logprobs.text_offset"), "[0,1,2,2,2,3]");  // in characters
  // A character that begins in the prompt and ends in the answer.
  CompletionCall call = Call(R"("prompt":[226,130],"echo":true)");
  EXPECT_EQ(Text(Body(call, "\xac"), "choices.0.text"), "\"\xe2\x82\xac\"");
}

// A stop string over token borders: neither its text nor the logprobs of its tokens are shown.
TEST_F(Completions, StopStringsEndTheText) {
  const CompletionCall call =
      Call(R"("prompt":"hi STOP","stop":["STOP"],"logprobs":0,"echo":true)");
  const JsonValue body = Body(call, "aSTbSTOPc");
  EXPECT_EQ(Text(body, "choices.0.text"), R"("hi STOPaSTb")");
  EXPECT_EQ(Text(body, "choices.0.finish_reason"), R"("stop")");
  EXPECT_EQ(Text(body, "choices.0.stop_reason"), R"("STOP")");
  EXPECT_EQ(At(body, "choices.0.logprobs.tokens").array()->size(), 7u + 4u);
  const JsonValue shown =
      Body(Call(R"("prompt":"a","stop":"STOP","include_stop_str_in_output":true)"), "bSTOPc");
  EXPECT_EQ(Text(shown, "choices.0.text"), R"("bSTOP")");
}

// The chunks of a stream add up to the body, whatever the steps.
TEST_F(Completions, AStreamIsTheBodyInPieces) {
  const std::string fields =
      R"("prompt":"hi","stop":["STOP"],"logprobs":1,"echo":true,"return_token_ids":true)";
  const std::string_view said = "aSTb\xe2\x82\xac<|end|>STcSTOPd";
  const JsonValue body = Body(Call(fields), said);
  for (size_t step : {1, 2, 3, 50}) {
    const auto chunks = Stream(Call(fields + R"(,"stream":true)"), said, step);
    std::string text, finish;
    std::vector<std::string> tokens, offsets;
    int64_t ids = 0;
    for (const JsonValue& chunk : chunks) {
      EXPECT_EQ(Text(chunk, "object"), R"("text_completion")");
      EXPECT_EQ(chunk.Find("usage"), nullptr);
      EXPECT_TRUE(finish.empty());
      text += *At(chunk, "choices.0.text").string();
      for (const JsonValue& token : *At(chunk, "choices.0.logprobs.tokens").array())
        tokens.push_back(WriteJson(token));
      for (const JsonValue& offset : *At(chunk, "choices.0.logprobs.text_offset").array())
        offsets.push_back(WriteJson(offset));
      ids += std::ssize(*At(chunk, "choices.0.token_ids").array());
      if (At(chunk, "choices.0.finish_reason").string())
        finish = *At(chunk, "choices.0.finish_reason").string();
    }
    EXPECT_TRUE(At(chunks[0], "choices.0.text").string()->starts_with("hia"));
    EXPECT_EQ(Text(chunks[0], "choices.0.prompt_token_ids"), "[104,105]");
    EXPECT_EQ(finish, "stop");
    EXPECT_EQ(text, *At(body, "choices.0.text").string());
    EXPECT_EQ(tokens.size(), At(body, "choices.0.logprobs.tokens").array()->size());
    EXPECT_EQ(offsets.size(), tokens.size());
    EXPECT_EQ(ids, std::ssize(*At(body, "choices.0.token_ids").array()));
  }
}

// What never fits is the request's fault; what does not fit now is answered by the engine.
TEST_F(Completions, MoreAnswersThanTheServerHasPlacesForAreRefused) {
  chat_.context().max_requests = 4;
  EXPECT_EQ(ErrorOf(R"("prompt":["a","b"],"n":2)"), "");
  EXPECT_EQ(ErrorOf(R"("prompt":["a","b","c","d","e"])"),
            "prompt: prompt and n ask for 5 answers at once; this server takes at most 4.");
  EXPECT_EQ(ErrorOf(R"("prompt":"a","n":5)"), "n: n must be an integer between 1 and 4.");
  EXPECT_EQ(chat_.ErrorOf(chat_.ParseWith(R"("n":5)")), "n: n must be an integer between 1 and 4.");
}

TEST_F(Completions, StreamsCarryUsageWhereAsked) {
  const auto last = Stream(
      Call(R"("prompt":"hi","stream":true,"stream_options":{"include_usage":true})"), "abc", 1);
  ASSERT_EQ(last.size(), 4u);
  EXPECT_EQ(Text(last[0], "usage"), "null");
  EXPECT_EQ(Text(last[3], "choices"), "[]");
  EXPECT_EQ(Text(last[3], "usage.completion_tokens"), "3");
  const auto always = Stream(
      Call(R"("prompt":"hi","stream":true,"stream_options":{"continuous_usage_stats":true})"),
      "abc", 1);
  ASSERT_EQ(always.size(), 3u);
  EXPECT_EQ(Text(always[1], "usage.completion_tokens"), "2");
}

TEST_F(Completions, AFailureIsTheAnswersOrTheStreams) {
  TokenEvent event;
  event.finish = FinishReason::kError;
  event.error = "no";
  std::vector<StreamEvent> events;
  CompletionAnswer answer(Call(R"("prompt":["a","b"])"), chat_.context());
  answer.Push(1, event, events);
  EXPECT_TRUE(answer.done());
  EXPECT_EQ(answer.failed()->message, "no");
  EXPECT_EQ(answer.failed()->http_status, 500);
  EXPECT_TRUE(events.empty());
  CompletionAnswer stream(Call(R"("prompt":"a","stream":true)"), chat_.context());
  stream.Push(0, event, events);
  ASSERT_EQ(events.size(), 1u);
  EXPECT_NE(events[0].data.find("\"error\""), std::string::npos);
}

}  // namespace
}  // namespace rose

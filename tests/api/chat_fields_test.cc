// Fields of chat requests that came from vLLM.
#include <fstream>

#include "api/chat_fixture.h"
#include "chat/harmony.h"
#include "tokenizer/tokenizer.h"

namespace rose {
namespace {

TEST(ChatFields, WordsAndIdsReachTheSampler) {
  ChatFixture chat;
  const Request request =
      chat.Call(R"("allowed_token_ids":[1,2],"bad_words":["no"],"prompt_logprobs":3,)"
                R"("logprobs":true,"logprob_token_ids":[7],"cache_salt":"s","stream_interval":5,)"
                R"("priority":-3,"request_id":"r","session_id":"s")")
          .RequestOf(0);
  EXPECT_EQ(request.sampling.allowed_ids, (std::vector<int32_t>{1, 2}));
  EXPECT_EQ(request.sampling.bad_words,
            (std::vector<std::vector<int32_t>>{{'n', 'o'}, {' ', 'n', 'o'}}));
  EXPECT_EQ(request.sampling.logprob_ids, (std::vector<int32_t>{7}));
  EXPECT_EQ(request.prompt_logprobs, 3);
  EXPECT_EQ(request.cache_salt, "s");
  EXPECT_EQ(request.priority, -3);
  EXPECT_EQ(chat.Call("").request.prompt_logprobs, -1);
}

TEST(ChatFields, ABudgetOfThoughtsIsAConstraint) {
  ChatFixture chat;
  EXPECT_NE(chat.Call(R"("thinking_token_budget":5)").RequestOf(0).constraint, nullptr);
  EXPECT_EQ(chat.Call("").RequestOf(0).constraint, nullptr);
}

TEST(ChatFields, MembersThatNobodyKnowsAreNamed) {
  ChatFixture chat;
  const char* cases[][2] = {
      {R"("response_format":{"type":"json_object","schema":{}})", "response_format.schema"},
      {R"("response_format":{"type":"text","x":1})", "response_format.x"},
      {R"("response_format":{"type":"json_schema","json_schema":{"name":"x","schema":{},"stric":1}})",
       "response_format.json_schema.stric"},
      {R"("response_format":{"type":"json_schema","strict":true,"json_schema":{"schema":{}}})",
       "response_format.strict"},
      {R"("response_format":{"type":"json_schema","schema":{},"stric":1})",
       "response_format.stric"},
      {R"("structured_outputs":{"jsn":{}})", "structured_outputs.jsn"},
      {R"("structured_outputs":{"whitespace_pattern":" "})",
       "structured_outputs.whitespace_pattern"}};
  for (const auto& [fields, path] : cases) {
    const std::string error = chat.ErrorOf(chat.ParseWith(fields));
    EXPECT_TRUE(error.starts_with(StrCat(path, ": ", path, " is not "))) << error;
  }
  EXPECT_EQ(chat.ErrorOf(chat.ParseWith(R"("response_format":{"type":"text","x":null})")), "");
}

TEST(ChatFields, OlderAndOtherFormsAreRefusedWhereTheyCount) {
  ChatFixture chat;
  const char* refused[][2] = {{R"("functions":[{"name":"f"}])", "functions: "},
                              {R"("function_call":{"name":"f"})", "function_call: "},
                              {R"("function_call":"f")", "function_call: "},
                              {R"("modalities":["text","audio"])", "modalities[1]: "},
                              {R"("modalities":"audio")", "modalities: "},
                              {R"("chat_template":"{{ x }}")", "chat_template: "}};
  for (const auto& [fields, start] : refused) {
    const std::string error = chat.ErrorOf(chat.ParseWith(fields));
    EXPECT_TRUE(error.starts_with(start)) << error;
  }
  for (const char* fields :
       {R"("functions":[],"function_call":"auto")", R"("function_call":"none")",
        R"("modalities":["text"])", R"("chat_template":null)",
        R"("prediction":{"type":"content","content":"x"})"})
    EXPECT_EQ(chat.ErrorOf(chat.ParseWith(fields)), "") << fields;
}

TEST(ChatFields, ARefusalIsWhatTheAssistantSaid) {
  ChatFixture chat;
  const auto prompt = [&](std::string_view message) {
    auto parsed = chat.Parse(StrCat(R"({"messages":[{"role":"user","content":"a"},)", message,
                                    R"(,{"role":"user","content":"b"}]})"));
    return chat.Prompt(std::get<ChatCall>(std::move(parsed)));
  };
  const std::string said = prompt(R"({"role":"assistant","content":"No."})");
  EXPECT_EQ(prompt(R"({"role":"assistant","content":null,"refusal":"No."})"), said);
  EXPECT_EQ(prompt(R"({"role":"assistant","refusal":"No."})"), said);
  EXPECT_EQ(prompt(R"({"role":"assistant","content":[{"type":"refusal","refusal":"No."}]})"), said);
  EXPECT_EQ(prompt(R"({"role":"assistant","content":"No.","refusal":null})"), said);
}

TEST(ChatFields, WhatIsWrongIsNamed) {
  ChatFixture chat;
  const auto expect = [&](std::string_view fields, std::string_view part) {
    const std::string error = chat.ErrorOf(chat.ParseWith(fields));
    EXPECT_NE(error.find(part), std::string::npos) << fields << " -> " << error;
  };
  expect(R"("allowed_token_ids":[])", "allowed_token_ids: ");
  expect(R"("allowed_token_ids":[9999999])", "allowed_token_ids[0]: ");
  expect(R"("bad_words":[7])", "bad_words[0]: ");
  expect(R"("prompt_logprobs":true)", "prompt_logprobs: ");
  expect(R"("prompt_logprobs":1,"stream":true)", "prompt_logprobs: ");
  expect(R"("top_logprobs":-2,"logprobs":true)", "top_logprobs: ");
  expect(R"("top_logprobs":-1)", "top_logprobs: top_logprobs needs logprobs");
  expect(R"("top_logprobs":-1,"logprobs":true,"max_tokens":100)", "top_logprobs: ");
  expect(R"("prompt_logprobs":-1)", "prompt_logprobs: ");
  expect(R"("guided_choice":[])", "guided_choice: guided_choice must have at least one text");
  expect(R"("guided_choice":[""])", "guided_choice: guided_choice must not hold an empty text");
  expect(R"("guided_grammar":"root ::= a")",
         "guided_grammar: guided_grammar is not understood: line 1 of the grammar: ");
  expect(R"("truncate_prompt_tokens":5)", "truncate_prompt_tokens: ");
  expect(R"("thinking_token_budget":-5)", "thinking_token_budget: ");
  expect(R"("chat_template_kwargs":{"builtin_tools":["shell"]})",
         "chat_template_kwargs.builtin_tools[0]: ");
  expect(R"("chat_template_kwargs":{"builtin_tools":"browser"})",
         "chat_template_kwargs.builtin_tools: ");
  expect(R"("tools":[{"type":"function","function":{"name":"f"}},)"
         R"({"type":"function","function":{"name":"f"}}])",
         "tools[1].function.name: ");
  EXPECT_EQ(chat.ErrorOf(chat.ParseWith(R"("top_logprobs":-1,"logprobs":true,"max_tokens":1)")),
            "");
}

TEST(ChatFields, PromptLogprobsAndIdsAreInTheBody) {
  ChatFixture chat;
  ChatCall call = chat.Call(R"("prompt_logprobs":1,"return_token_ids":true)");
  ChatAnswer answer(call, chat.context());
  std::vector<StreamEvent> events;
  TokenEvent scores;
  scores.prompt = {{.id = 'b', .logprob = -2, .top = {{'x', -1}}}};
  answer.Push(0, scores, events);
  answer.Push(0, chat.EventOf("<|channel|>final<|message|>hi<|return|>"), events);
  const JsonValue body = *ParseJson(answer.Body());
  EXPECT_EQ(Text(body, "prompt_logprobs"),
            R"([null,{"120":{"logprob":-1,"rank":1,"decoded_token":"x"},)"
            R"("98":{"logprob":-2,"rank":null,"decoded_token":"b"}}])");
  EXPECT_EQ(At(body, "prompt_token_ids").array()->size(), call.request.prompt.size());
  EXPECT_EQ(Text(body, "choices.0.token_ids"), "[200005,102,105,110,97,108,200008,104,105,200002]");
  const JsonValue plain = chat.Body(chat.Call(""), "<|channel|>final<|message|>hi<|return|>");
  EXPECT_EQ(Text(plain, "prompt_logprobs"), "null");
  EXPECT_EQ(Text(plain, "choices.0.token_ids"), "null");
}

// Every id is in exactly one chunk, in order; the prompt's are in the first.
TEST(ChatFields, StreamsCarryTheirIds) {
  ChatFixture chat;
  const ChatCall call = chat.Call(R"("return_token_ids":true)");
  for (size_t step : {1, 3, 100}) {
    std::vector<std::string> chunks =
        chat.Stream(call, "<|channel|>final<|message|>hi<|return|>", step);
    EXPECT_EQ(chunks.back(), "[DONE]");
    chunks.pop_back();
    std::string ids;
    for (size_t i = 0; i < chunks.size(); ++i) {
      const JsonValue chunk = *ParseJson(chunks[i]);
      EXPECT_EQ(chunk.Find("prompt_token_ids") != nullptr, i == 0);
      for (const JsonValue& id : *At(chunk, "choices.0.token_ids").array())
        ids += WriteJson(id) + " ";
    }
    EXPECT_EQ(ids, "200005 102 105 110 97 108 200008 104 105 200002 ");
  }
}

TEST(ChatFields, LogprobsMayNameTokensByTheirIds) {
  ChatFixture chat;
  const JsonValue body =
      chat.Body(chat.Call(R"("logprobs":true,"return_tokens_as_token_ids":true)"),
                "<|channel|>final<|message|>h<|return|>");
  EXPECT_EQ(Text(body, "choices.0.logprobs.content.0.token"), R"("token_id:104")");
}

// Case 37 over the API: the prompt ends inside the last message, and the answer goes on in it.
TEST(Case037, TheLastMessageIsContinued) {
  ChatFixture chat;
  const std::string messages =
      R"({"messages":[{"role":"user","content":"hi"},{"role":"assistant","content":"Once"}],)"
      R"("continue_final_message":true,"add_generation_prompt":false)";
  const auto call_of = [&](std::string_view more) {
    auto parsed = chat.Parse(StrCat(messages, more, "}"));
    EXPECT_EQ(chat.ErrorOf(parsed), "");
    return std::get<ChatCall>(std::move(parsed));
  };
  EXPECT_TRUE(
      chat.Prompt(call_of("")).ends_with("<|start|>assistant<|channel|>final<|message|>Once"));
  const std::string_view said = " upon STOP a<|return|>";
  JsonValue body = chat.Body(call_of(""), said);
  EXPECT_EQ(Text(body, "choices.0.message.content"), R"(" upon STOP a")");
  EXPECT_EQ(Text(body, "choices.0.message.reasoning"), "null");
  // Echoed text is none of the answer's: no stop string is searched in it.
  body = chat.Body(call_of(R"(,"echo":true,"stop":["Once","STOP"])"), said);
  EXPECT_EQ(Text(body, "choices.0.message.content"), R"("Once upon ")");
  const auto chunks = chat.Stream(call_of(R"(,"echo":true,"stream":true)"), said);
  std::string content;
  for (const std::string& chunk : chunks) {
    if (chunk == "[DONE]") continue;
    const JsonValue json = *ParseJson(chunk);
    const JsonValue& text = At(json, "choices.0.delta.content");
    if (text.string()) content += *text.string();
  }
  EXPECT_EQ(content, "Once upon STOP a");
}

TEST(Case037, WhatCannotBeContinuedIsRefused) {
  ChatFixture chat;
  const auto error = [&](std::string_view last, std::string_view more) {
    return chat.ErrorOf(chat.Parse(StrCat(R"({"messages":[{"role":"user","content":"hi"})", last,
                                          R"(],"continue_final_message":true)", more, "}")));
  };
  const char* answer = R"(,{"role":"assistant","content":"Once"})";
  EXPECT_EQ(error(answer, ""), "");
  EXPECT_EQ(error("", "").substr(0, 22), "continue_final_message");
  EXPECT_EQ(error(R"(,{"role":"assistant","content":""})", "").substr(0, 22),
            "continue_final_message");
  EXPECT_EQ(error(answer, R"(,"add_generation_prompt":true)").substr(0, 22),
            "continue_final_message");
  EXPECT_EQ(error(answer, R"(,"thinking_token_budget":3)").substr(0, 22), "continue_final_message");
  EXPECT_EQ(error(answer, R"(,"tools":[{"type":"function","function":{"name":"f","strict":true,)"
                          R"("parameters":{"type":"object"}}}])")
                .substr(0, 22),
            "continue_final_message");
  EXPECT_EQ(chat.ErrorOf(chat.ParseWith(R"("add_generation_prompt":false)")).substr(0, 21),
            "add_generation_prompt");
}

// Declared as in the published rendering, token for token.
TEST(ChatFields, BuiltInToolsAreThoseThatTheModelKnows) {
  const auto tokenizer = BuiltInTokenizer("o200k_harmony").value();
  const auto format = CreateHarmony(*tokenizer).value();
  std::ifstream file(ROSE_SOURCE_DIR "/tests/data/harmony/render.jsonl");
  int compared = 0;
  for (std::string line; std::getline(file, line);) {
    const JsonValue expected = *ParseJson(line);
    const std::string name = *expected.Find("name")->string();
    const bool both = name == "system/python-and-browser";
    if (name != "system/browser" && !both) continue;
    ++compared;
    ChatRequest request;
    request.builtin_tools = {"browser"};
    if (both) request.builtin_tools.push_back("python");
    request.effort = both ? ReasoningEffort::kHigh : ReasoningEffort::kMedium;
    if (!both) request.date = "2026-01-15";
    request.messages.push_back({.content = *At(expected, "messages.1.content.0.text").string()});
    std::string ids;
    const std::vector<int32_t> prompt = format->Render(request).value();
    for (const int32_t id : prompt) {
      ids += (ids.empty() ? "[" : ",") + std::to_string(id);
    }
    EXPECT_EQ(ids + "]", Text(expected, "tokens")) << name;
  }
  EXPECT_EQ(compared, 2);
  ChatFixture chat;
  EXPECT_EQ(chat.Call(R"("chat_template_kwargs":{"builtin_tools":["python","browser"]})")
                .chat.builtin_tools,
            (std::vector<std::string>{"python", "browser"}));
}

}  // namespace
}  // namespace rose

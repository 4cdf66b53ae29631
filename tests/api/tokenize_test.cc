#include "api/tokenize.h"

#include <gtest/gtest.h>

#include "api/chat_fixture.h"
#include "api/completions.h"

namespace rose {
namespace {

class TokenizeEndpoints : public testing::Test {
 protected:
  using Endpoint = Reply (*)(std::string_view, const ApiContext&, int64_t);
  // The body, or "param: message".
  std::string Ask(Endpoint endpoint, std::string_view body) {
    const Reply reply = endpoint(body, chat_.context(), 1764400000);
    if (const auto* error = std::get_if<ApiError>(&reply))
      return error->param + ": " + error->message;
    return std::get<std::string>(reply);
  }
  static std::string Ids(const std::vector<int32_t>& ids) {
    std::string text;
    for (const int32_t id : ids) text += (text.empty() ? "" : ",") + std::to_string(id);
    return "[" + text + "]";
  }

  ChatFixture chat_;
};

TEST_F(TokenizeEndpoints, TextToTokensAndBack) {
  EXPECT_EQ(Ask(&Tokenize, R"({"prompt":"hi<|end|>","return_token_strs":true})"),
            R"({"count":3,"max_model_len":100000,"tokens":[104,105,200007],)"
            R"("token_strs":["h","i","<|end|>"]})");
  EXPECT_EQ(Ask(&Tokenize, R"({"prompt":"","add_special_tokens":true})"),
            R"({"count":0,"max_model_len":100000,"tokens":[],"token_strs":null})");
  EXPECT_EQ(Ask(&Detokenize, R"({"tokens":[104,105,200007,226,130]})"),
            "{\"prompt\":\"hi<|end|>\xef\xbf\xbd\"}");
}

// Every way of asking gives the ids that the chat endpoint would compute.
TEST_F(TokenizeEndpoints, MessagesGiveTheChatEndpointsPrompt) {
  for (const char* fields :
       {R"("messages":[{"role":"user","content":"hi <|end|>"}])",
        R"("messages":[{"role":"system","content":"Be brief."},{"role":"user","content":"hi"}],)"
        R"("tools":[{"type":"function","function":{"name":"f","parameters":{"type":"object"}}}],)"
        R"("reasoning_effort":"high")",
        R"("messages":[{"role":"user","content":"a"},{"role":"assistant","content":"b",)"
        R"("reasoning":"c"},{"role":"user","content":"d"}],)"
        R"("chat_template_kwargs":{"reasoning_effort":"low"},"stream":true)"}) {
    const std::string body = StrCat("{", fields, "}");
    auto parsed = chat_.Parse(body);
    const std::string ids = Ids(std::get<ChatCall>(parsed).request.prompt);
    EXPECT_EQ(Ask(&RenderChatCompletion, body), StrCat(R"({"token_ids":)", ids, "}"));
    const JsonValue tokenized = *ParseJson(Ask(&Tokenize, body));
    EXPECT_EQ(Text(tokenized, "tokens"), ids);
  }
}

TEST_F(TokenizeEndpoints, PromptsGiveTheCompletionEndpoints) {
  EXPECT_EQ(Ask(&RenderCompletion, R"({"prompt":"<|start|>a"})"), R"([{"token_ids":[200006,97]}])");
  EXPECT_EQ(Ask(&RenderCompletion, R"({"prompt":["a",[7,8]],"truncate_prompt_tokens":1})"),
            R"([{"token_ids":[97]},{"token_ids":[8]}])");
}

TEST_F(TokenizeEndpoints, WhatIsTooLongIsCountedButNotRendered) {
  chat_.context().max_context = 4;
  const std::string body = R"({"messages":[{"role":"user","content":"hello"}]})";
  EXPECT_NE(Ask(&Tokenize, body).find(R"("max_model_len":4)"), std::string::npos);
  EXPECT_NE(Ask(&RenderChatCompletion, body).find("maximum context"), std::string::npos);
}

TEST_F(TokenizeEndpoints, ErrorsNameTheField) {
  EXPECT_EQ(Ask(&Tokenize, "{}"), "prompt: prompt is missing; give a text, or messages.");
  EXPECT_EQ(Ask(&Tokenize, R"({"prompt":7})"), "prompt: prompt must be a string.");
  EXPECT_EQ(Ask(&Tokenize, R"({"prompt":"a","messages":[{"role":"user","content":"b"}]})"),
            "prompt: prompt cannot be given together with messages; send one of them.");
  EXPECT_NE(Ask(&Tokenize, R"({"prompt":"a","model":"x"})").find("model: "), std::string::npos);
  EXPECT_NE(Ask(&Tokenize, R"({"messages":[]})").find("messages: "), std::string::npos);
  EXPECT_NE(Ask(&Tokenize, "[]").find("must be an object"), std::string::npos);
  EXPECT_EQ(Ask(&Detokenize, "{}"), "tokens: tokens is missing.");
  EXPECT_NE(Ask(&Detokenize, R"({"tokens":[1,"a"]})").find("tokens[1]: "), std::string::npos);
  EXPECT_NE(Ask(&Detokenize, R"({"tokens":[-1]})").find("tokens[0]: "), std::string::npos);
  EXPECT_NE(Ask(&RenderCompletion, R"({"prompt":""})").find("prompt: "), std::string::npos);
  EXPECT_NE(Ask(&RenderChatCompletion, "{").find("byte"), std::string::npos);
}

}  // namespace
}  // namespace rose

// Answers in a form, with the shipped model and over HTTP: what comes fits, whatever the
// temperature.
#include <gtest/gtest.h>

#include <string>

#include "api/chat_fixture.h"
#include "e2e/program.h"
#include "grammar/grammars.h"
#include "server/http_client.h"

namespace rose {
namespace {

class StructuredOutput : public testing::Test {
 protected:
  void SetUp() override {
    ROSE_NEEDS_GRAMMARS();
    ASSERT_TRUE(serve_.WaitForError("/v1 (Ctrl-C stops)")) << serve_.errors();
    const size_t host = serve_.errors().find("http://127.0.0.1:");
    ASSERT_NE(host, std::string::npos);
    port_ = std::stoi(serve_.errors().substr(host + 17));
  }

  HttpReply Ask(const std::string& fields) {
    HttpClient client = HttpClient::Connect("127.0.0.1", port_).value();
    return client
        .Ask("POST", "/v1/chat/completions",
             R"({"messages":[{"role":"user","content":"Hello!"}],"max_tokens":600,)" + fields + "}")
        .value();
  }

 private:
  Program serve_{{"serve", ROSE_SOURCE_DIR "/models/rosebud", "--port", "0"}};
  int port_ = 0;
};

TEST_F(StructuredOutput, AnswersAndCallsFit) {
  const std::string schema =
      R"({"type":"object","properties":{"id":{"type":"string","pattern":"^[A-Z]{2}-[0-9]{3}$"},)"
      R"("sizes":{"type":"array","items":{"type":"integer","minimum":7,"maximum":9},)"
      R"("minItems":2,"maxItems":3},"on":{"enum":["yes","no"]}},"required":["id","sizes","on"]})";
  const GrammarSource source = JsonSchema(schema);
  for (int seed = 0; seed < 4; ++seed) {
    const std::string sampling = StrCat(R"("seed":)", seed, R"(,"temperature":)", seed % 2 * 0.5);
    const HttpReply answer = Ask(StrCat(
        sampling, R"(,"response_format":{"type":"json_schema","json_schema":{"name":"x","schema":)",
        schema, "}}"));
    const JsonValue body = ParseJson(answer.body).value();
    ASSERT_EQ(Text(body, "choices.0.finish_reason"), "\"stop\"") << answer.body;
    const std::string& content = *At(body, "choices.0.message.content").string();
    EXPECT_EQ(FateOf(source, content), Fate::kComplete) << content;

    const HttpReply called =
        Ask(StrCat(sampling, R"(,"tool_choice":"required","tools":[{"type":"function","function":)",
                   R"({"name":"take","parameters":)", schema, "}}]"));
    const JsonValue call = ParseJson(called.body).value();
    ASSERT_EQ(Text(call, "choices.0.finish_reason"), "\"tool_calls\"") << called.body;
    EXPECT_EQ(Text(call, "choices.0.message.tool_calls.0.function.name"), "\"take\"");
    const std::string& arguments =
        *At(call, "choices.0.message.tool_calls.0.function.arguments").string();
    EXPECT_EQ(FateOf(source, arguments), Fate::kComplete) << arguments;
  }
}

TEST_F(StructuredOutput, OtherFormsAndARefusal) {
  EXPECT_NE(Ask(R"("guided_choice":["red stone"],"temperature":2,"seed":1)")
                .body.find(R"("content":"red stone")"),
            std::string::npos);
  const HttpReply refused = Ask(R"("guided_regex":"(?=a)b")");
  EXPECT_EQ(refused.status, 400);
  EXPECT_NE(refused.body.find(R"("param":"guided_regex")"), std::string::npos) << refused.body;
}

}  // namespace
}  // namespace rose

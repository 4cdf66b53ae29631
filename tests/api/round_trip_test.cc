// What the model wrote comes back through a client: the next prompt begins with it.
#include "api/chat_fixture.h"

namespace rose {
namespace {

std::vector<int32_t> PromptOf(ChatFixture& chat, const std::string& body) {
  auto parsed = chat.Parse(body);
  if (const auto* error = std::get_if<ApiError>(&parsed)) ADD_FAILURE() << ErrorBody(*error);
  return std::get<ChatCall>(parsed).request.prompt;
}

bool StartsWith(const std::vector<int32_t>& text, const std::vector<int32_t>& start) {
  return text.size() >= start.size() && std::equal(start.begin(), start.end(), text.begin());
}

TEST(Case035, AToolLoopGoesOnFromTheSampledTokens) {
  constexpr char kTools[] = R"("tools":[{"type":"function","function":{"name":"f"}}])";
  const std::string user = R"({"role":"user","content":"hi"})";
  // Thoughts, a preamble, a call; the header's order is that of the renderer.
  for (const std::string& answer :
       {std::string("<|channel|>analysis<|message|>need \u00e9<|end|>"
                    "<|start|>assistant to=functions.f<|channel|>commentary <|constrain|>json"
                    "<|message|>{ \"a\" : 1.50 }<|call|>"),
        std::string("<|channel|>analysis<|message|>a<|end|>"
                    "<|start|>assistant<|channel|>commentary<|message|>Wait.<|end|>"
                    "<|start|>assistant to=functions.f<|channel|>commentary <|constrain|>json"
                    "<|message|>{}<|call|>"),
        std::string(
            " to=functions.f<|channel|>commentary <|constrain|>json<|message|>x<|call|>")}) {
    ChatFixture chat;
    const ChatCall call = chat.Call(kTools);
    std::vector<int32_t> sampled = call.request.prompt;
    for (const int32_t id : ByteTokenizer().EncodeWithSpecials(answer)) sampled.push_back(id);
    const JsonValue body = chat.Body(call, answer);
    const std::string id = *At(body, "choices.0.message.tool_calls.0.id").string();
    // The message goes back as it came, all of its fields.
    const std::vector<int32_t> next =
        PromptOf(chat, StrCat(R"({"messages":[)", user, ",", Text(body, "choices.0.message"),
                              R"(,{"role":"tool","tool_call_id":")", id, R"(","content":"r"}],)",
                              kTools, "}"));
    EXPECT_TRUE(StartsWith(next, sampled)) << answer;
  }
}

TEST(Case035, AnAnswerComesBackWithoutItsThoughts) {
  ChatFixture chat;
  const ChatCall call = chat.Call("");
  const std::string final = "<|channel|>final<|message|>It is 4.";
  const JsonValue body = chat.Body(
      call, "<|channel|>analysis<|message|>2+2<|end|><|start|>assistant" + final + "<|return|>");
  std::vector<int32_t> expected = call.request.prompt;
  for (const int32_t id : ByteTokenizer().EncodeWithSpecials(
           final + "<|end|><|start|>user<|message|>ok<|end|><|start|>assistant"))
    expected.push_back(id);
  EXPECT_EQ(PromptOf(chat, StrCat(R"({"messages":[{"role":"user","content":"hi"},)",
                                  Text(body, "choices.0.message"),
                                  R"(,{"role":"user","content":"ok"}]})")),
            expected);
}

}  // namespace
}  // namespace rose

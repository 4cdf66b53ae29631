#include "demo.h"

#include <cstdio>
#include <string_view>

#include "answer_printer.h"
#include "base/json.h"
#include "server/http_client.h"

namespace rose {
namespace {

constexpr std::string_view kQuestion = "What is 347 + 586?";

// The string at choices[0].delta.<key> of a stream chunk; empty if there is none.
std::string_view DeltaText(const JsonValue& chunk, std::string_view key) {
  const JsonValue* choices = chunk.Find("choices");
  if (choices == nullptr || choices->array() == nullptr || choices->array()->empty()) return {};
  const JsonValue* delta = choices->array()->front().Find("delta");
  const JsonValue* text = delta == nullptr ? nullptr : delta->Find(key);
  return text == nullptr || text->string() == nullptr ? std::string_view() : *text->string();
}

std::string RequestBody(const DemoTarget& target, std::string_view extra) {
  std::string body = R"({"model":)";
  AppendJsonString(body, target.model);
  body += R"(,"messages":[{"role":"user","content":)";
  AppendJsonString(body, kQuestion);
  return body.append("}]").append(extra).append("}");
}

// Prints what one event holds; false once the stream is over.
bool ShowEvent(std::string_view data, AnswerPrinter& printer, Status& failure) {
  if (data == "[DONE]") return false;
  const auto chunk = ParseJson(data);
  if (!chunk.ok() || chunk->Find("error") != nullptr) {
    failure = Unavailable("the answer broke off: ", data);
    return false;
  }
  printer.Reasoning(DeltaText(*chunk, "reasoning"));
  printer.Content(DeltaText(*chunk, "content"));
  return true;
}

Status Ask(const DemoTarget& target, AnswerPrinter& printer) {
  ROSE_ASSIGN_OR_RETURN(HttpClient client, HttpClient::Connect(target.host, target.port));
  ROSE_RETURN_IF_ERROR(
      client.SendRequest("POST", "/v1/chat/completions",
                         RequestBody(target, R"(,"stream":true,"temperature":0,"max_tokens":1000)"),
                         {{"Content-Type", "application/json"}}));
  SseReader events;
  Status failure;
  bool done = false;
  const auto reply = client.ReadReply([&](std::string_view piece) {
    events.Push(piece, [&](std::string_view data) {
      if (!done && !ShowEvent(data, printer, failure)) done = true;
    });
    return true;
  });
  ROSE_RETURN_IF_ERROR(reply.status());
  if (reply->status != 200) return Unavailable("the server refused the question: ", reply->body);
  if (!done) return Unavailable("the answer ended before its last event");
  return failure;
}

void PrintHowToGoOn(const DemoTarget& target) {
  const std::string url = BaseUrl(target.host, target.port);
  std::printf("\n%s\n\n", Bold("Ask it yourself:", stdout).c_str());
  std::printf("  curl %s/chat/completions -H 'Content-Type: application/json' \\\n    -d '%s'\n\n",
              url.c_str(), RequestBody(target, "").c_str());
  std::printf("%s\n\n", Bold("Or from Python (pip install openai):", stdout).c_str());
  std::printf(
      "  from openai import OpenAI\n"
      "  client = OpenAI(base_url=\"%s\", api_key=\"none\")\n"
      "  answer = client.chat.completions.create(\n"
      "      model=\"%s\", messages=[{\"role\": \"user\", \"content\": \"%s\"}])\n"
      "  print(answer.choices[0].message.content)\n\n",
      url.c_str(), target.model.c_str(), std::string(kQuestion).c_str());
  std::fflush(stdout);
}

}  // namespace

std::string BaseUrl(const std::string& host, int port) {
  const bool is_ipv6 = host.find(':') != std::string::npos;
  return StrCat("http://", is_ipv6 ? "[" + host + "]" : host, ":", port, "/v1");
}

Status RunDemo(const DemoTarget& target) {
  AnswerPrinter printer;
  std::printf("\n%s %s\n\n", Bold(">", stdout).c_str(), std::string(kQuestion).c_str());
  std::fflush(stdout);
  const Status asked = Ask(target, printer);
  printer.End();
  ROSE_RETURN_IF_ERROR(asked);
  PrintHowToGoOn(target);
  return Status();
}

}  // namespace rose

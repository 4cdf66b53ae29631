#include "load/load_bodies.h"

#include <gtest/gtest.h>

#include <set>

#include "base/json.h"
#include "load/answer_events.h"
#include "load/reply_reader.h"

namespace rose {
namespace {

int64_t Words(const std::string& text) {
  return 1 + std::count(text.begin(), text.end(), ' ');
}

TEST(LoadBodies, AreMadeUpAsAsked) {
  BodyOptions options{.model = "m\"x", .input = {5, 9}, .output = {3, 4}};
  options.common = R"("temperature":0)";
  const auto requests = MakeBodies(50, options);
  std::set<std::string> texts;
  std::set<int64_t> lengths, outputs;
  for (const LoadRequest& request : requests) {
    EXPECT_EQ(request.path, "/chat/completions");
    const JsonValue body = ParseJson(request.body).value();
    EXPECT_EQ(*body.Find("model")->string(), "m\"x");
    EXPECT_TRUE(*body.Find("stream")->boolean());
    EXPECT_TRUE(*body.Find("ignore_eos")->boolean());
    EXPECT_EQ(body.Find("temperature")->AsInteger(), 0);
    EXPECT_EQ(body.Find("min_tokens")->AsInteger(), body.Find("max_tokens")->AsInteger());
    outputs.insert(*body.Find("max_tokens")->AsInteger());
    const std::string text = *body.Find("messages")->array()->at(0).Find("content")->string();
    lengths.insert(Words(text));
    texts.insert(text);
  }
  EXPECT_EQ(texts.size(), 50u);
  EXPECT_EQ(lengths, (std::set<int64_t>{5, 6, 7, 8, 9}));
  EXPECT_EQ(outputs, (std::set<int64_t>{3, 4}));
  EXPECT_EQ(MakeBodies(50, options)[7].body, requests[7].body);
  options.is_chat = false;
  options.fixed_output = false;
  const LoadRequest plain = MakeBodies(1, options)[0];
  EXPECT_EQ(plain.path, "/completions");
  EXPECT_NE(plain.body.find("\"prompt\":\""), std::string::npos);
  EXPECT_EQ(plain.body.find("ignore_eos"), std::string::npos);
}

TEST(LoadBodies, ComeFromAFile) {
  const BodyOptions options{.model = "m"};
  const auto requests = ReadBodies(
      "{\"messages\":[],\"stream\":false,\"model\":\"own\"}\n\n{\"prompt\":\"a\"}", 3, options);
  ASSERT_TRUE(requests.ok()) << requests.status().message();
  ASSERT_EQ(requests->size(), 3u);
  EXPECT_EQ(
      (*requests)[0].body,
      R"({"messages":[],"model":"own","stream":true,"stream_options":{"include_usage":true}})");
  EXPECT_EQ((*requests)[1].path, "/completions");
  EXPECT_EQ((*requests)[2].body, (*requests)[0].body);
  EXPECT_EQ(ReadBodies("{\"prompt\":\"a\"}\n", 0, options)->size(), 1u);
  const auto message = [&](std::string_view text) {
    return ReadBodies(text, 0, options).status().message();
  };
  EXPECT_NE(message("{\"prompt\":\"a\"}\n{").find("line 2"), std::string::npos);
  EXPECT_NE(message("{\"a\":1}").find("line 1"), std::string::npos);
  EXPECT_NE(message("[1]").find("line 1"), std::string::npos);
  EXPECT_NE(message("\n").find("no request"), std::string::npos);
}

TEST(LoadBodies, LengthsAreNumbersOrRanges) {
  EXPECT_EQ(ParseRange("7")->most, 7);
  EXPECT_EQ(ParseRange("7:9")->least, 7);
  EXPECT_EQ(ParseRange("7:9")->most, 9);
  for (const char* bad : {"", "0", "9:7", "7:", ":7", "a", "7:9:1", "-1", "7 "}) {
    EXPECT_FALSE(ParseRange(bad).ok()) << bad;
  }
}

TEST(LoadTarget, ReadsUrls) {
  const LoadTarget plain = ParseTarget("http://127.0.0.1:8001", "").value();
  EXPECT_EQ(plain.Request("GET", "/models", ""),
            "GET /v1/models HTTP/1.1\r\nHost: 127.0.0.1:8001\r\nAccept: */*\r\n\r\n");
  EXPECT_EQ(ParseTarget("http://127.0.0.1/api/", "")->prefix, "/api");
  EXPECT_EQ(ParseTarget("http://127.0.0.1", "")->port, 80);
  EXPECT_EQ(ParseTarget("http://[::1]:9", "")->host, "::1");
  for (const char* bad : {"127.0.0.1:80", "http://", "http://:80", "http://127.0.0.1:0",
                          "http://127.0.0.1:x", "ftp://a", "https://127.0.0.1"}) {
    EXPECT_FALSE(ParseTarget(bad, "").ok()) << bad;
  }
}

// A reply cut at every byte.
TEST(ReplyReader, ReadsStreamsHoweverTheyAreCut) {
  const std::string reply =
      "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
      "b\r\ndata: one\n\n\r\n"
      "12;x=1\r\n: note\r\ndata:two\r\n\r\n"
      "d\r\n\ndata: 3\ndata\r\n5\r\n: 4\n\n\r\n0\r\n\r\n";
  for (size_t cut = 0; cut <= reply.size(); ++cut) {
    ReplyReader reader;
    std::vector<std::string> events;
    const auto take = [&](std::string_view data) { events.emplace_back(data); };
    ASSERT_TRUE(reader.Push(std::string_view(reply).substr(0, cut), take));
    ASSERT_EQ(reader.done(), cut == reply.size());
    ASSERT_TRUE(reader.Push(std::string_view(reply).substr(cut), take));
    ASSERT_TRUE(reader.done());
    ASSERT_EQ(events, (std::vector<std::string>{"one", "two", "3\n4"})) << cut;
    ASSERT_TRUE(reader.keeps_alive());
  }
}

TEST(ReplyReader, TellsWhetherToTryAgain) {
  const auto says = [](std::string_view header) {
    ReplyReader reader;
    EXPECT_TRUE(reader.Push(
        StrCat("HTTP/1.1 503 Service Unavailable\r\n", header, "Content-Length: 0\r\n\r\n"),
        [](std::string_view) {}));
    EXPECT_TRUE(reader.done());
    return reader.has_retry_after();
  };
  EXPECT_TRUE(says("Retry-After: 1\r\n"));
  EXPECT_FALSE(says(""));
}

TEST(ReplyReader, ReadsBodiesOfEveryLength) {
  const auto none = [](std::string_view) { FAIL(); };
  ReplyReader sized;
  EXPECT_TRUE(
      sized.Push("HTTP/1.1 404 No\r\nContent-Length: 3\r\nConnection: close\r\n\r\nabcd", none));
  EXPECT_TRUE(sized.done());
  EXPECT_EQ(sized.status(), 404);
  EXPECT_EQ(sized.body(), "abc");
  EXPECT_FALSE(sized.keeps_alive());
  ReplyReader open;
  EXPECT_TRUE(open.Push("HTTP/1.0 200 OK\n\nab", none));
  EXPECT_FALSE(open.done());
  EXPECT_TRUE(open.Close());
  EXPECT_EQ(open.body(), "ab");
  ReplyReader informed;
  EXPECT_TRUE(informed.Push("HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 204 No\r\n\r\n", none));
  EXPECT_TRUE(informed.done());
  EXPECT_EQ(informed.status(), 204);
  for (const char* bad : {"SSH-2.0\r\n", "HTTP/1.1 200 OK\r\nno colon\r\n",
                          "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nxyz\r\n"}) {
    EXPECT_FALSE(ReplyReader().Push(bad, none)) << bad;
  }
}

TEST(AnswerEvents, CountsWhatSaysSomething) {
  AnswerEvents answer;
  EXPECT_FALSE(answer.Push(R"({"choices":[{"delta":{"role":"assistant","content":""}}]})"));
  EXPECT_TRUE(answer.Push(R"({"choices":[{"delta":{"reasoning":"a"}}]})"));
  EXPECT_TRUE(answer.Push(R"({"choices":[{"delta":{"tool_calls":[{"index":0}]}}]})"));
  EXPECT_TRUE(answer.Push(R"({"choices":[{"text":"a"}],"usage":null})"));
  EXPECT_FALSE(answer.Push(R"({"choices":[{"text":"","finish_reason":"stop"}]})"));
  EXPECT_FALSE(answer.Push(R"({"choices":[],"usage":{"prompt_tokens":3,"completion_tokens":4}})"));
  EXPECT_FALSE(answer.is_complete());
  EXPECT_FALSE(answer.Push("[DONE]"));
  EXPECT_TRUE(answer.is_complete());
  EXPECT_EQ(answer.prompt_tokens(), 3);
  EXPECT_EQ(answer.completion_tokens(), 4);
  EXPECT_EQ(answer.error(), "");
  answer.Push("{");
  EXPECT_NE(answer.error(), "");
}

}  // namespace
}  // namespace rose

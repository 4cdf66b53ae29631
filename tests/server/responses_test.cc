// /v1/responses over loopback: what is stored, followed, cancelled, and what a client that leaves
// does to it.
#include "server/responses.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "api/responses_fixture.h"
#include "server/stub_backend.h"

namespace rose {
namespace {

constexpr std::string_view kPath = "/v1/responses";
constexpr char kAnswer[] =
    "<|channel|>analysis<|message|>Think.<|end|>"
    "<|start|>assistant<|channel|>final<|message|>Hi \"you\"!";

StubBackend::Answer Says(std::string text) {
  return [text](const std::string&) { return text; };
}
// An answer that takes minutes at the pace of the tests that use it.
StubBackend::Answer Endless() {
  return Says("<|channel|>final<|message|>" + std::string(5000, 'a'));
}

JsonValue Json(const HttpReply& reply) {
  EXPECT_EQ(reply.status, 200) << reply.body;
  const auto json = ParseJson(reply.body);
  EXPECT_TRUE(json.ok()) << reply.body;
  return json.ok() ? *json : JsonValue();
}

std::string IdOf(const JsonValue& json) {
  return At(json, "id").string() ? *At(json, "id").string() : "";
}

struct Events {
  std::vector<StreamEvent> all;
  int64_t after = -1;  // sequence number of the last that is not among them

  // Reads until the end of the stream, or until there are `enough`.
  void Read(HttpClient& client, size_t enough = SIZE_MAX) {
    SseReader reader;
    const auto reply = client.ReadReply([&](std::string_view piece) {
      reader.Push(piece, [&](std::string_view data) {
        const auto json = ParseJson(data);
        ASSERT_TRUE(json.ok()) << data;
        EXPECT_EQ(Text(*json, "sequence_number"), std::to_string(all.size() + after + 1));
        all.push_back({std::string(data), *At(*json, "type").string()});
      });
      return all.size() < enough;
    });
    if (enough != SIZE_MAX) return;
    ASSERT_TRUE(reply.ok()) << reply.status().message();
    EXPECT_EQ(reply->status, 200) << reply->body;
    EXPECT_EQ(FindHeader(reply->headers, "Content-Type"), "text/event-stream; charset=utf-8");
  }
};

std::string WaitForEnd(StubBackend& backend, const std::string& id) {
  std::string status;
  WaitFor(
      [&] {
        status = Text(Json(backend.Ask("GET", StrCat(kPath, "/", id))), "status");
        return status != "\"queued\"" && status != "\"in_progress\"";
      },
      "the response does not end");
  return status;
}

TEST(Responses, AnswersInOnePieceAndAgain) {
  StubBackend backend(Says(kAnswer));
  const HttpReply reply = backend.Ask("POST", kPath, R"({"input":"hello"})");
  const JsonValue json = Json(reply);
  EXPECT_EQ(Text(json, "output.0.content.0.text"), "\"Think.\"");
  EXPECT_EQ(Text(json, "output.1.content.0.text"), R"("Hi \"you\"!")");
  EXPECT_EQ(Text(json, "status"), "\"completed\"");
  const std::string path = StrCat(kPath, "/", IdOf(json));
  EXPECT_EQ(backend.Ask("GET", path).body, reply.body);
  const JsonValue input = Json(backend.Ask("GET", path + "/input_items"));
  EXPECT_EQ(Text(input, "data.0.content"), R"([{"type":"input_text","text":"hello"}])");
  EXPECT_EQ(Text(input, "data.0.role"), "\"user\"");
  EXPECT_EQ(Text(input, "has_more"), "false");
  EXPECT_EQ(Text(input, "first_id"), Text(input, "data.0.id"));
  // It cannot be cancelled any more, and once deleted it is gone.
  const HttpReply cancel = backend.Ask("POST", path + "/cancel");
  EXPECT_EQ(cancel.status, 400);
  EXPECT_NE(cancel.body.find("Cannot cancel a synchronous response."), std::string::npos);
  EXPECT_EQ(Text(Json(backend.Ask("DELETE", path)), "deleted"), "true");
  for (const char* method : {"GET", "DELETE"}) {
    const HttpReply gone = backend.Ask(method, path);
    EXPECT_EQ(gone.status, 404);
    EXPECT_NE(gone.body.find(R"("code":"response_not_found")"), std::string::npos) << gone.body;
  }
  EXPECT_EQ(backend.Ask("POST", path + "/cancel").status, 404);
  EXPECT_EQ(backend.Ask("GET", path + "/other").status, 404);
  backend.ExpectIdle();
}

TEST(Responses, StreamsAndReplays) {
  StubBackend backend(Says(kAnswer));
  HttpClient client = backend.Connect();
  ASSERT_TRUE(client.SendRequest("POST", kPath, R"({"input":"hello","stream":true})").ok());
  Events sent;
  sent.Read(client);
  const StrictAccumulator folded = Accumulate(sent.all);
  EXPECT_EQ(folded.types.back(), "response.completed");
  EXPECT_EQ(folded.texts, (std::vector<std::string>{"Think.", "Hi \"you\"!"}));
  // The same connection serves the events again, from anywhere.
  const std::string path = StrCat(kPath, "/", IdOf(folded.final()), "?stream=true");
  for (const int64_t after : {int64_t{-1}, int64_t{0}, int64_t{7}, std::ssize(sent.all) - 1}) {
    Events again{.after = after};
    ASSERT_TRUE(
        client.SendRequest("GET", after < 0 ? path : StrCat(path, "&starting_after=", after), "")
            .ok());
    again.Read(client);
    ASSERT_EQ(std::ssize(again.all), std::ssize(sent.all) - after - 1);
    for (size_t i = 0; i < again.all.size(); ++i)
      EXPECT_EQ(again.all[i].data, sent.all[i + after + 1].data);
  }
  EXPECT_EQ(backend.Ask("GET", path + "&starting_after=x").status, 400);
}

TEST(Responses, AreContinued) {
  std::vector<std::string> prompts;
  StubBackend backend([&](const std::string& prompt) {
    prompts.push_back(prompt);
    return std::string("<|channel|>commentary to=functions.f <|constrain|>json<|message|>{}");
  });
  const char* tools = R"("tools":[{"type":"function","name":"f"}])";
  const JsonValue first = Json(backend.Ask("POST", kPath, StrCat(R"({"input":"q",)", tools, "}")));
  const JsonValue second = Json(
      backend.Ask("POST", kPath,
                  StrCat(R"({"previous_response_id":)", Text(first, "id"), R"(,"input":[{"type":)",
                         R"("function_call_output","call_id":)", Text(first, "output.0.call_id"),
                         R"(,"output":"21 C"}],)", tools, "}")));
  EXPECT_EQ(Text(second, "previous_response_id"), Text(first, "id"));
  EXPECT_NE(Text(second, "output.0.call_id"), Text(first, "output.0.call_id"));
  EXPECT_TRUE(prompts.back().ends_with(
      "functions.f to=assistant<|channel|>commentary<|message|>21 C<|end|><|start|>assistant"))
      << prompts.back();
}

TEST(Responses, RunInTheBackground) {
  StubBackend backend(Says(kAnswer));
  const JsonValue queued =
      Json(backend.Ask("POST", kPath, R"({"input":"hello","background":true})"));
  EXPECT_EQ(Text(queued, "status"), "\"queued\"");
  EXPECT_EQ(Text(queued, "background"), "true");
  EXPECT_EQ(Text(queued, "output"), "[]");
  const std::string id = IdOf(queued);
  EXPECT_EQ(WaitForEnd(backend, id), "\"completed\"");
  const JsonValue done = Json(backend.Ask("GET", StrCat(kPath, "/", id)));
  EXPECT_EQ(Text(done, "output.1.content.0.text"), R"("Hi \"you\"!")");
  const HttpReply late = backend.Ask("POST", StrCat(kPath, "/", id, "/cancel"));
  EXPECT_EQ(late.status, 400) << late.body;
  backend.ExpectIdle();
}

TEST(Responses, InTheBackgroundAreCancelled) {
  StubBackend backend(Endless(), 20);
  const std::string id =
      IdOf(Json(backend.Ask("POST", kPath, R"({"input":"x","background":true})")));
  const std::string cancel = StrCat(kPath, "/", id, "/cancel");
  EXPECT_EQ(Text(Json(backend.Ask("POST", cancel)), "status"), "\"cancelled\"");
  EXPECT_EQ(Text(Json(backend.Ask("POST", cancel)), "status"), "\"cancelled\"");
  EXPECT_EQ(Text(Json(backend.Ask("GET", StrCat(kPath, "/", id))), "status"), "\"cancelled\"");
  backend.ExpectIdle();
  // Deleting one that runs ends it as well.
  const std::string other =
      IdOf(Json(backend.Ask("POST", kPath, R"({"input":"x","background":true})")));
  EXPECT_EQ(Text(Json(backend.Ask("DELETE", StrCat(kPath, "/", other))), "deleted"), "true");
  EXPECT_EQ(backend.Ask("GET", StrCat(kPath, "/", other)).status, 404);
  backend.ExpectIdle();
}

TEST(Responses, AClientThatLeavesCancelsOnlyWhatIsItsOwn) {
  StubBackend backend(Endless(), 20);
  const auto leave = [&](const char* body) {
    HttpClient client = backend.Connect();
    EXPECT_TRUE(client.SendRequest("POST", kPath, body).ok());
    Events events;
    events.Read(client, /*enough=*/6);
    client.Close();
    const auto created = ParseJson(events.all.at(0).data);
    return *At(*created, "response.id").string();
  };
  const std::string own = leave(R"({"input":"x","stream":true})");
  backend.ExpectIdle();
  EXPECT_EQ(backend.Ask("GET", StrCat(kPath, "/", own)).status, 404);

  const std::string detached = leave(R"({"input":"x","stream":true,"background":true})");
  const std::string path = StrCat(kPath, "/", detached);
  // Another client reads on where the first left, sees it grow, and sees it end.
  HttpClient follower = backend.Connect();
  Events events{.after = 3};
  ASSERT_TRUE(follower.SendRequest("GET", path + "?stream=true&starting_after=3", "").ok());
  HttpClient gone = backend.Connect();
  ASSERT_TRUE(gone.SendRequest("GET", path + "?stream=true", "").ok());
  Events some;
  some.Read(gone, 10);
  gone.Close();
  const int64_t tokens = backend.engine->stats().generated_tokens;
  WaitFor([&] { return backend.engine->stats().generated_tokens > tokens + 5; }, "it has stopped");
  EXPECT_EQ(Text(Json(backend.Ask("GET", path)), "status"), "\"in_progress\"");
  EXPECT_EQ(Text(Json(backend.Ask("POST", path + "/cancel")), "status"), "\"cancelled\"");
  events.Read(follower);
  EXPECT_EQ(events.all.back().name, "response.failed");
  EXPECT_EQ(Text(*ParseJson(events.all.back().data), "response.status"), "\"cancelled\"");
  backend.ExpectIdle();
}

// Whatever it was in, and whoever cut it: what is half said is not passed for whole.
TEST(Responses, WhatIsCutOffIsIncomplete) {
  const std::string a(5000, 'a');
  const std::string thoughts = "<|channel|>analysis<|message|>";
  const std::string whole = thoughts + "Think.<|end|><|start|>assistant";
  for (const std::string& answer :
       {thoughts + a, whole + "<|channel|>final<|message|>" + a,
        whole + "<|channel|>commentary to=functions.f <|constrain|>json<|message|>{\"x\":\"" + a}) {
    for (const bool drain : {false, true}) {
      StubBackend backend(Says(answer), 200);
      const JsonValue queued = Json(backend.Ask(
          "POST", kPath,
          R"({"input":"x","background":true,"tools":[{"type":"function","name":"f"}]})"));
      const std::string path = StrCat(kPath, "/", IdOf(queued));
      HttpClient follower = backend.Connect();
      Events events;
      ASSERT_TRUE(follower.SendRequest("GET", path + "?stream=true", "").ok());
      Events some;
      HttpClient other = backend.Connect();
      ASSERT_TRUE(other.SendRequest("GET", path + "?stream=true", "").ok());
      some.Read(other, 60);  // within the last item
      other.Close();
      const JsonValue running = Json(backend.Ask("GET", path));
      if (drain) {
        EXPECT_EQ(backend.engine->Drain(0), 1);
      } else {
        EXPECT_EQ(backend.Ask("POST", path + "/cancel").status, 200);
      }
      events.Read(follower);
      const StrictAccumulator folded = Accumulate(events.all);
      const JsonValue stored = Json(backend.Ask("GET", path));
      EXPECT_EQ(WriteJson(folded.final()), WriteJson(stored));
      EXPECT_EQ(Text(stored, "status"), drain ? "\"failed\"" : "\"cancelled\"");
      const auto& output = *At(stored, "output").array();
      ASSERT_EQ(output.size(), answer.starts_with(whole) ? 2u : 1u);
      EXPECT_EQ(Text(output.back(), "status"), "\"incomplete\"") << WriteJson(output.back());
      if (output.size() == 2) {
        EXPECT_EQ(Text(output[0], "status"), "\"completed\"");
      }
      EXPECT_EQ(Text(At(running, "output").array()->back(), "status"), "\"in_progress\"");
    }
  }
}

TEST(Responses, EventsThatHaveNotComeAreWaitedFor) {
  StubBackend backend(Endless(), 50);
  const JsonValue queued = Json(backend.Ask("POST", kPath, R"({"input":"x","background":true})"));
  const std::string path = StrCat(kPath, "/", IdOf(queued));
  // From one that will come, and from one that never will.
  HttpClient soon = backend.Connect(), never = backend.Connect();
  ASSERT_TRUE(soon.SendRequest("GET", path + "?stream=true&starting_after=40", "").ok());
  ASSERT_TRUE(never.SendRequest("GET", path + "?stream=true&starting_after=1000000", "").ok());
  Events first{.after = 40};
  first.Read(soon, 3);
  EXPECT_GE(first.all.size(), 3u);
  EXPECT_EQ(backend.Ask("POST", path + "/cancel").status, 200);
  Events none{.after = 1'000'000};
  none.Read(never);
  EXPECT_TRUE(none.all.empty());
  // The same of one that has ended.
  HttpClient late = backend.Connect();
  ASSERT_TRUE(late.SendRequest("GET", path + "?stream=true&starting_after=1000000", "").ok());
  none.Read(late);
  EXPECT_TRUE(none.all.empty());
}

// The log's line of the request comes before there are tokens: a second one has them.
TEST(Responses, InTheBackgroundAreLoggedWhenTheyEnd) {
  StubBackend backend(Says(kAnswer));
  const JsonValue queued =
      Json(backend.Ask("POST", kPath, R"({"input":"hello","background":true})"));
  const auto logged = [&] {
    std::vector<AccessRecord> found;
    const std::lock_guard lock(backend.mutex);
    for (const AccessRecord& record : backend.records)
      if (record.method == "POST") found.push_back(record);
    return found;
  };
  WaitFor([&] { return logged().size() == 2; }, "there is no second record");
  std::vector<AccessRecord> both = logged();
  // Here it may end while its answer is still being sent.
  if (both[0].background) std::swap(both[0], both[1]);
  EXPECT_FALSE(both[0].background);
  EXPECT_EQ(both[0].stats.completion_tokens, -1);
  EXPECT_TRUE(both[1].background);
  EXPECT_EQ(both[1].request_id, both[0].request_id);
  EXPECT_EQ(both[1].path, kPath);
  EXPECT_EQ(both[1].stats.finish, "stop");
  EXPECT_GT(both[1].stats.prompt_tokens, 0);
  EXPECT_GT(both[1].stats.completion_tokens, 0);
  // It is one request, and one generation.
  const std::string figures = backend.Ask("GET", "/metrics").body;
  EXPECT_NE(figures.find("finished_reason=\"stop\"} 1"), std::string::npos) << figures;
  EXPECT_NE(figures.find("handler=\"/v1/responses\",method=\"POST\",status=\"2xx\"} 1"),
            std::string::npos)
      << figures;
}

TEST(Responses, AreRefusedWhenTheQueueIsFull) {
  StubBackend backend(Endless(), 20, {.max_running = 1, .max_waiting = 1});
  const char* body = R"({"input":"x","background":true})";
  std::vector<std::string> ids;
  for (int i = 0; i < 2; ++i) ids.push_back(IdOf(Json(backend.Ask("POST", kPath, body))));
  for (const char* more :
       {body, R"({"input":"x","background":true,"stream":true})", R"({"input":"x"})"}) {
    const HttpReply refused = backend.Ask("POST", kPath, more);
    EXPECT_EQ(refused.status, 503) << refused.body;
    EXPECT_FALSE(FindHeader(refused.headers, "Retry-After").empty());
  }
  for (const std::string& id : ids)
    EXPECT_EQ(backend.Ask("POST", StrCat(kPath, "/", id, "/cancel")).status, 200);
  backend.ExpectIdle();
}

TEST(Responses, InputItemsComeInPages) {
  StubBackend backend(Says(kAnswer));
  std::string items;
  for (int i = 0; i < 5; ++i)
    items += StrCat(i ? "," : "", R"({"id":"m)", i, R"(","role":"user","content":"c"})");
  const std::string id =
      IdOf(Json(backend.Ask("POST", kPath, StrCat(R"({"input":[)", items, "]}"))));
  const auto page = [&](const char* query) {
    const JsonValue json = Json(backend.Ask("GET", StrCat(kPath, "/", id, "/input_items?", query)));
    std::string ids;
    for (const JsonValue& item : *At(json, "data").array()) ids += IdOf(item) + " ";
    return ids + (Text(json, "has_more") == "true" ? "..." : "");
  };
  EXPECT_EQ(page(""), "m4 m3 m2 m1 m0 ");
  EXPECT_EQ(page("order=asc&limit=2"), "m0 m1 ...");
  EXPECT_EQ(page("order=asc&limit=2&after=m1"), "m2 m3 ...");
  EXPECT_EQ(page("after=m1"), "m0 ");
  for (const char* query : {"limit=0", "limit=x", "limit=101", "order=up", "after=m9"})
    EXPECT_EQ(backend.Ask("GET", StrCat(kPath, "/", id, "/input_items?", query)).status, 400)
        << query;
}

}  // namespace
}  // namespace rose

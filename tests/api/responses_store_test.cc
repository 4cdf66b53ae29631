#include "api/responses_store.h"

#include "api/responses_fixture.h"

namespace rose {
namespace {

std::shared_ptr<StoredResponse> Made(const std::string& id, size_t bytes = 10,
                                     bool background = false) {
  auto out = std::make_shared<StoredResponse>();
  out->record = std::make_shared<ResponseRecord>(
      ResponseHead{.id = id, .model = "m", .background = background});
  out->record->Open(ResponseItem::Kind::kMessage, "msg_" + id);
  out->record->Say(std::string(bytes, 'a'));
  return out;
}
std::shared_ptr<StoredResponse> Ended(const std::string& id, size_t bytes = 10) {
  auto out = Made(id, bytes);
  out->record->End(ResponseStatus::kCompleted, {});
  return out;
}

TEST(Case055, TheNumberOfStoredResponsesIsBounded) {
  int64_t now = 0;
  ResponseStore store({.count = 3}, [&] { return now; });
  for (const char* id : {"a", "b", "c"}) store.AddEnded(Ended(id));
  EXPECT_TRUE(store.Find("a"));  // used last
  store.AddEnded(Ended("d"));
  EXPECT_EQ(store.count(), 3);
  EXPECT_TRUE(store.Find("a"));
  EXPECT_FALSE(store.Find("b"));
  EXPECT_FALSE(store.FindItem("msg_b"));
  EXPECT_TRUE(store.FindItem("msg_c"));
  for (int i = 0; i < 10'000; ++i) store.AddEnded(Ended("x" + std::to_string(i)));
  EXPECT_EQ(store.count(), 3);
}

TEST(Case055, TheirMemoryIsBounded) {
  int64_t now = 0;
  ResponseStore store({.bytes = 100'000}, [&] { return now; });
  for (int i = 0; i < 100; ++i) {
    store.AddEnded(Ended(std::to_string(i), 10'000));
    EXPECT_LE(store.bytes(), 100'000);
  }
  EXPECT_GE(store.count(), 7);
  EXPECT_LE(store.count(), 9);
  // One that is too large by itself is not kept.
  store.AddEnded(Ended("huge", 200'000));
  EXPECT_EQ(store.count(), 0);
  EXPECT_EQ(store.bytes(), 0);
}

TEST(Case055, TheyAreForgottenWhenNobodyUsesThem) {
  int64_t now = 0;
  ResponseStore store({.idle_seconds = 60}, [&] { return now; });
  store.AddEnded(Ended("a"));
  store.AddEnded(Ended("b"));
  now = 50;
  EXPECT_TRUE(store.Find("a"));
  now = 100;
  EXPECT_FALSE(store.Find("b"));
  EXPECT_TRUE(store.Find("a"));
  now = 161;
  EXPECT_FALSE(store.Find("a"));
  EXPECT_EQ(store.count(), 0);
}

TEST(Case055, ThoseUnderWayAreKept) {
  int64_t now = 0;
  ResponseStore store({.count = 1, .idle_seconds = 60}, [&] { return now; });
  const auto running = Made("run", 10, /*background=*/true);
  store.AddRunning(running);
  store.AddEnded(Ended("a"));
  store.AddEnded(Ended("b"));
  now = 1000;
  EXPECT_TRUE(store.Find("run"));
  EXPECT_TRUE(store.FindEnded("run").running);
  EXPECT_FALSE(store.FindItem("msg_run"));
  running->record->End(ResponseStatus::kCompleted, {});
  store.AddEnded(running);
  EXPECT_TRUE(store.FindEnded("run").response);
  EXPECT_TRUE(store.FindItem("msg_run"));
  EXPECT_EQ(store.count(), 1);
}

TEST(ResponseStore, WhatWasErasedStaysAway) {
  int64_t now = 0;
  ResponseStore store({}, [&] { return now; });
  const auto running = Made("run", 10, /*background=*/true);
  store.AddRunning(running);
  EXPECT_TRUE(store.Erase("run"));
  EXPECT_FALSE(store.Erase("run"));
  running->record->End(ResponseStatus::kCancelled, {});
  store.AddEnded(running);
  EXPECT_EQ(store.count(), 0);
  store.AddEnded(Ended("a"));
  EXPECT_TRUE(store.Erase("a"));
  EXPECT_FALSE(store.FindItem("msg_a"));
  EXPECT_EQ(store.bytes(), 0);
}

TEST(ResponseStore, NothingIsStoredIfNoneMayBe) {
  ResponsesFixture api({.count = 0});
  const ResponsesCall call = api.Call("");
  EXPECT_FALSE(call.store);
  EXPECT_NE(call.head.echo.find("\"store\":false"), std::string::npos);
  EXPECT_TRUE(api.ErrorOf(api.ParseWith(R"("background":true)")).starts_with("background: "));
}

TEST(ResponseStore, AStoredStreamCanBeReadAgain) {
  ResponsesFixture api;
  const auto call = api.Call(R"("tools":[{"type":"function","name":"f"}],"top_logprobs":1)");
  const auto sent = api.Stream(
      call,
      "<|channel|>analysis<|message|>hm \xf0\x9f\xa6\x99<|end|><|start|>assistant<|channel|>"
      "commentary<|message|>Wait.<|end|><|start|>assistant<|channel|>commentary "
      "to=functions.f<|message|>{\"a\":1}<|call|>");
  const auto stored = api.store.Find(call.id);
  ASSERT_TRUE(stored);
  ASSERT_EQ(stored->record->events(), std::ssize(sent));
  for (int64_t i = 0; i < std::ssize(sent); ++i) {
    EXPECT_EQ(stored->record->Event(i).data, sent[i].data);
    EXPECT_EQ(stored->record->Event(i).name, sent[i].name);
  }
}

TEST(ResponsesAnswer, OneInTheBackgroundIsQueuedThenRunsThenEnds) {
  ResponsesFixture api;
  const auto call = api.Call(R"("background":true,"stream":true)");
  const std::string id = call.id;
  bool cancelled = false;
  ResponsesAnswer answer(call, api.context());
  std::vector<StreamEvent> events;
  EXPECT_FALSE(api.store.Find(id));
  answer.Started([&] { cancelled = true; });
  const auto stored = api.store.Find(id);
  ASSERT_TRUE(stored);
  answer.Begin(events);
  EXPECT_EQ(Text(*ParseJson(stored->record->Body()), "status"), "\"queued\"");
  EXPECT_TRUE(api.ErrorOf(api.ParseWith(StrCat(R"("previous_response_id":")", id, "\"")))
                  .starts_with("previous_response_id: "));
  TokenEvent event = api.EventOf("<|channel|>final<|message|>a");
  event.finish = FinishReason::kNone;
  answer.Push(0, event, events);
  EXPECT_EQ(Text(*ParseJson(stored->record->Body()), "status"), "\"in_progress\"");
  EXPECT_EQ(Text(*ParseJson(stored->record->Body()), "output.0.content.0.text"), "\"a\"");

  int news = 0;
  stored->record->Watch([&] { ++news; });
  const auto cancel = stored->cancel;
  cancel();
  EXPECT_TRUE(cancelled);
  EXPECT_EQ(news, 1);
  EXPECT_EQ(Text(*ParseJson(stored->record->Body()), "status"), "\"cancelled\"");
  EXPECT_TRUE(api.store.FindEnded(id).response);
  EXPECT_TRUE(answer.done());
  EXPECT_FALSE(answer.failed());
  cancel();  // once more: nothing
  answer.Push(0, {.finish = FinishReason::kCancelled}, events);
  const StrictAccumulator folded = Accumulate(events);
  using Types = std::vector<std::string>;
  EXPECT_EQ(Types(folded.types.begin(), folded.types.begin() + 3),
            (Types{"response.created", "response.queued", "response.in_progress"}));
  EXPECT_EQ(folded.types.back(), "response.failed");
  EXPECT_EQ(Text(folded.final(), "status"), "\"cancelled\"");
}

}  // namespace
}  // namespace rose

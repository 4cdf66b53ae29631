#include "engine/engine.h"

#include <gtest/gtest.h>

#include <cmath>
#include <condition_variable>
#include <mutex>
#include <random>
#include <thread>

#include "engine/engine_limits.h"
#include "engine/event_log.h"
#include "engine/ledger_executor.h"
#include "engine/stub_executor.h"

namespace rose {
namespace {

Request MakeRequest(EventLog& log, std::vector<int32_t> prompt, int64_t max_tokens,
                    uint64_t seed = 1) {
  Request request;
  request.prompt = std::move(prompt);
  request.max_tokens = max_tokens;
  request.sampling.seed = seed;
  request.on_event = log.Listener();
  return request;
}

// Holds an executor's step until it is opened.
class Gate {
 public:
  void Open() {
    std::lock_guard lock(mutex_);
    open_ = true;
    changed_.notify_all();
  }
  void Pass() {
    std::unique_lock lock(mutex_);
    ++arrived_;
    changed_.notify_all();
    changed_.wait(lock, [this] { return open_; });
  }
  void WaitForArrival() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return arrived_ > 0; });
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  bool open_ = false;
  int arrived_ = 0;
};

TEST(Engine, AnswersRequestsOfManyThreads) {
  constexpr int kThreads = 4, kEach = 12;
  auto engine = CreateEngine({.max_running = 8, .max_step_tokens = 64, .pipeline = true},
                             std::make_unique<LedgerExecutor>(20, 24), CreatePlainDecoder());
  std::vector<std::unique_ptr<EventLog>> logs;
  for (int i = 0; i < kThreads * kEach; ++i) logs.push_back(std::make_unique<EventLog>());
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&, t] {
      std::mt19937_64 random(t);
      for (int i = 0; i < kEach; ++i) {
        EventLog& log = *logs[t * kEach + i];
        std::vector<int32_t> prompt(1 + random() % 150, t);
        const int64_t tokens = 1 + random() % 40;
        const Result<RequestId> id = engine->Submit(MakeRequest(log, prompt, tokens, i));
        ASSERT_TRUE(id.ok()) << id.status().message();
        if (i % 3 == 0) engine->Cancel(*id);
        if (log.WaitForEnd().finish == FinishReason::kLength) {
          EXPECT_EQ(log.ids(), LedgerExecutor::Reference(prompt, tokens, i));
        } else {
          EXPECT_EQ(i % 3, 0);
          EXPECT_EQ(log.last().finish, FinishReason::kCancelled);
        }
        engine->stats();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  engine->Drain(/*timeout_ms=*/60000);
  EXPECT_EQ(engine->stats().pages_used, 0);
  EXPECT_EQ(engine->stats().running + engine->stats().waiting, 0);
}

// Steps are pipelined where draws are fed back on the device, unless something else is asked for.
TEST(Engine, PipelinesWhereDrawsAreFedBack) {
  EXPECT_TRUE(IsPipelined({}, {.feeds_back = true}));
  EXPECT_FALSE(IsPipelined({}, {.feeds_back = false}));
  EXPECT_FALSE(IsPipelined({.pipeline = false}, {.feeds_back = true}));
  EXPECT_TRUE(IsPipelined({.pipeline = true}, {.feeds_back = false}));
}

// A step that fails ends every request once, with the reason, and the engine says so ever after.
class EngineFailure : public testing::TestWithParam<bool> {};

TEST_P(EngineFailure, FailsTheRequestsAndNothingHangs) {
  auto executor = std::make_unique<LedgerExecutor>(20, 20);
  Gate gate;
  int steps = 0;
  executor->on_step = [&](const StepPlan&) {
    if (++steps < 5) return;
    gate.Pass();
    ROSE_CHECK(false, "device on fire");
  };
  auto engine = CreateEngine({.max_running = 1, .pipeline = GetParam()}, std::move(executor),
                             CreatePlainDecoder());
  EventLog running, waiting, in_the_mail, late;
  ASSERT_TRUE(engine->Submit(MakeRequest(running, {1, 2}, 100)).ok());
  ASSERT_TRUE(engine->Submit(MakeRequest(waiting, {1, 2}, 100)).ok());
  gate.WaitForArrival();
  ASSERT_TRUE(engine->Submit(MakeRequest(in_the_mail, {1, 2}, 100)).ok());
  gate.Open();
  for (EventLog* log : {&running, &waiting, &in_the_mail}) {
    EXPECT_EQ(log->WaitForEnd().finish, FinishReason::kError);
    EXPECT_NE(log->last().error.find("device on fire"), std::string::npos);
  }
  EXPECT_EQ(running.ids().size(), 4u);
  EXPECT_FALSE(engine->healthy());
  EXPECT_EQ(engine->Submit(MakeRequest(late, {1}, 1)).status().code(), StatusCode::kInternal);
  engine->Drain(/*timeout_ms=*/60000);
  EXPECT_EQ(late.events(), 0);
}

INSTANTIATE_TEST_SUITE_P(Pipelined, EngineFailure, testing::Bool());

TEST(Engine, DestructionCancelsWhatRunsAndWaits) {
  // One at a time, and far more work than can be done before the engine is gone.
  std::vector<EventLog> logs(200);
  Gate gate;
  {
    auto executor = std::make_unique<LedgerExecutor>(20, 20);
    executor->on_step = [&](const StepPlan&) { gate.Pass(); };
    auto engine = CreateEngine({.max_running = 1}, std::move(executor), CreatePlainDecoder());
    for (EventLog& log : logs) ASSERT_TRUE(engine->Submit(MakeRequest(log, {1, 2}, 1000)).ok());
    gate.WaitForArrival();
    gate.Open();
  }
  for (EventLog& log : logs) EXPECT_TRUE(log.ended());
  EXPECT_EQ(logs.back().last().finish, FinishReason::kCancelled);
}

TEST(Engine, WhoWaitedTooLongEnds) {
  EventLog runs, waits;
  Gate gate;
  auto executor = std::make_unique<LedgerExecutor>(20, 20);
  executor->on_step = [&](const StepPlan&) { gate.Pass(); };
  auto engine = CreateEngine({.max_running = 1, .max_queue_seconds = 1}, std::move(executor),
                             CreatePlainDecoder());
  ASSERT_TRUE(engine->Submit(MakeRequest(runs, {1}, 3)).ok());
  gate.WaitForArrival();
  ASSERT_TRUE(engine->Submit(MakeRequest(waits, {1}, 3)).ok());
  std::this_thread::sleep_for(std::chrono::milliseconds(1100));
  gate.Open();
  EXPECT_EQ(waits.WaitForEnd().finish, FinishReason::kExpired);
  EXPECT_EQ(runs.WaitForEnd().finish, FinishReason::kLength);
}

TEST(Engine, RefusesWhatExceedsItsPlacesAndWhatComesAfterDrain) {
  EventLog a, b, c;
  Gate gate;
  auto executor = std::make_unique<LedgerExecutor>(20, 20);
  executor->on_step = [&](const StepPlan&) { gate.Pass(); };
  auto engine =
      CreateEngine({.max_running = 1, .max_waiting = 1}, std::move(executor), CreatePlainDecoder());
  ASSERT_TRUE(engine->Submit(MakeRequest(a, {1}, 3)).ok());
  ASSERT_TRUE(engine->Submit(MakeRequest(b, {1}, 3)).ok());
  EXPECT_EQ(engine->Submit(MakeRequest(c, {1}, 3)).status().code(), StatusCode::kUnavailable);
  engine->Drain(/*timeout_ms=*/0);
  gate.Open();
  engine->Drain(/*timeout_ms=*/60000);
  EXPECT_TRUE(a.ended() && b.ended());
  EXPECT_EQ(engine->Submit(MakeRequest(c, {1}, 3)).status().code(), StatusCode::kUnavailable);
  EXPECT_EQ(c.events(), 0);
}

TEST(Engine, WithoutASeedRequestsDiffer) {
  auto engine = CreateEngine({}, std::make_unique<LedgerExecutor>(20, 20), CreatePlainDecoder());
  EventLog a, b;
  for (EventLog* log : {&a, &b}) {
    Request request = MakeRequest(*log, {1, 2, 3}, 30);
    request.sampling.seed.reset();
    ASSERT_TRUE(engine->Submit(std::move(request)).ok());
    log->WaitForEnd();
  }
  EXPECT_NE(a.ids(), b.ids());
}

// Every refusal names the field and its limit.
TEST(Engine, RefusesRequestsThatCanNeverRun) {
  auto engine = CreateEngine({}, std::make_unique<LedgerExecutor>(3, 10), CreatePlainDecoder());
  EXPECT_EQ(engine->max_context(), 640);
  EventLog log;
  const auto refusal = [&](auto change) {
    Request request = MakeRequest(log, {1, 2, 3}, 10);
    change(request);
    const Status status = engine->Submit(std::move(request)).status();
    EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
    return status.message();
  };
  const auto expect = [](const std::string& message, const std::string& part) {
    EXPECT_NE(message.find(part), std::string::npos) << message;
  };
  expect(refusal([](Request& r) { r.prompt.clear(); }), "at least one token");
  expect(refusal([](Request& r) { r.prompt[1] = 50; }), "token id 50");
  expect(refusal([](Request& r) { r.prompt[1] = -1; }), "token id -1");
  expect(refusal([](Request& r) { r.max_tokens = 0; }), "max_tokens");
  expect(refusal([](Request& r) { r.max_tokens = 638; }), "context length of 640");
  expect(refusal([](Request& r) { r.max_tokens = INT64_MAX; }), "context length of 640");
  expect(refusal([](Request& r) { r.min_tokens = 11; }), "min_tokens");
  expect(refusal([](Request& r) { r.stop_ids = {50}; }), "stop id 50");
  expect(refusal([](Request& r) {
           r.min_tokens = 1;
           for (int i = 0; i < 50; ++i) r.stop_ids.push_back(i);
         }),
         "every token that may be drawn is one");
  expect(refusal([](Request& r) { r.sampling.temperature = -1; }), "temperature");
  expect(refusal([](Request& r) { r.sampling.temperature = NAN; }), "temperature");
  expect(refusal([](Request& r) { r.sampling.top_p = 0; }), "top_p");
  expect(refusal([](Request& r) { r.sampling.top_k = -1; }), "top_k");
  expect(refusal([](Request& r) { r.sampling.min_p = 1.5; }), "min_p");
  expect(refusal([](Request& r) { r.sampling.presence_penalty = INFINITY; }), "presence_penalty");
  expect(refusal([](Request& r) { r.sampling.repetition_penalty = 0; }), "repetition_penalty");
  expect(refusal([](Request& r) { r.sampling.logit_bias = {{50, 1.0f}}; }), "logit_bias");
  expect(refusal([](Request& r) { r.sampling.logit_bias = {{5, NAN}}; }), "logit_bias");
  expect(refusal([](Request& r) { r.sampling.logprobs = 51; }), "logprobs");
  expect(refusal([](Request& r) { r.prompt_logprobs = 51; }), "prompt_logprobs");
  expect(refusal([](Request& r) { r.prompt_logprobs = -2; }), "prompt_logprobs");
  expect(refusal([](Request& r) { r.sampling.allowed_ids = {1, 50}; }), "allowed_token_ids");
  expect(refusal([](Request& r) { r.sampling.logprob_ids = {-1}; }), "logprob_token_ids");
  expect(refusal([](Request& r) { r.sampling.bad_words = {{1}, {2, 50}}; }), "bad_words");
  expect(refusal([](Request& r) { r.sampling.bad_words = {{}}; }), "bad_words");
  expect(refusal([](Request& r) {
           r.sampling.allowed_ids = {1, 2};
           r.sampling.bad_words = {{1}, {2}, {3, 4}};
         }),
         "leave no token");
  expect(refusal([](Request& r) {
           r.sampling.allowed_ids = {1, 2};
           r.sampling.bad_words = {{1}};
           r.stop_ids = {2};
           r.min_tokens = 1;
         }),
         "min_tokens");
  EXPECT_EQ(log.events(), 0);
  // The longest that fits does run.
  ASSERT_TRUE(engine->Submit(MakeRequest(log, {1, 2, 3}, 637)).ok());
  EXPECT_EQ(log.WaitForEnd().finish, FinishReason::kLength);
}

TEST(StubExecutor, ReplaysTheAnswerThenEnds) {
  StubOptions options;
  options.answer = [](std::span<const int32_t> prompt) {
    return std::vector<int32_t>{prompt[0], 11, 12};
  };
  options.end_id = 99;
  auto engine = CreateEngine({}, CreateStubExecutor(options), CreatePlainDecoder());
  EventLog log;
  Request request = MakeRequest(log, {7, 8}, 50);
  request.stop_ids = {99};
  request.sampling.logprobs = 2;
  ASSERT_TRUE(engine->Submit(std::move(request)).ok());
  EXPECT_EQ(log.WaitForEnd().finish, FinishReason::kStop);
  EXPECT_EQ(log.ids(), (std::vector<int32_t>{7, 11, 12, 99}));
  EXPECT_EQ(log.last().tokens[0].top.size(), 2u);
}

// Allows one token only.
class OnlyToken : public TokenConstraint {
 public:
  OnlyToken(int32_t id, int64_t vocab) : mask_((vocab + 31) / 32, 0) {
    mask_[id / 32] |= 1u << (id % 32);
  }
  Result<std::span<const uint32_t>> Allowed(std::span<const int32_t> output) override {
    if (output.size() == 3) return Status(StatusCode::kInternal, "no more");
    return std::span<const uint32_t>(mask_);
  }

 private:
  std::vector<uint32_t> mask_;
};

TEST(StubExecutor, KeepsToAConstraintAndScoresThePrompt) {
  auto engine = CreateEngine({}, CreateStubExecutor({}), CreatePlainDecoder());
  EventLog log;
  std::vector<SampledToken> prompt;
  Request request = MakeRequest(log, {7, 8, 9}, 50);
  request.constraint = std::make_shared<OnlyToken>(70, engine->vocab());
  request.prompt_logprobs = 1;
  request.on_event = [&, listener = log.Listener()](const TokenEvent& event) {
    prompt.insert(prompt.end(), event.prompt.begin(), event.prompt.end());
    listener(event);
  };
  ASSERT_TRUE(engine->Submit(std::move(request)).ok());
  EXPECT_EQ(log.WaitForEnd().finish, FinishReason::kError);
  EXPECT_EQ(log.last().error, "no more");
  EXPECT_EQ(log.ids(), (std::vector<int32_t>{70, 70, 70}));
  ASSERT_EQ(prompt.size(), 2u);
  EXPECT_EQ(prompt[1].id, 9);
  EXPECT_EQ(prompt[1].top.size(), 1u);
  EXPECT_TRUE(engine->healthy());
}

}  // namespace
}  // namespace rose

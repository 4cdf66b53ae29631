// Who is served when: priorities, deadlines, short prompts beside long ones, shared prompts.
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <map>

#include "engine/event_log.h"
#include "engine/ledger_executor.h"
#include "engine/pipelined_executor.h"
#include "engine/step_loop.h"

namespace rose {
namespace {

using std::chrono::seconds;

// A loop over a ledger with a clock that the test moves.
class OrderTest : public testing::TestWithParam<bool> {
 protected:
  // The last answer is in `order` when its last event is out.
  void Add(RequestId id, int64_t prompt_tokens, int64_t max_tokens, const Request& like = {}) {
    Request request = like;
    request.submitted = now_;
    for (int64_t i = 0; i < prompt_tokens; ++i) {
      const int64_t token = shared_prompts_ ? i % 7 : id + i;
      request.prompt.push_back(static_cast<int32_t>(token % LedgerExecutor::kVocab));
    }
    request.max_tokens = max_tokens;
    right_[id] = LedgerExecutor::Reference(request.prompt, max_tokens, id);
    request.on_event = [this, id, listener = logs_[id].Listener()](const TokenEvent& event) {
      listener(event);
      if (event.finish != FinishReason::kNone) order_.push_back(id);
    };
    loop().Add(id, /*seed=*/id, std::move(request));
  }

  StepLoop& loop() {
    if (loop_ == nullptr) {
      auto ledger = std::make_unique<LedgerExecutor>(sliding_pages_, 100);
      ledger->on_step = [this](const StepPlan& plan) {
        for (const SeqPlan& seq : plan.seqs) rows_ += std::ssize(seq.tokens);
      };
      executor_ = std::move(ledger);
      if (GetParam()) executor_ = CreatePipelinedExecutor(std::move(executor_));
      loop_ = std::make_unique<StepLoop>(
          limits_, *executor_, *decoder_,
          StepLoopOptions{
              .prefix_cache = true, .pipeline = GetParam(), .now = [this] { return now_; }});
    }
    return *loop_;
  }

  void Run() {
    while (!loop().idle()) loop().Step();
    for (const auto& [id, log] : logs_) {
      const std::vector<int32_t> ids = log.ids();
      ASSERT_TRUE(std::equal(ids.begin(), ids.end(), right_[id].begin())) << id;
    }
    EXPECT_EQ(loop().stats().pages_used, 0);
  }

  SchedulerLimits limits_ = {.max_running = 8, .max_step_tokens = 64, .prefill_chunk = 64};
  int64_t sliding_pages_ = 40;
  bool shared_prompts_ = false;
  std::chrono::steady_clock::time_point now_{};
  std::map<RequestId, EventLog> logs_;
  std::map<RequestId, std::vector<int32_t>> right_;
  std::vector<RequestId> order_;
  int64_t rows_ = 0;  // computed

 private:
  const std::unique_ptr<Decoder> decoder_ = CreatePlainDecoder();
  std::unique_ptr<Executor> executor_;
  std::unique_ptr<StepLoop> loop_;
};

// A step of priority is a second of arrival.
TEST_P(OrderTest, PrioritiesMoveTheArrival) {
  limits_.max_running = 1;
  Add(1, 10, 5);
  loop().Step();
  Add(2, 10, 5, {.priority = 5});
  now_ += seconds(2);
  Add(3, 10, 5);
  now_ += seconds(4);
  Add(4, 10, 5);
  Add(5, 10, 5, {.priority = -100});  // the most urgent, and more so than the one that runs
  Run();
  EXPECT_EQ(loop().stats().preemptions, 1);
  EXPECT_EQ(order_, (std::vector<RequestId>{5, 1, 3, 2, 4}));
}

TEST_P(OrderTest, ABetterPriorityDisplacesTheLast) {
  limits_.max_running = 2;
  Add(1, 100, 40);
  Add(2, 100, 40);
  for (int step = 0; step < 8; ++step) loop().Step();
  ASSERT_EQ(loop().stats().running, 2);
  Add(3, 10, 5, {.priority = -1});
  Run();
  EXPECT_EQ(loop().stats().preemptions, 1);
  EXPECT_EQ(order_, (std::vector<RequestId>{3, 1, 2}));
}

// The same priority never displaces, however short pages are.
TEST_P(OrderTest, EqualsWaitTheirTurn) {
  limits_.max_running = 2;
  for (RequestId id = 1; id <= 6; ++id) Add(id, 10, 5);
  Run();
  EXPECT_EQ(loop().stats().preemptions, 0);
  EXPECT_EQ(order_, (std::vector<RequestId>{1, 2, 3, 4, 5, 6}));
}

TEST_P(OrderTest, WhoseTimeIsOverEnds) {
  limits_.max_running = 1;
  Add(1, 10, 20, {.deadline = now_ + seconds(60)});
  Add(2, 10, 20, {.start_by = now_ + seconds(10)});
  Add(3, 10, 20, {.start_by = now_ + seconds(30), .deadline = now_ + seconds(1000)});
  Add(4, 10, 20);
  for (int step = 0; step < 6; ++step) loop().Step();
  now_ += seconds(10);
  loop().Step();
  EXPECT_EQ(order_, (std::vector<RequestId>{2}));
  EXPECT_EQ(logs_[2].last().finish, FinishReason::kExpired);
  EXPECT_EQ(logs_[2].last().error, "it waited too long for its turn");
  now_ += seconds(50);
  loop().Step();
  EXPECT_EQ(order_, (std::vector<RequestId>{2, 1, 3}));
  EXPECT_EQ(logs_[1].last().error, "it was not done by its deadline");
  EXPECT_GT(logs_[1].ids().size(), 2u);
  Run();
  EXPECT_EQ(logs_[4].last().finish, FinishReason::kLength);
}

// While a document is read, a short question is answered.
TEST_P(OrderTest, AShortPromptDoesNotWaitForALongOne) {
  Add(1, 3000, 5);
  for (int step = 0; step < 3; ++step) loop().Step();
  Add(2, 3000, 5);
  Add(3, 30, 3);
  for (int step = 0; step < 8; ++step) loop().Step();
  EXPECT_EQ(order_, (std::vector<RequestId>{3}));
  Run();
}

// What one computes, the others wait for and then share, and nobody behind them waits too.
TEST_P(OrderTest, APromptOfManyIsComputedOnce) {
  shared_prompts_ = true;
  for (RequestId id = 1; id <= 4; ++id) Add(id, 300, 10);
  shared_prompts_ = false;
  Add(5, 20, 2);
  for (int step = 0; step < 4; ++step) loop().Step();
  EXPECT_EQ(order_, (std::vector<RequestId>{5}));
  Run();
  EXPECT_EQ(loop().stats().prefix_hits, 3 * 256);
  const int64_t decodes = 4 * 10 + 2;  // at most: one more each where a stop came late
  EXPECT_LE(rows_, 300 + 3 * (300 - 256) + 20 + decodes);
}

INSTANTIATE_TEST_SUITE_P(All, OrderTest, testing::Bool(), [](const auto& param) {
  return param.param ? "Pipelined" : "Synchronous";
});

}  // namespace
}  // namespace rose

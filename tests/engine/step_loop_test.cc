#include "engine/step_loop.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <map>
#include <random>

#include "engine/event_log.h"
#include "engine/ledger_executor.h"
#include "engine/pipelined_executor.h"
#include "engine/scripted_decoder.h"

namespace rose {
namespace {

std::vector<int32_t> RandomPrompt(std::mt19937_64& random, int64_t tokens) {
  std::vector<int32_t> prompt;
  for (int64_t i = 0; i < tokens; ++i) {
    prompt.push_back(static_cast<int32_t>(random() % LedgerExecutor::kVocab));
  }
  return prompt;
}

struct Asked {
  std::vector<int32_t> prompt, right;
  EventLog log;
  bool cancelled = false;
  bool scored = false;               // asks for prompt logprobs
  std::vector<SampledToken> scores;  // what it got

  // The whole right answer, or a beginning of it if somebody ended it.
  void ExpectRight() const {
    const std::vector<int32_t> ids = log.ids();
    if (log.last().finish == FinishReason::kCancelled) {
      EXPECT_TRUE(cancelled);
      ASSERT_LE(ids.size(), right.size());
      ASSERT_TRUE(std::equal(ids.begin(), ids.end(), right.begin()));
      return;
    }
    ASSERT_EQ(log.last().finish, log.last().stop_id ? FinishReason::kStop : FinishReason::kLength);
    ASSERT_EQ(ids, right);
    // Every prompt position from 1 on, once and in order.
    ASSERT_EQ(scores.size(), scored ? prompt.size() - 1 : 0);
    for (size_t i = 0; i < scores.size(); ++i) {
      ASSERT_EQ(scores[i].id, prompt[i + 1]);
      ASSERT_EQ(scores[i].logprob, LedgerExecutor::Score(i, prompt[i + 1]));
    }
  }
};

struct Crowd {
  int64_t requests = 12;
  int64_t longest = 350;   // tokens of a prompt
  bool cancels = false;    // some are cancelled
  int64_t priorities = 1;  // how many there are
};

// A random crowd of requests through `loop`; every output must be the reference's.
void RunCrowd(StepLoop& loop, ScriptedDecoder& decoder, std::mt19937_64& random,
              const Crowd& crowd) {
  std::vector<std::unique_ptr<Asked>> asked;
  std::vector<std::vector<int32_t>> conversations = {{}};  // prompts and answers to go on from
  std::chrono::steady_clock::time_point clock;
  const auto add = [&] {
    asked.push_back(std::make_unique<Asked>());
    Asked& one = *asked.back();
    const RequestId id = asked.size();
    const std::vector<int32_t>& old = conversations[random() % conversations.size()];
    const int64_t shared = random() % (std::min<int64_t>(old.size(), crowd.longest) + 1);
    one.prompt.assign(old.begin(), old.begin() + shared);
    for (int32_t token : RandomPrompt(random, 1 + random() % (crowd.longest - shared + 1)))
      one.prompt.push_back(token);
    Request request;
    request.prompt = one.prompt;
    request.max_tokens = 1 + random() % 80;
    request.submitted = clock += std::chrono::milliseconds(random() % 300);
    request.priority = static_cast<int64_t>(random() % crowd.priorities);
    one.scored = random() % 2 == 0;
    if (one.scored) request.prompt_logprobs = 0;
    request.on_event = [&one, listener = one.log.Listener()](const TokenEvent& event) {
      one.scores.insert(one.scores.end(), event.prompt.begin(), event.prompt.end());
      listener(event);
    };
    one.right = LedgerExecutor::Reference(one.prompt, request.max_tokens, /*seed=*/id);
    decoder.Tell(id, one.prompt, one.right);
    if (random() % 3 == 0) {
      request.stop_ids = {one.right[random() % one.right.size()]};
      const auto stop = std::find(one.right.begin(), one.right.end(), request.stop_ids[0]);
      one.right.erase(stop + 1, one.right.end());
    }
    conversations.push_back(one.prompt);
    conversations.back().insert(conversations.back().end(), one.right.begin(), one.right.end());
    loop.Add(id, /*seed=*/id, std::move(request));
  };
  while (std::ssize(asked) < crowd.requests || !loop.idle()) {
    if (std::ssize(asked) < crowd.requests && random() % 2 == 0) add();
    if (crowd.cancels && !asked.empty() && random() % 30 == 0) {
      const RequestId id = 1 + random() % asked.size();
      asked[id - 1]->cancelled = true;
      loop.Cancel(id);
    }
    if (!loop.idle()) loop.Step();
  }
  for (const auto& one : asked) {
    one->ExpectRight();
    if (testing::Test::HasFatalFailure()) return;
  }
  ASSERT_EQ(loop.stats().pages_used, 0);
}

// Must: the same tokens whatever the batch, the chunks, the drafts, pipelined or not, whoever goes
// first, and with pages nearly exhausted, with and without a host tier to swap to.
TEST(StepLoop, RandomCrowdsDrawTheReferencesTokens) {
  int64_t preemptions = 0, accepted = 0, rejected = 0, hits = 0, evictions = 0;
  int64_t swapped_out = 0, swapped_in = 0, host_hits = 0;
  for (uint64_t seed = 1; seed <= 480; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    std::mt19937_64 random(seed);
    const int64_t host = seed % 5 < 2 ? 0 : 30;
    std::unique_ptr<Executor> executor = std::make_unique<LedgerExecutor>(
        3 + random() % 20, 7 + random() % 20, random() % (host + 1), random() % (2 * host + 1));
    SchedulerLimits limits;
    limits.max_step_tokens = 1 + random() % 200;
    limits.prefill_chunk = 1 + random() % limits.max_step_tokens;
    limits.max_running = 1 + random() % std::min<int64_t>(limits.max_step_tokens, 16);
    ScriptedDecoder decoder(
        seed % 4 == 0 ? ScriptedDecoder::Quality::kRandom : ScriptedDecoder::Quality::kNone, 5,
        LedgerExecutor::kVocab);
    const bool pipeline = seed % 4 == 1 || seed % 4 == 2;
    if (pipeline) executor = CreatePipelinedExecutor(std::move(executor));
    StepLoop loop(limits, *executor, decoder,
                  {.prefix_cache = seed % 3 != 0, .pipeline = pipeline});
    RunCrowd(loop, decoder, random,
             {.cancels = random() % 2 == 0, .priorities = random() % 2 == 0 ? 1 : 4});
    if (testing::Test::HasFatalFailure()) return;
    preemptions += loop.stats().preemptions;
    hits += loop.stats().prefix_hits;
    evictions += loop.stats().prefix_hits > 0 && loop.stats().pages_cached < 20;
    accepted += decoder.accepted();
    rejected += decoder.rejected();
    swapped_out += loop.stats().pages_swapped_out;
    swapped_in += loop.stats().pages_swapped_in;
    host_hits += loop.stats().prefix_host_hits;
    ASSERT_LE(loop.stats().host_pages_used, loop.stats().host_pages_total);
    if (host == 0) {
      ASSERT_EQ(loop.stats().pages_swapped_out, 0);
    }
  }
  EXPECT_GT(swapped_out, 1000);
  EXPECT_GT(swapped_in, 100);
  EXPECT_GT(host_hits, 5'000);
  EXPECT_GT(preemptions, 20);
  EXPECT_GT(hits, 10'000);
  EXPECT_GT(evictions, 10);
  EXPECT_GT(accepted, 100);
  EXPECT_GT(rejected, 100);
}

// Drafts that are right, wrong and half right change speed, never output.
TEST(Case089, DraftsNeverChangeTheOutput) {
  using Quality = ScriptedDecoder::Quality;
  std::map<Quality, int64_t> steps;
  for (Quality quality : {Quality::kNone, Quality::kRight, Quality::kWrong, Quality::kHalf}) {
    std::mt19937_64 random(5);
    LedgerExecutor executor(30, 60);
    ScriptedDecoder decoder(quality, 4, LedgerExecutor::kVocab);
    StepLoop loop({.max_running = 8, .max_step_tokens = 128, .prefill_chunk = 128}, executor,
                  decoder);
    RunCrowd(loop, decoder, random, {.requests = 8, .longest = 200});
    if (testing::Test::HasFatalFailure()) return;
    steps[quality] = loop.stats().steps;
  }
  EXPECT_LT(steps[Quality::kRight], steps[Quality::kHalf]);
  EXPECT_LT(steps[Quality::kHalf], steps[Quality::kNone]);
  EXPECT_EQ(steps[Quality::kWrong], steps[Quality::kNone]);
}

class OneRequest {
 public:
  explicit OneRequest(int64_t draft = 0, bool pipeline = false)
      : decoder_(draft > 0 ? ScriptedDecoder::Quality::kRight : ScriptedDecoder::Quality::kNone,
                 draft, LedgerExecutor::kVocab),
        executor_(pipeline ? CreatePipelinedExecutor(std::move(ledger_)) : std::move(ledger_)),
        loop_({.max_running = 4, .max_step_tokens = 64, .prefill_chunk = 64}, *executor_, decoder_,
              {.pipeline = pipeline}) {}

  // Right output of 20 tokens for the prompt of all requests here.
  const std::vector<int32_t>& right() const { return right_; }
  int64_t steps() const { return loop_.stats().steps; }

  EventLog& Run(Request request) {
    request.prompt = prompt_;
    request.on_event = log_.Listener();
    decoder_.Tell(1, prompt_, right_);
    loop_.Add(1, /*seed=*/9, std::move(request));
    while (!loop_.idle()) loop_.Step();
    return log_;
  }

 private:
  std::unique_ptr<Executor> ledger_ = std::make_unique<LedgerExecutor>(10, 10);
  ScriptedDecoder decoder_;
  std::unique_ptr<Executor> executor_;
  StepLoop loop_;
  const std::vector<int32_t> prompt_ = {3, 1, 4, 1, 5};
  const std::vector<int32_t> right_ = LedgerExecutor::Reference(prompt_, 20, 9);
  EventLog log_;
};

int64_t FirstIndex(const std::vector<int32_t>& ids, int32_t id) {
  return std::find(ids.begin(), ids.end(), id) - ids.begin();
}

TEST(StepLoop, AStopIdIsTheLastTokenAndDropsTheDraftBehindIt) {
  for (int64_t draft : {0, 7}) {
    OneRequest one(draft);
    Request request;
    request.max_tokens = 20;
    request.stop_ids = {one.right()[10]};
    const int64_t at = FirstIndex(one.right(), one.right()[10]);
    EventLog& log = one.Run(std::move(request));
    EXPECT_EQ(log.last().finish, FinishReason::kStop);
    EXPECT_EQ(log.last().stop_id, one.right()[10]);
    EXPECT_EQ(log.ids(), std::vector<int32_t>(one.right().begin(), one.right().begin() + at + 1));
  }
}

TEST(StepLoop, AStopIdAtTheLastTokenAllowedIsAStop) {
  OneRequest one;
  const int64_t at = FirstIndex(one.right(), one.right()[10]);
  Request request;
  request.max_tokens = at + 1;
  request.stop_ids = {one.right()[10]};
  EXPECT_EQ(one.Run(std::move(request)).last().finish, FinishReason::kStop);
}

TEST(StepLoop, TokensComeOneByOneAndMaxTokensIsExact) {
  for (int64_t draft : {0, 7}) {
    OneRequest one(draft);
    Request request;
    request.max_tokens = 13;
    EventLog& log = one.Run(std::move(request));
    EXPECT_EQ(log.last().finish, FinishReason::kLength);
    EXPECT_EQ(log.ids(), std::vector<int32_t>(one.right().begin(), one.right().begin() + 13));
    EXPECT_EQ(log.events(), draft == 0 ? 13 : 3);  // 1, then 8, then 4 at once
  }
}

// The step behind a stop is in flight when it is seen; what it draws is dropped. The end by length
// is known beforehand.
TEST(StepLoop, PipelinedAStopSeenLateDoesNotShow) {
  OneRequest stopped(/*draft=*/0, /*pipeline=*/true), full(/*draft=*/0, /*pipeline=*/true);
  const int64_t at = FirstIndex(stopped.right(), stopped.right()[10]);
  Request request;
  request.max_tokens = 20;
  EXPECT_EQ(full.Run(request).ids(), full.right());
  EXPECT_EQ(full.steps(), 20);
  request.stop_ids = {stopped.right()[10]};
  EventLog& log = stopped.Run(request);
  EXPECT_EQ(log.last().finish, FinishReason::kStop);
  EXPECT_EQ(log.ids(),
            std::vector<int32_t>(stopped.right().begin(), stopped.right().begin() + at + 1));
  EXPECT_EQ(stopped.steps(), at + 2);
}

TEST(StepLoop, StopIdsAreNotDrawnBeforeMinTokens) {
  OneRequest one;
  Request request;
  request.max_tokens = 20;
  request.min_tokens = 12;
  request.stop_ids = {one.right()[0], one.right()[3]};
  const std::vector<int32_t> stops = request.stop_ids;
  const std::vector<int32_t> ids = one.Run(std::move(request)).ids();
  ASSERT_GE(ids.size(), 12u);
  for (int i = 0; i < 12; ++i) {
    EXPECT_EQ(std::count(stops.begin(), stops.end(), ids[i]), 0) << i;
  }
}

// Cancelled before, in and after its prompt: pages are free at once, the others are not disturbed.
TEST(Case094, CancelFreesPagesAtEveryPoint) {
  for (int64_t steps_before = 0; steps_before < 12; ++steps_before) {
    std::mt19937_64 random(3);
    LedgerExecutor executor(10, 10);
    const std::unique_ptr<Decoder> decoder = CreatePlainDecoder();
    StepLoop loop({.max_running = 4, .max_step_tokens = 40, .prefill_chunk = 40}, executor,
                  *decoder);
    const std::vector<int32_t> prompt = RandomPrompt(random, 200);
    EventLog gone, stays;
    for (EventLog* log : {&gone, &stays}) {
      Request request;
      request.prompt = prompt;
      request.max_tokens = 30;
      request.on_event = log->Listener();
      loop.Add(log == &gone ? 1 : 2, 5, std::move(request));
    }
    for (int64_t i = 0; i < steps_before; ++i) loop.Step();
    const int64_t used = loop.stats().pages_used;
    loop.Cancel(1);
    loop.Cancel(1);
    loop.Cancel(77);
    EXPECT_EQ(gone.last().finish, FinishReason::kCancelled);
    EXPECT_EQ(gone.events(), static_cast<int64_t>(gone.ids().size()) + 1);
    if (steps_before > 0) {
      EXPECT_LT(loop.stats().pages_used, used);
    }
    while (!loop.idle()) loop.Step();
    EXPECT_EQ(stays.ids(), LedgerExecutor::Reference(prompt, 30, 5));
    EXPECT_EQ(loop.stats().pages_used, 0);
  }
}

}  // namespace
}  // namespace rose

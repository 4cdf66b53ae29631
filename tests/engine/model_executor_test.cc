// The engine over a real model. Must: a request draws the same tokens alone, in a batch of 16 mixed
// lengths, in chunks of any size, with drafts, and while pages are nearly exhausted.
#include "engine/model_executor.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <limits>
#include <map>
#include <numeric>
#include <random>
#include <set>

#include "engine/event_log.h"
#include "engine/scripted_decoder.h"
#include "engine/step_loop.h"
#include "models/golden.h"
#include "models/load.h"
#include "models/step_runner.h"
#include "ops/cpu/cpu_ops.h"
#include "ops/cpu_fast/cpu_fast_ops.h"

namespace rose {
namespace {

using Quality = ScriptedDecoder::Quality;
const std::string kFolder = ROSE_SOURCE_DIR "/tests/data/toy-a";
constexpr int64_t kAnswer = 48;

enum class Ops { kCpuFast, kCpu };

LoadedModel Load(std::unique_ptr<OpSet> ops) {
  return LoadModel(kFolder, std::move(ops), /*threads=*/1, {}).value();
}

// One model of each kind for all tests here: it is const once bound.
const LoadedModel& Toy(Ops ops = Ops::kCpuFast) {
  static const LoadedModel fast = Load(std::make_unique<CpuFastOps>(CpuFastConfig{.threads = 2}));
  static const LoadedModel plain = Load(std::make_unique<CpuOps>());
  return ops == Ops::kCpu ? plain : fast;
}

std::unique_ptr<ModelExecutor> ToyExecutor(const std::vector<int64_t>& pages,
                                           Ops ops = Ops::kCpuFast) {
  return ModelExecutor::Create(*Toy(ops).model, *Toy(ops).ops, pages).value();
}

// Fills K and V of a page with NaN in all layers of its group.
void Poison(KvCache& kv, int group, int32_t page) {
  for (KvLayer& layer : kv.layers) {
    if (layer.group != group) continue;
    for (Tensor* tensor : {&layer.keys, &layer.values}) {
      const int64_t size = tensor->elements() / tensor->dim(0);
      ASSERT_EQ(tensor->dtype(), DType::kF32);
      std::fill_n(tensor->data<float>() + page * size, size,
                  std::numeric_limits<float>::quiet_NaN());
    }
  }
}

// A model executor whose pages are NaN until they are written, and again once their sequence has
// given them back.
class PoisoningExecutor : public Executor {
 public:
  explicit PoisoningExecutor(std::unique_ptr<ModelExecutor> executor)
      : executor_(std::move(executor)), owner_(info().pages.size()) {
    for (size_t g = 0; g < owner_.size(); ++g) {
      owner_[g].assign(info().pages[g], 0);
      for (int32_t page = 0; page < info().pages[g]; ++page) {
        Poison(executor_->kv(), static_cast<int>(g), page);
      }
    }
  }

  const ExecutorInfo& info() const override { return executor_->info(); }
  void Submit(const StepPlan& plan) override {
    for (const SeqPlan& seq : plan.seqs) {
      for (size_t g = 0; g < owner_.size(); ++g) Follow(seq, g);
    }
    executor_->Submit(plan);
  }
  StepResult Wait() override { return executor_->Wait(); }
  int64_t poisoned() const { return poisoned_; }

 private:
  void Follow(const SeqPlan& seq, size_t g) {
    const std::set<int32_t> now(seq.pages[g].begin(), seq.pages[g].end());
    for (int32_t page = 0; page < info().pages[g]; ++page) {
      const bool held = now.contains(page);
      // Given back by this sequence, or come over from another: what is in it is garbage.
      if ((owner_[g][page] == seq.id && !held) || (owner_[g][page] != seq.id && held)) {
        Poison(executor_->kv(), static_cast<int>(g), page);
        ++poisoned_;
      }
      if (held) owner_[g][page] = seq.id;
      if (!held && owner_[g][page] == seq.id) owner_[g][page] = 0;
    }
  }

  const std::unique_ptr<ModelExecutor> executor_;
  std::vector<std::vector<RequestId>> owner_;  // [group][page]; 0 = nobody
  int64_t poisoned_ = 0;
};

// Allows a third of the vocabulary, another one after every output. It is strict: an output that it
// would not have allowed is an error, so a rejected draft must never be shown to it.
class ThirdsConstraint : public TokenConstraint {
 public:
  explicit ThirdsConstraint(int64_t vocab) : vocab_(vocab) {}

  static bool IsAllowed(std::span<const int32_t> output, int32_t id) {
    int64_t sum = 7 * std::ssize(output);
    for (int32_t token : output) sum += token;
    return (id + sum) % 3 == 0;
  }

  Result<std::span<const uint32_t>> Allowed(std::span<const int32_t> output) override {
    for (size_t i = 0; i < output.size(); ++i) {
      if (!IsAllowed(output.first(i), output[i])) {
        return Status(StatusCode::kInternal, StrCat("token ", output[i], " was not allowed"));
      }
    }
    mask_.assign((vocab_ + 31) / 32, 0);
    for (int32_t id = 0; id < vocab_; ++id) {
      if (IsAllowed(output, id)) mask_[id / 32] |= 1u << (id % 32);
    }
    return std::span<const uint32_t>(mask_);
  }

 private:
  const int64_t vocab_;
  std::vector<uint32_t> mask_;
};

// A request of the crowd, and what it answers when it runs alone.
struct Member {
  std::vector<int32_t> prompt;
  SamplingParams sampling;
  bool constrained = false;
  std::vector<int32_t> alone;
};

// The request that it makes.
Request RequestOf(const Member& member, int64_t vocab, EventLog& log) {
  Request request;
  request.prompt = member.prompt;
  request.max_tokens = kAnswer;
  request.sampling = member.sampling;
  if (member.constrained) request.constraint = std::make_shared<ThirdsConstraint>(vocab);
  request.on_event = log.Listener();
  return request;
}

struct Setting {
  SchedulerLimits limits = {.max_running = 16, .max_step_tokens = 1024, .prefill_chunk = 1024};
  std::vector<int64_t> pages = {100, 100};  // full group, sliding group
  Quality draft = Quality::kNone;
  Ops ops = Ops::kCpuFast;
};

// Runs members together; their answers. `preemptions` is added to.
std::vector<std::vector<int32_t>> RunTogether(const std::vector<const Member*>& members,
                                              const Setting& setting,
                                              int64_t* preemptions = nullptr) {
  PoisoningExecutor executor(ToyExecutor(setting.pages, setting.ops));
  ScriptedDecoder decoder(setting.draft, 4, executor.info().vocab);
  StepLoop loop(setting.limits, executor, decoder);
  std::vector<EventLog> logs(members.size());
  for (size_t i = 0; i < members.size(); ++i) {
    decoder.Tell(i + 1, members[i]->prompt, members[i]->alone);
    loop.Add(i + 1, *members[i]->sampling.seed,
             RequestOf(*members[i], executor.info().vocab, logs[i]));
  }
  while (!loop.idle()) loop.Step();
  if (preemptions != nullptr) *preemptions += loop.stats().preemptions;
  EXPECT_EQ(loop.stats().pages_used, 0);
  EXPECT_GT(executor.poisoned(), 0);
  std::vector<std::vector<int32_t>> answers;
  for (EventLog& log : logs) answers.push_back(log.ids());
  return answers;
}

// 16 requests: the recorded prompts, greedy, and others that sample in different ways. Their
// answers alone are computed once.
const std::vector<Member>& Crowd() {
  static const std::vector<Member> crowd = [] {
    std::vector<Member> members;
    const Golden golden(kFolder + "/golden.safetensors");
    for (const char* prompt : {"p0", "p1", "p2", "p3", "p4"}) {
      Member& member = members.emplace_back();
      member.prompt = golden.Integers(StrCat(prompt, ".tokens"));
      member.sampling.temperature = 0;
    }
    std::mt19937_64 random(1);
    for (int64_t length : {1, 2, 63, 64, 65, 127, 130, 191, 200, 257, 400}) {
      Member& member = members.emplace_back();
      for (int64_t i = 0; i < length; ++i) member.prompt.push_back(random() % 1024);
      const size_t kind = members.size() % 4;
      member.sampling.temperature = 0.7 + 0.1 * static_cast<double>(kind);
      if (kind == 1) member.sampling.top_p = 0.9;
      if (kind == 2) member.sampling.top_k = 20;
      if (kind == 3) member.sampling.frequency_penalty = 0.5;
      if (kind == 0) member.sampling.bad_words = {{5}, {6, 7}};
      member.constrained = members.size() % 3 == 0;
    }
    for (size_t i = 0; i < members.size(); ++i) members[i].sampling.seed = 100 + i;
    for (Member& member : members) member.alone = RunTogether({&member}, {})[0];
    return members;
  }();
  return crowd;
}

void ExpectSameAsAlone(const Setting& setting, int64_t* preemptions = nullptr) {
  std::vector<const Member*> members;
  for (const Member& member : Crowd()) members.push_back(&member);
  const auto answers = RunTogether(members, setting, preemptions);
  for (size_t i = 0; i < members.size(); ++i) {
    EXPECT_EQ(answers[i], members[i]->alone) << "request " << i;
  }
}

TEST(ToyAEngine, AloneGivesTheRecordedGreedyTokens) {
  const Golden golden(kFolder + "/golden.safetensors");
  for (int prompt = 0; prompt < 5; ++prompt) {
    EXPECT_EQ(Crowd()[prompt].alone, golden.Integers(StrCat("p", prompt, ".greedy_f32")));
  }
  // The others do sample: another seed gives another answer.
  Member other = Crowd().back();
  other.sampling.seed = 7;
  EXPECT_NE(RunTogether({&other}, {})[0], other.alone);
}

TEST(ToyAEngine, ConstrainedAnswersStayWithinTheConstraint) {
  int64_t constrained = 0;
  for (const Member& member : Crowd()) {
    if (!member.constrained) continue;
    ++constrained;
    ASSERT_EQ(std::ssize(member.alone), kAnswer);
    for (int64_t i = 0; i < kAnswer; ++i) {
      const std::span<const int32_t> output(member.alone.data(), i);
      EXPECT_TRUE(ThirdsConstraint::IsAllowed(output, member.alone[i]));
    }
  }
  EXPECT_GE(constrained, 3);
}

TEST(ToyAEngine, SameInABatchOf16) {
  ExpectSameAsAlone({});
}

TEST(ToyAEngine, SameInChunks) {
  for (int64_t chunk : {1, 7, 64}) {
    SCOPED_TRACE(testing::Message() << "chunk " << chunk);
    ExpectSameAsAlone(
        {.limits = {.max_running = 16, .max_step_tokens = 256, .prefill_chunk = chunk}});
  }
}

TEST(ToyAEngine, SameWithPagesNearlyExhausted) {
  int64_t preemptions = 0;
  // The longest needs 7 pages of the full group alone.
  ExpectSameAsAlone({.pages = {8, 12}}, &preemptions);
  EXPECT_GT(preemptions, 0);
}

// The reference op set draws the same tokens too, with all of it at once.
TEST(ToyAEngine, SameOnTheReferenceOps) {
  int64_t preemptions = 0;
  ExpectSameAsAlone({.limits = {.max_running = 16, .max_step_tokens = 256, .prefill_chunk = 7},
                     .pages = {8, 12},
                     .draft = Quality::kHalf,
                     .ops = Ops::kCpu},
                    &preemptions);
  EXPECT_GT(preemptions, 0);
}

TEST(ToyAEngine, SameWithDrafts) {
  for (Quality quality : {Quality::kRight, Quality::kWrong, Quality::kHalf}) {
    ExpectSameAsAlone({.draft = quality});
  }
}

// Random subsets under random settings. To repeat one run, start with its seed.
TEST(ToyAEngine, SameInRandomRuns) {
  int64_t preemptions = 0;
  for (uint64_t seed = 1; seed <= 12; ++seed) {
    std::mt19937_64 random(seed);
    Setting setting;
    setting.limits.max_step_tokens = 1 + random() % 300;
    setting.limits.prefill_chunk = 1 + random() % setting.limits.max_step_tokens;
    setting.limits.max_running =
        1 + random() % std::min<int64_t>(setting.limits.max_step_tokens, 16);
    setting.pages = {8 + static_cast<int64_t>(random() % 16),
                     3 + static_cast<int64_t>(random() % 16)};
    setting.draft = random() % 2 == 0 ? Quality::kRandom : Quality::kNone;
    std::vector<const Member*> members;
    for (const Member& member : Crowd()) {
      if (random() % 2 == 0) members.push_back(&member);
    }
    std::shuffle(members.begin(), members.end(), random);
    const auto answers = RunTogether(members, setting, &preemptions);
    for (size_t i = 0; i < members.size(); ++i) {
      ASSERT_EQ(answers[i], members[i]->alone) << "seed " << seed << " request " << i;
    }
  }
  std::printf("%lld preemptions\n", static_cast<long long>(preemptions));
}

// Preempted sequences go to the host tier and come back: page by page the same K and V.
TEST(ToyAEngine, SameWhenSwapped) {
  for (const Ops ops : {Ops::kCpuFast, Ops::kCpu}) {
    const auto executor =
        ModelExecutor::Create(*Toy(ops).model, *Toy(ops).ops, {8, 12}, {200, 200}).value();
    const auto decoder = CreatePlainDecoder();
    StepLoop loop({.max_running = 16, .max_step_tokens = 100, .prefill_chunk = 50}, *executor,
                  *decoder, {.prefix_cache = true});
    std::vector<EventLog> logs(Crowd().size());
    for (size_t i = 0; i < logs.size(); ++i) {
      loop.Add(i + 1, *Crowd()[i].sampling.seed,
               RequestOf(Crowd()[i], executor->info().vocab, logs[i]));
    }
    while (!loop.idle()) loop.Step();
    for (size_t i = 0; i < logs.size(); ++i) EXPECT_EQ(logs[i].ids(), Crowd()[i].alone) << i;
    EXPECT_GT(loop.stats().preemptions, 0);
    EXPECT_GT(loop.stats().pages_swapped_in, 0);
  }
}

// With its thread, the way a server uses it.
TEST(ToyAEngine, SameThroughTheThreadedEngine) {
  auto engine = CreateEngine({.max_step_tokens = 100}, ToyExecutor({40, 40}), CreatePlainDecoder());
  std::vector<EventLog> logs(Crowd().size());
  for (size_t i = 0; i < logs.size(); ++i) {
    ASSERT_TRUE(engine->Submit(RequestOf(Crowd()[i], engine->vocab(), logs[i])).ok());
  }
  for (size_t i = 0; i < logs.size(); ++i) {
    EXPECT_EQ(logs[i].WaitForEnd().finish, FinishReason::kLength);
    EXPECT_EQ(logs[i].ids(), Crowd()[i].alone);
  }
}

// Fails once the output has three tokens.
class ShortLivedConstraint : public TokenConstraint {
 public:
  Result<std::span<const uint32_t>> Allowed(std::span<const int32_t> output) override {
    if (output.size() >= 3) return Status(StatusCode::kInternal, "the grammar is too wide");
    return std::span<const uint32_t>();
  }
};

TEST(ToyAEngine, AFailedConstraintEndsItsRequestAlone) {
  for (Quality quality : {Quality::kNone, Quality::kRight}) {
    std::unique_ptr<ModelExecutor> executor = ToyExecutor({40, 40});
    ScriptedDecoder decoder(quality, 6, executor->info().vocab);
    StepLoop loop({.max_running = 4, .max_step_tokens = 512, .prefill_chunk = 512}, *executor,
                  decoder);
    EventLog fails, stays;
    for (EventLog* log : {&fails, &stays}) {
      const RequestId id = log == &fails ? 1 : 2;
      decoder.Tell(id, Crowd()[0].prompt, Crowd()[0].alone);
      Request request;
      request.prompt = Crowd()[0].prompt;
      request.max_tokens = kAnswer;
      request.sampling.temperature = 0;
      if (log == &fails) request.constraint = std::make_shared<ShortLivedConstraint>();
      request.on_event = log->Listener();
      loop.Add(id, 0, std::move(request));
    }
    while (!loop.idle()) loop.Step();
    EXPECT_EQ(fails.last().finish, FinishReason::kError);
    EXPECT_EQ(fails.last().error, "the grammar is too wide");
    const std::vector<int32_t>& right = Crowd()[0].alone;
    EXPECT_EQ(fails.ids(), std::vector<int32_t>(right.begin(), right.begin() + 3));
    EXPECT_EQ(stays.ids(), right);
    EXPECT_EQ(loop.stats().pages_used, 0);
  }
}

// Log-softmax in double of the rows of a prompt computed at once, by the op set itself.
std::vector<std::vector<double>> ReferenceLogprobs(const std::vector<int32_t>& prompt) {
  const LoadedModel& toy = Toy(Ops::kCpu);
  const int64_t vocab = toy.model->info().vocab;
  auto runner = StepRunner::Create(*toy.model, *toy.ops, 1, std::ssize(prompt)).value();
  std::vector<int32_t> rows(prompt.size());
  std::iota(rows.begin(), rows.end(), 0);
  const SequenceTokens part = {.sequence = 0, .tokens = prompt};
  const Tensor logits = runner->Run({&part, 1}, rows);
  std::vector<std::vector<double>> logprobs;
  for (size_t row = 0; row < prompt.size(); ++row) {
    const float* first = logits.data<float>() + static_cast<int64_t>(row) * vocab;
    double sum = 0;
    for (int64_t id = 0; id < vocab; ++id) sum += std::exp(static_cast<double>(first[id]));
    std::vector<double>& own = logprobs.emplace_back(first, first + vocab);
    for (double& value : own) value -= std::log(sum);
  }
  return logprobs;
}

// Prompts whole, in chunks, with preemption: every position once, in order, with the right numbers.
TEST(ToyAEngine, PromptLogprobsAreThoseOfTheModel) {
  int64_t preemptions = 0;
  for (int64_t chunk : {512, 64, 7, 1}) {
    PoisoningExecutor executor(ToyExecutor({8, 12}, Ops::kCpu));
    const std::unique_ptr<Decoder> decoder = CreatePlainDecoder();
    StepLoop loop({.max_running = 16, .max_step_tokens = 512, .prefill_chunk = chunk}, executor,
                  *decoder);
    constexpr int64_t kFirst = 5, kLast = 14;  // of the crowd: lengths 1, 2, 63 .. 257
    std::map<int64_t, std::vector<SampledToken>> got;
    std::map<int64_t, EventLog> logs;
    for (int64_t i = kFirst; i < kLast; ++i) {
      Request request;
      request.prompt = Crowd()[i].prompt;
      request.max_tokens = 20;
      request.sampling = Crowd()[i].sampling;
      request.prompt_logprobs = 3;
      auto listener = logs[i].Listener();
      request.on_event = [&got, &logs, i, listener](const TokenEvent& event) {
        if (!event.prompt.empty()) {
          EXPECT_TRUE(logs[i].ids().empty()) << "behind the first token";
        }
        got[i].insert(got[i].end(), event.prompt.begin(), event.prompt.end());
        listener(event);
      };
      loop.Add(i, 1, std::move(request));
    }
    while (!loop.idle()) loop.Step();
    preemptions += loop.stats().preemptions;
    for (int64_t i = kFirst; i < kLast; ++i) {
      const std::vector<int32_t>& prompt = Crowd()[i].prompt;
      const auto right = ReferenceLogprobs(prompt);
      ASSERT_EQ(got[i].size(), prompt.size() - 1);
      for (size_t p = 1; p < prompt.size(); ++p) {
        const SampledToken& token = got[i][p - 1];
        ASSERT_EQ(token.id, prompt[p]);
        ASSERT_NEAR(token.logprob, right[p - 1][token.id], 1e-4);
        ASSERT_EQ(token.top.size(), 3u);
        const double largest = *std::ranges::max_element(right[p - 1]);
        ASSERT_NEAR(token.top[0].logprob, largest, 1e-4);
      }
    }
  }
  EXPECT_GT(preemptions, 0);
}

// One request's keys and values become NaN, and so all its logits: the others go on, and so does
// whoever gets its pages next.
TEST(ToyAEngine, ARowOfNanEndsItsRequestAlone) {
  std::unique_ptr<ModelExecutor> executor = ToyExecutor({40, 40});
  const std::unique_ptr<Decoder> decoder = CreatePlainDecoder();
  StepLoop loop({.max_running = 4, .max_step_tokens = 512, .prefill_chunk = 512}, *executor,
                *decoder);
  EventLog fails, stays, later;
  const auto add = [&](RequestId id, EventLog& log) {
    Request request;
    request.prompt = Crowd()[0].prompt;
    request.max_tokens = kAnswer;
    request.sampling.temperature = 0;
    request.on_event = log.Listener();
    loop.Add(id, 0, std::move(request));
  };
  add(1, fails);
  add(2, stays);
  for (int i = 0; i < 5; ++i) loop.Step();
  // The oldest has the first pages.
  for (int group : {0, 1}) Poison(executor->kv(), group, 0);
  loop.Step();
  EXPECT_EQ(fails.last().finish, FinishReason::kError);
  EXPECT_NE(fails.last().error.find("request 1"), std::string::npos) << fails.last().error;
  EXPECT_EQ(fails.ids().size(), 5u);
  add(3, later);
  while (!loop.idle()) loop.Step();
  EXPECT_EQ(stays.ids(), Crowd()[0].alone);
  EXPECT_EQ(later.ids(), Crowd()[0].alone);
}

// Freed and unused pages are NaN (see PoisoningExecutor): window layers must not read them, at the
// lengths where a page has just left the window, and at a long one.
TEST(Case068, PagesOutsideTheWindowMayBeNan) {
  std::mt19937_64 random(68);
  for (int64_t length : {129, 200, 4097}) {
    Member member;
    for (int64_t i = 0; i < length; ++i) member.prompt.push_back(random() % 1024);
    member.sampling.temperature = 0;
    member.sampling.seed = 0;
    Setting whole, sliding;
    whole.limits = {.max_running = 1, .max_step_tokens = 8192, .prefill_chunk = 8192};
    sliding.limits = {.max_running = 1, .max_step_tokens = 64, .prefill_chunk = 64};
    sliding.pages = {100, 4};
    const auto answer = RunTogether({&member}, whole)[0];
    EXPECT_EQ(RunTogether({&member}, sliding)[0], answer) << length;
    EXPECT_EQ(answer.size(), static_cast<size_t>(kAnswer));
  }
}

TEST(PlanKvPages, DividesMemoryAndRefusesTooLittle) {
  const int64_t page_bytes = 2 * 64 * 2 * 64 * 4 * 2;  // 2 layers a group, 2 KV heads of 64, f32
  const EngineConfig config = {.max_context = 4096, .max_running = 2};
  const auto pages = PlanKvPages(*Toy().model, *Toy().ops, config, 20 * page_bytes).value();
  EXPECT_EQ(pages, (std::vector<int64_t>{10, 10}));
  const Status status = PlanKvPages(*Toy().model, *Toy().ops, config, page_bytes).status();
  EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
  EXPECT_NE(status.message().find(StrCat(2 * 2 * page_bytes)), std::string::npos);
}

}  // namespace
}  // namespace rose

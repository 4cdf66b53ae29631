// The executor of devices that draw tokens, on an op set that does so in host memory: as late as
// its contract allows, so that nothing can rest on draws that a device would not have yet.
#include "engine/device_executor.h"

#include <gtest/gtest.h>

#include <random>

#include "engine/draw_reference.h"
#include "engine/model_executor.h"
#include "engine/step_loop.h"
#include "models/load.h"
#include "ops/cpu_fast/cpu_fast_ops.h"

namespace rose {
namespace {

class LateDrawingOps : public CpuFastOps, public DrawQueue {
 public:
  LateDrawingOps() : CpuFastOps({.threads = 1}) {}

  DrawQueue* draws() override { return this; }

  void BeginStep(const Step& step) override {
    CpuFastOps::BeginStep(step);
    tokens_.assign(step.tokens.begin(), step.tokens.end());
    for (const FedRow& fed : step.fed) {
      ASSERT_EQ(tokens_[fed.row], 0) << "a token that is not known";
      tokens_[fed.row] = std::max(0, Run(queue_.back())[fed.draw]);
      ++fed_rows;
    }
  }
  Tensor Embed(const Step& step, const Weight& table) override {
    Step own = step;
    own.tokens = tokens_;
    return CpuFastOps::Embed(own, table);
  }

  void Draw(const Tensor& logits, std::span<const DrawSpec> draws) override {
    Pending& pending = queue_.emplace_back();
    for (const DrawSpec& draw : draws) {
      Kept& kept = pending.draws.emplace_back();
      const float* row = logits.data<float>() + draw.row * logits.dim(1);
      kept.logits.assign(row, row + logits.dim(1));
      kept.edits.assign(draw.edits.begin(), draw.edits.end());
      kept.mask.assign(draw.mask.begin(), draw.mask.end());
      kept.rule = draw.rule;
    }
    EXPECT_LE(queue_.size(), 2u);
  }
  std::span<const int32_t> Wait() override {
    drawn_ = Run(queue_.front());
    queue_.pop_front();
    return drawn_;
  }

  int64_t fed_rows = 0;

 private:
  struct Kept {
    std::vector<float> logits;
    DrawRule rule;
    std::vector<LogitEdit> edits;
    std::vector<uint32_t> mask;
  };
  struct Pending {
    std::vector<Kept> draws;
  };

  static std::vector<int32_t> Run(const Pending& pending) {
    std::vector<int32_t> tokens;
    for (const Kept& kept : pending.draws) {
      tokens.push_back(DrawByReference(
          kept.logits, {.rule = kept.rule, .edits = kept.edits, .mask = kept.mask}));
    }
    return tokens;
  }

  std::vector<int32_t> tokens_, drawn_;
  std::deque<Pending> queue_;
};

// Allows about half of the tokens, others after every output; sometimes very few.
class HalfConstraint : public TokenConstraint {
 public:
  explicit HalfConstraint(int64_t vocab) : mask_((vocab + 31) / 32) {}
  Result<std::span<const uint32_t>> Allowed(std::span<const int32_t> output) override {
    std::mt19937_64 random(output.size() * 31 + (output.empty() ? 0 : output.back()));
    const bool few = random() % 4 == 0;
    for (uint32_t& word : mask_) word = few ? random() & random() & random() : random();
    mask_[0] |= 2;
    if (output.size() == 17) return InvalidArgument("no further");
    return std::span<const uint32_t>(mask_);
  }

 private:
  std::vector<uint32_t> mask_;
};

struct Asked {
  std::vector<int32_t> prompt;
  SamplingParams sampling;
  int64_t max_tokens = 0;
  bool is_constrained = false;
};

struct Answer {
  std::vector<int32_t> ids;
  std::vector<float> logprobs;
  std::string error;
};

class DeviceExecutor : public testing::Test {
 protected:
  static constexpr int64_t kPages = 24;

  DeviceExecutor() {
    std::mt19937_64 random(3);
    for (int i = 0; i < 24; ++i) {
      Asked& asked = asked_.emplace_back();
      for (uint64_t n = 1 + random() % 80; n > 0; --n) {
        asked.prompt.push_back(static_cast<int32_t>(random() % 1024));
      }
      asked.max_tokens = 1 + random() % 24;
      SamplingParams& p = asked.sampling;
      p.temperature = random() % 2;
      p.seed = random();
      if (random() % 4 == 0) p.logprobs = 0;
      if (random() % 4 == 0) p.top_p = 0.8;
      if (random() % 4 == 0) p.frequency_penalty = 0.5;
      if (random() % 4 == 0) p.logit_bias = {{5, 3.0f}, {6, -3.0f}};
      asked.is_constrained = random() % 4 == 0;
    }
  }

  void Add(StepLoop& loop, RequestId id, const Asked& asked, Answer& answer) {
    Request request;
    request.prompt = asked.prompt;
    request.max_tokens = asked.max_tokens;
    request.sampling = asked.sampling;
    if (asked.is_constrained) request.constraint = std::make_shared<HalfConstraint>(1024);
    request.on_event = [&answer](const TokenEvent& event) {
      for (const SampledToken& token : event.tokens) {
        answer.ids.push_back(token.id);
        answer.logprobs.push_back(token.logprob);
      }
      answer.error = event.error;
    };
    loop.Add(id, *asked.sampling.seed, std::move(request));
  }

  std::vector<Asked> asked_;
  const std::unique_ptr<Decoder> decoder_ = CreatePlainDecoder();
};

TEST_F(DeviceExecutor, AnswersAsTheHostDoes) {
  const std::string folder = ROSE_SOURCE_DIR "/tests/data/toy-a";
  const LoadedModel host =
      LoadModel(folder, std::make_unique<CpuFastOps>(CpuFastConfig{.threads = 1}), 1, {}).value();
  auto ops = std::make_unique<LateDrawingOps>();
  LateDrawingOps& late = *ops;
  const LoadedModel device = LoadModel(folder, std::move(ops), 1, {}).value();

  std::vector<Answer> alone(asked_.size());
  for (size_t i = 0; i < asked_.size(); ++i) {
    const auto executor = ModelExecutor::Create(*host.model, *host.ops, {kPages, kPages}).value();
    StepLoop loop({.max_running = 1, .max_step_tokens = 256, .prefill_chunk = 256}, *executor,
                  *decoder_);
    Add(loop, 1, asked_[i], alone[i]);
    while (!loop.idle()) loop.Step();
  }
  for (uint64_t seed = 1; seed <= 40; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    std::mt19937_64 random(seed);
    const auto executor = CreateExecutor(*device.model, *device.ops, {kPages, kPages}).value();
    SchedulerLimits limits;
    limits.max_step_tokens = 8 + random() % 100;
    limits.prefill_chunk = limits.max_step_tokens;
    limits.max_running = 1 + random() % 6;
    StepLoop loop(limits, *executor, *decoder_, {.pipeline = random() % 4 != 0});
    std::vector<size_t> chosen(2 + random() % 6);
    for (size_t& one : chosen) one = random() % asked_.size();
    std::vector<Answer> answers(chosen.size());
    size_t added = 0;
    while (added < chosen.size() || !loop.idle()) {
      if (added < chosen.size() && (loop.idle() || random() % 3 == 0)) {
        Add(loop, added + 1, asked_[chosen[added]], answers[added]);
        ++added;
      }
      loop.Step();
    }
    for (size_t i = 0; i < chosen.size(); ++i) {
      EXPECT_EQ(answers[i].ids, alone[chosen[i]].ids) << "request " << chosen[i];
      EXPECT_EQ(answers[i].logprobs, alone[chosen[i]].logprobs) << "request " << chosen[i];
      EXPECT_EQ(answers[i].error, alone[chosen[i]].error) << "request " << chosen[i];
    }
    if (HasFailure()) return;
  }
  EXPECT_GT(late.fed_rows, 500) << "tokens that were fed on the device";
}

}  // namespace
}  // namespace rose

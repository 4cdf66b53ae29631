// rose bench engine: what the engine itself costs in a step: planning, paging, settling, with an
// executor that computes nothing.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "base/check.h"
#include "bench/allocation_count.h"
#include "bench/bench.h"
#include "commands.h"
#include "engine/step_loop.h"

namespace rose {
namespace {

using Clock = std::chrono::steady_clock;

double Microseconds(Clock::duration time) {
  return std::chrono::duration<double, std::micro>(time).count();
}

struct EngineOptions {
  std::vector<std::string> cases;  // empty = all
  int64_t steps = 2000;
};

// What is measured: a load that stays the same for as long as one likes.
struct EngineCase {
  const char* name;
  double limit_us;      // that a step may take outside the executor
  int64_t max_running;  // sequences
  int64_t waiting;      // kept waiting behind those that run
  int64_t pages;        // of each group
  int64_t prompt_least, prompt_most;
  int64_t output_least, output_most;
  double long_share = 0;    // prompts of 32k tokens
  double prefix_share = 0;  // prompts that begin with one of 16 prefixes of 2,000 tokens
};

// 256 run in all of them. `memory` has places for more, but pages for about so many: every step
// asks again whether the next fits.
constexpr EngineCase kCases[] = {
    {.name = "decode",
     .limit_us = 100,
     .max_running = 256,
     .waiting = 0,
     .pages = 1 << 16,
     .prompt_least = 64,
     .prompt_most = 2048,
     .output_least = 1 << 20,
     .output_most = 1 << 20},
    {.name = "mixed",
     .limit_us = 100,
     .max_running = 256,
     .waiting = 4,
     .pages = 1 << 16,
     .prompt_least = 200,
     .prompt_most = 3000,
     .output_least = 64,
     .output_most = 448,
     .prefix_share = 0.5},
    {.name = "waiting",
     .limit_us = 200,
     .max_running = 256,
     .waiting = 1000,
     .pages = 1 << 16,
     .prompt_least = 200,
     .prompt_most = 3000,
     .output_least = 64,
     .output_most = 448,
     .long_share = 0.02,
     .prefix_share = 0.7},
    {.name = "memory",
     .limit_us = 200,
     .max_running = 400,
     .waiting = 1000,
     .pages = 3800,
     .prompt_least = 200,
     .prompt_most = 3000,
     .output_least = 64,
     .output_most = 448,
     .prefix_share = 0.7},
};

// Draws made-up tokens at once. Knows how much time and memory passed outside of it.
class FreeExecutor : public Executor {
 public:
  explicit FreeExecutor(int64_t pages) {
    info_.vocab = 201088;
    info_.max_positions = 1 << 21;
    // As gpt-oss has them.
    info_.kv.groups = {{.window = 128, .layers = {0}}, {.window = 0, .layers = {1}}};
    info_.kv.kv_heads = info_.kv.head_dim = 1;
    info_.pages = {pages, pages};
  }

  const ExecutorInfo& info() const override { return info_; }

  void Submit(const StepPlan& plan) override {
    const Clock::time_point begin = Clock::now();
    submitted_at_ = begin;
    ROSE_CHECK_LT(submitted_ - waited_, 2);
    plans_[submitted_++ % 2] = &plan;
    rows_ = 0;
    for (const SeqPlan& seq : plan.seqs) rows_ += std::ssize(seq.tokens);
    inside_ += Clock::now() - begin;
  }

  StepResult Wait() override {
    const Clock::time_point begin = Clock::now();
    const int64_t allocations = AllocationsOfThread();
    ROSE_CHECK_GT(submitted_, waited_);
    const StepPlan& plan = *plans_[waited_++ % 2];
    StepResult result;
    result.seqs.resize(plan.seqs.size());
    for (size_t i = 0; i < plan.seqs.size(); ++i) {
      if (plan.seqs[i].samples == 0) continue;
      draw_ = draw_ * 6364136223846793005u + 1442695040888963407u;
      result.seqs[i].sampled.resize(1);
      result.seqs[i].sampled[0].id = static_cast<int32_t>((draw_ >> 33) % 200'000);
    }
    allocated_ += AllocationsOfThread() - allocations;
    inside_ += Clock::now() - begin;
    return result;
  }

  Clock::time_point submitted_at() const { return submitted_at_; }  // the last step's Submit
  int64_t rows() const { return rows_; }                            // of the step submitted last
  Clock::duration inside() const { return inside_; }                // time spent in here so far
  int64_t allocated() const { return allocated_; }

 private:
  ExecutorInfo info_;
  const StepPlan* plans_[2] = {};
  int64_t submitted_ = 0, waited_ = 0;
  int64_t rows_ = 0;
  uint64_t draw_ = 1;
  Clock::time_point submitted_at_;
  Clock::duration inside_{};
  int64_t allocated_ = 0;
};

struct Percentiles {
  double p10 = 0, p50 = 0, p90 = 0, p99 = 0;
};

Percentiles PercentilesOf(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  const auto at = [&](double share) {
    return values[static_cast<size_t>(share * static_cast<double>(values.size() - 1))];
  };
  return {at(0.1), at(0.5), at(0.9), at(0.99)};
}

// A loop under the load of a case.
class EngineLoad {
 public:
  explicit EngineLoad(const EngineCase& load)
      : load_(load),
        executor_(load.pages),
        decoder_(CreatePlainDecoder()),
        loop_({.max_running = load.max_running,
               .max_step_tokens = kStepTokens,
               .prefill_chunk = kStepTokens},
              executor_, *decoder_, {.prefix_cache = true, .pipeline = true}) {
    prefixes_.resize(16);
    for (auto& prefix : prefixes_) {
      for (int64_t i = 0; i < 2000; ++i) prefix.push_back(Token());
    }
  }

  void Measure(int64_t steps) {
    // A thousand, so that those that began together no longer end together.
    for (int64_t i = 0; i < 1000; ++i) {
      Fill();
      loop_.Step();
    }
    std::vector<double> all, plan;
    int64_t running = 0, waiting = 0, rows = 0, allocations = 0, steps_with = 0;
    const int64_t preemptions = loop_.stats().preemptions;
    Clock::duration adding{};
    const int64_t added = next_id_;
    for (int64_t i = 0; i < steps; ++i) {
      const Clock::time_point before = Clock::now();
      Fill();
      const EngineStats stats = loop_.stats();
      running += stats.running;
      waiting += stats.waiting;
      const Clock::duration inside = executor_.inside();
      const int64_t outside = AllocationsOfThread() - executor_.allocated();
      const Clock::time_point begin = Clock::now();
      adding += begin - before;
      loop_.Step();
      const Clock::time_point end = Clock::now();
      all.push_back(Microseconds(end - begin - (executor_.inside() - inside)));
      plan.push_back(Microseconds(executor_.submitted_at() - begin));
      const int64_t now = AllocationsOfThread() - executor_.allocated() - outside;
      allocations += now;
      if (now > 0) ++steps_with;
      rows += executor_.rows();
    }
    const double n = static_cast<double>(steps);
    const Percentiles step = PercentilesOf(std::move(all)), plans = PercentilesOf(std::move(plan));
    std::printf(
        "{\"bench\": \"engine\", \"case\": \"%s\", \"steps\": %lld, \"running\": %.1f, "
        "\"waiting\": %.1f, \"rows\": %.1f, \"admitted\": %.2f, \"preempted\": %.3f, "
        "\"us_p10\": %.1f, \"us_p50\": %.1f, \"us_p90\": %.1f, \"us_p99\": %.1f, "
        "\"plan_us_p50\": %.1f, \"plan_us_p99\": %.1f, \"limit_us\": %.0f, \"of_limit_p50\": %.2f, "
        "\"of_limit_p99\": %.2f, \"allocations\": %.2f, \"steps_that_allocate\": %.3f, "
        "\"add_us\": %.2f}\n",
        load_.name, static_cast<long long>(steps), static_cast<double>(running) / n,
        static_cast<double>(waiting) / n, static_cast<double>(rows) / n,
        static_cast<double>(next_id_ - added) / n,
        static_cast<double>(loop_.stats().preemptions - preemptions) / n, step.p10, step.p50,
        step.p90, step.p99, plans.p50, plans.p99, load_.limit_us, step.p50 / load_.limit_us,
        step.p99 / load_.limit_us, static_cast<double>(allocations) / n,
        static_cast<double>(steps_with) / n,
        Microseconds(adding) / static_cast<double>(std::max<int64_t>(1, next_id_ - added)));
    std::fflush(stdout);
    loop_.FinishAll(FinishReason::kCancelled, "");
  }

 private:
  static constexpr int64_t kStepTokens = 2048;
  static constexpr int64_t kLongPrompt = 32'768;

  // So many wait as the case wants, and at first a place for each that is to run.
  void Fill() {
    EngineStats stats = loop_.stats();
    const int64_t wanted = load_.waiting + (next_id_ > 256 ? 0 : 256);
    for (int64_t open = load_.waiting > 0 ? stats.waiting : stats.running + stats.waiting;
         open < wanted; ++open) {
      Add();
    }
  }

  void Add() {
    Request request;
    const double kind = Share();
    int64_t length = Between(load_.prompt_least, load_.prompt_most);
    if (kind < load_.long_share) length = kLongPrompt;
    if (Share() < load_.prefix_share) request.prompt = prefixes_[random_() % prefixes_.size()];
    request.prompt.reserve(static_cast<size_t>(std::max<int64_t>(length, 2001)));
    do {
      request.prompt.push_back(Token());
    } while (std::ssize(request.prompt) < length);
    request.max_tokens = Between(load_.output_least, load_.output_most);
    request.on_event = [this](const TokenEvent& event) { tokens_ += std::ssize(event.tokens); };
    const RequestId id = next_id_++;
    loop_.Add(id, /*seed=*/id, std::move(request));
  }

  int64_t Between(int64_t least, int64_t most) {
    return least + static_cast<int64_t>(random_() % static_cast<uint64_t>(most - least + 1));
  }
  double Share() { return static_cast<double>(random_() >> 11) * 0x1p-53; }
  int32_t Token() { return static_cast<int32_t>(random_() % 200'000); }

  const EngineCase& load_;
  FreeExecutor executor_;
  std::unique_ptr<Decoder> decoder_;
  StepLoop loop_;
  std::mt19937_64 random_{1};
  std::vector<std::vector<int32_t>> prefixes_;
  int64_t next_id_ = 1;
  int64_t tokens_ = 0;
};

}  // namespace

void AddBenchEngine(CLI::App& bench, int& exit_code) {
  (void)exit_code;                                   // nothing can fail
  auto options = std::make_shared<EngineOptions>();  // shared with the callback
  CLI::App* command = bench.add_subcommand(
      "engine", "Time and allocations of a step outside the executor; no model");
  std::vector<std::string> names;
  for (const EngineCase& load : kCases) names.emplace_back(load.name);
  command->add_option("--case", options->cases, "Which loads [all]")
      ->delimiter(',')
      ->check(CLI::IsMember(names));
  command->add_option("--steps", options->steps, "Steps measured of each")
      ->check(CLI::Range(1, 10'000'000))
      ->capture_default_str();
  command->footer(
      "256 sequences run in each case:\n"
      "  decode   all decode; nothing comes, nothing ends\n"
      "  mixed    one ends a step, the next prompt takes its place, half with a cached beginning\n"
      "  waiting  the same, and 1,000 wait, with prompts of up to 32k tokens\n"
      "  memory   the same, but pages, not places, are what the 1,000 wait for\n"
      "\n"
      "us is a whole step without the time in the executor, plan_us what of it passes before the\n"
      "step is submitted; add_us takes a new request in. A limit is kept if of_limit is below 1.\n"
      "\n"
      "Example:\n  rose bench engine --case decode,waiting --steps 5000");
  command->callback([options] {
    for (const EngineCase& load : kCases) {
      const auto& wanted = options->cases;
      if (!wanted.empty() && std::ranges::find(wanted, load.name) == wanted.end()) continue;
      EngineLoad(load).Measure(options->steps);
    }
  });
}

}  // namespace rose

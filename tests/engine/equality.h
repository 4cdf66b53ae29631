// Random runs of an engine, in which every request must give what it gives alone: the same tokens,
// and the same logprobs bit for bit, among random others, in random chunks, from the prefix cache
// at every length of a hit, preempted, swapped and pipelined.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "engine/model_executor.h"
#include "engine/pipelined_executor.h"
#include "engine/step_loop.h"
#include "models/load.h"

namespace rose {

// A request and what it answers alone.
struct Asked {
  std::vector<int32_t> prompt;
  SamplingParams sampling;
  int64_t max_tokens = 0;
  std::vector<SampledToken> alone;
};

struct Answer {
  std::vector<SampledToken> tokens;
  int64_t cached = 0;
};

inline bool operator==(const SampledToken& a, const SampledToken& b) {
  return a.id == b.id && a.logprob == b.logprob;
}

// What happened, summed over runs: a test that meets none of it tests nothing.
struct Seen {
  int64_t preemptions = 0, swapped_in = 0, pipelined = 0;
  std::map<int64_t, int64_t> hits;  // by their length

  void Add(const EngineStats& stats) {
    preemptions += stats.preemptions;
    swapped_in += stats.pages_swapped_in;
  }
};

class EqualityRuns {
 public:
  // A checkpoint of the source tree, on the given op set.
  EqualityRuns(const std::string& folder, std::unique_ptr<OpSet> ops)
      : model_(LoadModel(ROSE_SOURCE_DIR "/" + folder, std::move(ops), /*threads=*/1, {}).value()) {
    std::mt19937_64 random(2);
    for (int base = 0; base < 3; ++base) AddConversations(random);
    for (int i = 0; i < 6; ++i) AddAsked(random, Tokens(random, 1 + random() % 90));
    for (size_t i = 0; i < asked_.size(); ++i) asked_[i].alone = Alone(i);
  }

  // One run of each seed; stops at the first that differs.
  Seen Run(uint64_t first_seed, uint64_t runs) {
    Seen seen;
    for (uint64_t seed = first_seed; seed < first_seed + runs; ++seed) {
      SCOPED_TRACE(testing::Message() << "seed " << seed);
      std::mt19937_64 random(seed);
      RunRandomly(random, seen);
      if (testing::Test::HasFatalFailure()) break;
    }
    return seen;
  }

 private:
  // A prompt, and others that begin like it: with so many tokens of it, or all.
  void AddConversations(std::mt19937_64& random) {
    const std::vector<int32_t> base = Tokens(random, 192 + random() % 40);
    AddAsked(random, base);
    for (int64_t shared : {int64_t{1}, int64_t{63}, int64_t{64}, int64_t{65}, int64_t{127},
                           int64_t{128}, int64_t{129}, std::ssize(base)}) {
      std::vector<int32_t> prompt(base.begin(), base.begin() + shared);
      const std::vector<int32_t> tail = Tokens(random, random() % 30 + (shared == 1 ? 1 : 0));
      prompt.insert(prompt.end(), tail.begin(), tail.end());
      AddAsked(random, std::move(prompt));
    }
  }

  void AddAsked(std::mt19937_64& random, std::vector<int32_t> prompt) {
    Asked asked;
    asked.prompt = std::move(prompt);
    asked.max_tokens = random() % 4 == 0 ? 40 + random() % 30 : 1 + random() % 12;
    asked.sampling.temperature = random() % 2 == 0 ? 0 : 1;
    // Without, a device draws itself.
    asked.sampling.logprobs = random() % 2 == 0 ? 0 : -1;
    asked.sampling.seed = random();
    if (random() % 3 == 0) asked.sampling.top_p = 0.9;
    if (random() % 3 == 0) asked.sampling.min_p = 0.05;
    if (random() % 3 == 0) asked.sampling.repetition_penalty = 1.2;
    if (random() % 3 == 0) asked.sampling.frequency_penalty = 0.5;
    asked_.push_back(std::move(asked));
  }

  std::vector<int32_t> Tokens(std::mt19937_64& random, int64_t count) const {
    std::vector<int32_t> tokens;
    const auto vocab = static_cast<uint64_t>(model_.model->info().vocab);
    for (int64_t i = 0; i < count; ++i) tokens.push_back(static_cast<int32_t>(random() % vocab));
    return tokens;
  }

  // Pages of the device and the host; a family with one group of layers takes the first.
  std::unique_ptr<Executor> NewExecutor(std::vector<int64_t> pages,
                                        std::vector<int64_t> host = {}) {
    const size_t groups = model_.model->info().kv.groups.size();
    pages.resize(groups);
    if (!host.empty()) host.resize(groups);
    return CreateExecutor(*model_.model, *model_.ops, pages, host).value();
  }

  void Add(StepLoop& loop, RequestId id, const Asked& asked, Answer& answer, int64_t priority = 0) {
    Request request;
    request.priority = priority;
    request.prompt = asked.prompt;
    request.max_tokens = asked.max_tokens;
    request.sampling = asked.sampling;
    request.on_event = [&answer](const TokenEvent& event) {
      answer.tokens.insert(answer.tokens.end(), event.tokens.begin(), event.tokens.end());
      answer.cached = event.cached_tokens;
    };
    loop.Add(id, *asked.sampling.seed, std::move(request));
  }

  std::vector<SampledToken> Alone(size_t i) {
    const std::unique_ptr<Executor> executor = NewExecutor({20, 20});
    StepLoop loop({.max_running = 1, .max_step_tokens = 1024, .prefill_chunk = 1024}, *executor,
                  *decoder_);
    Answer answer;
    Add(loop, 1, asked_[i], answer);
    while (!loop.idle()) loop.Step();
    return answer.tokens;
  }

  void RunRandomly(std::mt19937_64& random, Seen& seen) {
    const bool pipeline = random() % 2 == 0;
    const int64_t host = random() % 3 == 0 ? 0 : 4 + random() % 12;
    std::unique_ptr<Executor> executor = NewExecutor(
        {6 + static_cast<int64_t>(random() % 4), 6 + static_cast<int64_t>(random() % 4)},
        host == 0 ? std::vector<int64_t>() : std::vector<int64_t>{host, host});
    if (pipeline && !executor->info().feeds_back) {
      executor = CreatePipelinedExecutor(std::move(executor));
    }
    SchedulerLimits limits;
    limits.max_step_tokens = 8 + random() % 250;
    limits.prefill_chunk = 1 + random() % limits.max_step_tokens;
    limits.max_running = 1 + random() % 6;
    StepLoop loop(limits, *executor, *decoder_,
                  {.prefix_cache = random() % 4 != 0, .pipeline = pipeline});
    std::vector<size_t> chosen(2 + random() % 5);
    std::vector<Answer> answers(chosen.size());
    // Neighbours: conversations that begin alike stand side by side.
    const size_t around = random() % asked_.size();
    for (size_t& one : chosen) one = (around + random() % 4) % asked_.size();
    size_t added = 0;
    while (added < chosen.size() || !loop.idle()) {
      if (added < chosen.size() && (loop.idle() || random() % 4 == 0)) {
        // A better priority sends one back that runs.
        const int64_t priority = random() % 3 == 0 ? -static_cast<int64_t>(added) : 0;
        Add(loop, added + 1, asked_[chosen[added]], answers[added], priority);
        ++added;
      }
      loop.Step();
    }
    for (size_t i = 0; i < chosen.size(); ++i) {
      ASSERT_EQ(answers[i].tokens.size(), asked_[chosen[i]].alone.size());
      for (size_t t = 0; t < answers[i].tokens.size(); ++t) {
        ASSERT_TRUE(answers[i].tokens[t] == asked_[chosen[i]].alone[t])
            << "request " << chosen[i] << ", token " << t;
      }
      ++seen.hits[answers[i].cached];
    }
    seen.Add(loop.stats());
    seen.pipelined += pipeline;
  }

  LoadedModel model_;
  std::vector<Asked> asked_;

  const std::unique_ptr<Decoder> decoder_ = CreatePlainDecoder();
};

}  // namespace rose

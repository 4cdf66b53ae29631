#include "simulator/measure_steps.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <map>
#include <memory>

#include "base/check.h"
#include "engine/engine_limits.h"
#include "engine/step_loop.h"
#include "simulator/trace.h"

namespace rose {
namespace {

using Clock = std::chrono::steady_clock;

constexpr int64_t kOutput = 32;           // tokens that every sequence gets
constexpr int64_t kMostTokens = 8'192;    // of all prompts of a scene; one alone may have more
constexpr double kShapesPerDoubling = 2;  // into which steps are sorted

// Passes steps through and notes their shapes and times.
class RecordingExecutor : public Executor {
 public:
  explicit RecordingExecutor(Executor& executor) : executor_(executor) {}

  const ExecutorInfo& info() const override { return executor_.info(); }

  void Submit(const StepPlan& plan) override {
    if (is_at_rest_) begin_ = Clock::now();
    is_at_rest_ = false;
    shapes_[submitted_++ % shapes_.size()] = ShapeOf(plan);
    executor_.Submit(plan);
  }

  StepResult Wait() override {
    StepResult result = executor_.Wait();
    const Clock::time_point end = Clock::now();
    steps_.push_back({.shape = shapes_[waited_++ % shapes_.size()],
                      .ms = std::chrono::duration<double, std::milli>(end - begin_).count()});
    begin_ = end;
    return result;
  }

  // Nothing runs: the time until the next Submit is no step's.
  void Rest() { is_at_rest_ = true; }

  const std::vector<MeasuredStep>& steps() const { return steps_; }

 private:
  Executor& executor_;
  std::array<StepShape, 2> shapes_;  // of those in flight
  int64_t submitted_ = 0, waited_ = 0;
  bool is_at_rest_ = true;
  Clock::time_point begin_;  // of the oldest in flight
  std::vector<MeasuredStep> steps_;
};

// Steps with the same key are about the same.
using Key = std::array<int64_t, 4>;

Key KeyOf(const StepShape& shape) {
  const auto step = [](double value) {
    return std::llround(kShapesPerDoubling * std::log2(value + 1));
  };
  const auto each = [](int64_t keys, int64_t rows) {
    return static_cast<double>(keys) / static_cast<double>(std::max<int64_t>(1, rows));
  };
  return {step(static_cast<double>(shape.decode_rows)),
          step(static_cast<double>(shape.prompt_rows)),
          step(each(shape.decode_keys, shape.decode_rows)),
          step(each(shape.prompt_keys, shape.prompt_rows))};
}

MeasuredStep Summary(const std::vector<MeasuredStep>& alike) {
  MeasuredStep sum;
  std::vector<double> times;
  for (const MeasuredStep& step : alike) {
    sum.shape.decode_rows += step.shape.decode_rows;
    sum.shape.prompt_rows += step.shape.prompt_rows;
    sum.shape.sampled_rows += step.shape.sampled_rows;
    sum.shape.decode_keys += step.shape.decode_keys;
    sum.shape.prompt_keys += step.shape.prompt_keys;
    times.push_back(step.ms);
  }
  const auto n = static_cast<int64_t>(alike.size());
  for (int64_t* one : {&sum.shape.decode_rows, &sum.shape.prompt_rows, &sum.shape.sampled_rows,
                       &sum.shape.decode_keys, &sum.shape.prompt_keys}) {
    *one = (*one + n / 2) / n;
  }
  std::nth_element(times.begin(), times.begin() + n / 2, times.end());
  sum.ms = times[times.size() / 2];
  return sum;
}

}  // namespace

std::vector<Scene> Scenes(int64_t most_sequences, int64_t longest) {
  std::vector<Scene> scenes;
  for (int64_t sequences = 1; sequences <= most_sequences; sequences *= 2) {
    for (const int64_t prompt : {2, 5, 16, 40, 100, 250, 600, 1500, 4000}) {
      if (prompt > longest || (sequences > 1 && sequences * prompt > kMostTokens)) continue;
      scenes.push_back({.sequences = sequences, .prompt_tokens = prompt});
    }
  }
  return scenes;
}

std::vector<int64_t> PagesForScenes(const KvLayout& kv, const std::vector<Scene>& scenes) {
  int64_t most = 0;
  for (const Scene& scene : scenes) {
    const int64_t each = (scene.prompt_tokens + kOutput) / KvLayout::kPageSize + 1;
    most = std::max(most, scene.sequences * each);
  }
  return std::vector<int64_t>(kv.groups.size(), 2 * most);
}

std::vector<MeasuredStep> MeasureSteps(Executor& executor, const EngineConfig& config,
                                       const std::vector<Scene>& scenes, int64_t repeats,
                                       const std::function<void(int64_t)>& on_progress) {
  RecordingExecutor recorder(executor);
  const std::unique_ptr<Decoder> decoder = CreatePlainDecoder();
  StepLoop loop(SchedulerLimitsOf(config), recorder, *decoder,
                {.pipeline = IsPipelined(config, executor.info())});
  RequestId id = 0;
  int64_t done = 0;
  for (int64_t round = 0; round < repeats; ++round) {
    for (const Scene& scene : scenes) {
      for (int64_t i = 0; i < scene.sequences; ++i) {
        Request request;
        const TraceRequest one{.prompt_tokens = scene.prompt_tokens};
        request.prompt = PromptOf(one, static_cast<int64_t>(++id), executor.info().vocab);
        request.max_tokens = kOutput;
        loop.Add(id, /*seed=*/id, std::move(request));
      }
      recorder.Rest();
      while (!loop.idle()) loop.Step();
      on_progress(++done);
    }
  }
  std::map<Key, std::vector<MeasuredStep>> by_shape;
  for (const MeasuredStep& step : recorder.steps()) by_shape[KeyOf(step.shape)].push_back(step);
  std::vector<MeasuredStep> steps;
  for (const auto& [key, alike] : by_shape) steps.push_back(Summary(alike));
  return steps;
}

}  // namespace rose

// rose bench steps: what steps of many shapes take on this machine, as a table for `rose simulate`.
#include <unistd.h>

#include <cstdio>
#include <memory>

#include "base/progress.h"
#include "bench/bench.h"
#include "commands.h"
#include "engine/model_executor.h"

namespace rose {
namespace {

struct StepsOptions {
  ModelOptions model;
  StepMeasuring measuring;
};

Status RunSteps(const StepsOptions& options) {
  ROSE_ASSIGN_OR_RETURN(const LoadedModel loaded, LoadModelWithBar(options.model));
  ROSE_ASSIGN_OR_RETURN(const StepTable table,
                        MeasureTable(loaded, options.model, options.measuring));
  std::printf("%s\n", StepTableHead(table).c_str());
  for (const MeasuredStep& step : table.steps) std::printf("%s\n", StepLine(step).c_str());
  ROSE_ASSIGN_OR_RETURN(const StepCosts costs, StepCosts::Fit(table.steps));
  std::fprintf(stderr, "%zu steps measured; the fit is off by %.1f %% on average.\n",
               table.steps.size(), 100 * costs.MeanError(table.steps));
  return Status();
}

}  // namespace

Result<StepTable> MeasureTable(const LoadedModel& loaded, const ModelOptions& model,
                               const StepMeasuring& measuring) {
  const ModelInfo& info = loaded.model->info();
  EngineConfig config;
  config.max_running = measuring.max_running;
  config.max_step_tokens = measuring.max_step_tokens;
  const std::vector<Scene> scenes =
      Scenes(measuring.max_running, std::min(measuring.longest, info.max_positions / 2));
  ROSE_ASSIGN_OR_RETURN(const auto executor, CreateExecutor(*loaded.model, *loaded.ops,
                                                            PagesForScenes(info.kv, scenes)));
  StepTable table;
  table.model = loaded.name;
  table.machine = StrCat(loaded.ops->name(), " ", model.precision, ", ",
                         sysconf(_SC_NPROCESSORS_ONLN), " processors");
  table.vocab = info.vocab;
  table.max_positions = info.max_positions;
  table.kv = info.kv;
  table.feeds_back = executor->info().feeds_back;
  table.kv_dtype = loaded.ops->kv_dtype();
  ProgressBar bar("measuring", stderr, "scenes");
  const int64_t all = measuring.repeats * std::ssize(scenes);
  table.steps = MeasureSteps(*executor, config, scenes, measuring.repeats,
                             [&](int64_t done) { bar.Update(done, all); });
  return table;
}

void AddBenchSteps(CLI::App& bench, int& exit_code) {
  auto options = std::make_shared<StepsOptions>();  // shared with the callback
  CLI::App* command = bench.add_subcommand(
      "steps", "Time of steps of many shapes: the table that `rose simulate` reads");
  AddModelOptions(*command, options->model);
  StepMeasuring& measuring = options->measuring;
  command->add_option("--max-running", measuring.max_running, "Sequences that decode, at most")
      ->check(CLI::Range(1, 4096))
      ->capture_default_str();
  command->add_option("--max-step-tokens", measuring.max_step_tokens, "Rows, at most")
      ->check(CLI::Range(1, 1 << 16))
      ->capture_default_str();
  command->add_option("--longest", measuring.longest, "Tokens of the longest prompt")
      ->check(CLI::Range(2, 1 << 20))
      ->capture_default_str();
  command->add_option("--repeats", measuring.repeats, "How often all is run; medians count")
      ->check(CLI::Range(1, 1000))
      ->capture_default_str();
  command->footer("Example:\n  rose bench steps models/rosebud > rosebud.steps");
  command->callback([options, &exit_code] {
    if (const Status status = RunSteps(*options); !status.ok()) exit_code = ReportFailure(status);
  });
}

}  // namespace rose

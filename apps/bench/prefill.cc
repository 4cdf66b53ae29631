// rose bench prefill: the time from a prompt to the logits of its last token, in steps of as many
// tokens as the engine takes, with nothing else running.
#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstring>

#include "bench/bench.h"
#include "commands.h"
#include "engine/engine.h"
#include "load/load_report.h"
#include "models/step_runner.h"

namespace rose {
namespace {

struct PrefillOptions {
  ModelOptions model;
  std::vector<int64_t> tokens = {8192};
  int64_t chunk = EngineConfig().max_step_tokens;
  int64_t runs = 7;
  int64_t warmup = 2;
};

// Prompt number `which`: tokens without a pattern.
std::vector<int32_t> Prompt(int64_t which, int64_t tokens, int64_t vocab) {
  const uint64_t key = RandomKey(static_cast<uint64_t>(which), "prompt");
  std::vector<int32_t> prompt(tokens);
  for (int64_t i = 0; i < tokens; ++i)
    prompt[i] = static_cast<int32_t>(RandomWord(key, static_cast<uint64_t>(i)) %
                                     static_cast<uint64_t>(vocab));
  return prompt;
}

class Prefill {
 public:
  Prefill(StepRunner& runner, int64_t chunk) : runner_(runner), chunk_(chunk) {}

  // Seconds; logits() are then those of the last token.
  double Run(std::span<const int32_t> prompt) {
    runner_.Truncate(0, 0);
    const auto begin = std::chrono::steady_clock::now();
    while (!prompt.empty()) {
      const auto rows = std::min<size_t>(prompt.size(), chunk_);
      const std::vector<int32_t> last(prompt.size() == rows ? 1 : 0,
                                      static_cast<int32_t>(rows - 1));
      const SequenceTokens step{0, prompt.first(rows)};
      logits_ = runner_.Run({&step, 1}, last);
      prompt = prompt.subspan(rows);
    }
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  }
  std::vector<float> logits() const {
    return {logits_.data<float>(), logits_.data<float>() + logits_.elements()};
  }

 private:
  StepRunner& runner_;
  const int64_t chunk_;
  Tensor logits_;
};

std::vector<StepWork> WorkOfPrefill(const LoadedModel& loaded, int64_t tokens, int64_t chunk) {
  std::vector<StepWork> steps;
  for (int64_t start = 0; start < tokens; start += chunk) {
    const int64_t rows = std::min(chunk, tokens - start);
    steps.push_back(WorkOf(loaded, {{start, rows, start + rows == tokens ? 1 : 0}}));
  }
  return steps;
}

Status Measure(const LoadedModel& loaded, const PrefillOptions& options, int64_t tokens) {
  const ModelInfo& info = loaded.model->info();
  if (tokens > info.max_positions)
    return InvalidArgument("--tokens ", tokens, ": the model has ", info.max_positions,
                           " positions");
  ROSE_ASSIGN_OR_RETURN(const auto runner,
                        StepRunner::Create(*loaded.model, *loaded.ops, 1, tokens));
  Prefill prefill(*runner, options.chunk);
  std::vector<double> seconds;
  std::vector<float> first;
  // The last run is the first prompt again, in other chunks: the bits of a row depend on neither,
  // so another result would be a fault.
  const int64_t check_chunk = options.chunk / 2 + 1;
  Prefill check(*runner, check_chunk);
  for (int64_t run = 0; run <= options.warmup + options.runs; ++run) {
    const bool is_check = run == options.warmup + options.runs;
    Prefill& measured = is_check ? check : prefill;
    const double took = measured.Run(Prompt(is_check ? 0 : run, tokens, info.vocab));
    const std::vector<float> logits = measured.logits();
    if (!std::all_of(logits.begin(), logits.end(), [](float x) { return std::isfinite(x); }))
      return Status(StatusCode::kInternal, "the logits of a prompt are not finite");
    if (run == 0) first = logits;
    if (is_check && std::memcmp(first.data(), logits.data(), logits.size() * sizeof(float)) != 0)
      return Status(StatusCode::kInternal, "the same prompt gave other logits in other chunks");
    if (run >= options.warmup && !is_check) seconds.push_back(took);
  }
  const Spread spread = SpreadOf(seconds);
  const std::vector<StepWork> work = WorkOfPrefill(loaded, tokens, options.chunk);
  std::printf(
      "{\"bench\": \"prefill\", %s, \"tokens\": %lld, \"chunk\": %lld, \"runs\": %lld, "
      "\"ms\": %.3f, \"ms_p10\": %.3f, \"ms_p90\": %.3f, \"tokens_per_s\": %.1f%s%s, "
      "\"checked\": {\"chunk\": %lld}}\n",
      MachineJson(loaded, options.model).c_str(), static_cast<long long>(tokens),
      static_cast<long long>(options.chunk), static_cast<long long>(spread.count), spread.p50,
      spread.p10, spread.p90, static_cast<double>(tokens) / spread.p50 * 1000,
      WorkJson(loaded, work, spread.p50 / 1000).c_str(), ClocksJson(loaded).c_str(),
      static_cast<long long>(check_chunk));
  std::fflush(stdout);
  return Status();
}

Status RunPrefill(const PrefillOptions& options) {
  ROSE_ASSIGN_OR_RETURN(const LoadedModel loaded, LoadModelWithBar(options.model));
  for (int64_t tokens : options.tokens) ROSE_RETURN_IF_ERROR(Measure(loaded, options, tokens));
  return Status();
}

}  // namespace

void AddBenchPrefill(CLI::App& bench, int& exit_code) {
  auto options = std::make_shared<PrefillOptions>();  // shared with the callback
  CLI::App* command =
      bench.add_subcommand("prefill", "Time from a prompt to the logits of its last token");
  AddModelOptions(*command, options->model);
  command->add_option("--tokens", options->tokens, "Tokens of the prompt, each number measured")
      ->delimiter(',')
      ->check(CLI::Range(1, 1 << 20))
      ->capture_default_str();
  command->add_option("--chunk", options->chunk, "Tokens of a step, at most")
      ->check(CLI::Range(1, 1 << 20))
      ->capture_default_str();
  command->add_option("--runs", options->runs, "Runs, each with a prompt of its own")
      ->check(CLI::Range(1, 1000))
      ->capture_default_str();
  command->add_option("--warmup", options->warmup, "Runs before, which do not count")
      ->check(CLI::Range(0, 1000))
      ->capture_default_str();
  command->footer(
      "Examples:\n"
      "  rose bench prefill --like 20b --chunk 8192\n"
      "  rose bench prefill models/rosebud --tokens 512,2048");
  command->callback([options, &exit_code] {
    if (const Status status = RunPrefill(*options); !status.ok()) exit_code = ReportFailure(status);
  });
}

}  // namespace rose

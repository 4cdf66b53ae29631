// rose simulate: what a load would see on machines that are not at hand.
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <memory>
#include <string>

#include "base/file.h"
#include "base/json.h"
#include "base/progress.h"
#include "bench/bench.h"
#include "commands.h"
#include "engine/engine_limits.h"
#include "engine/model_executor.h"
#include "load/load_report.h"
#include "simulator/replay.h"
#include "simulator/simulation.h"

namespace rose {
namespace {

constexpr int64_t kMostFileBytes = int64_t{1} << 30;
constexpr int kCompareRounds = 3;

struct SimulateOptions {
  std::string table;
  TraceOptions trace;
  std::string trace_file, input = "256", output = "128";
  std::string router = "least-loaded";
  SimulationSetup setup;
  uint64_t kv_bytes = uint64_t{2} << 30;
  bool no_prefix_cache = false;
  bool json = false;
  std::string write_trace;
  bool compare = false;
  ModelOptions model;  // with compare
};

Result<std::vector<TraceRequest>> TraceOf(const SimulateOptions& options) {
  if (!options.trace_file.empty()) {
    ROSE_ASSIGN_OR_RETURN(const std::string text,
                          ReadFileOrPipe(options.trace_file, kMostFileBytes));
    auto trace = ReadTrace(text);
    if (trace.ok()) return trace;
    return InvalidArgument(options.trace_file, ": ", trace.status().message());
  }
  TraceOptions made = options.trace;
  ROSE_ASSIGN_OR_RETURN(made.input, Lengths::Parse(options.input));
  ROSE_ASSIGN_OR_RETURN(made.output, Lengths::Parse(options.output));
  return MakeTrace(made);
}

Status WriteTrace(const std::string& path, const std::vector<TraceRequest>& trace) {
  std::string lines;
  for (const TraceRequest& request : trace) lines += TraceLine(request) + "\n";
  return WriteFileAtomically(path, lines);
}

// Bytes of the pages that one replica's requests held at most.
int64_t MostBytes(const StepTable& table, const SimulationResult& result) {
  const std::vector<int64_t> page_bytes = table.PageBytes();
  int64_t bytes = 0;
  for (size_t g = 0; g < page_bytes.size(); ++g) bytes += page_bytes[g] * result.most_pages[g];
  return bytes;
}

struct Run {
  StepTable table;
  StepCosts costs;
  SimulationSetup setup;
  std::vector<TraceRequest> trace;
};

std::string SetupJson(const SimulateOptions& options, const Run& run) {
  std::string json = "\"model\": ";
  AppendJsonString(json, run.table.model);
  AppendJsonString(json += ", \"machine\": ", run.table.machine);
  AppendJsonString(json += ", \"router\": ", options.router);
  return json + StrCat(", \"replicas\": ", run.setup.replicas,
                       ", \"max_running\": ", run.setup.engine.max_running,
                       ", \"max_step_tokens\": ", run.setup.engine.max_step_tokens);
}

void PrintSimulation(const SimulateOptions& options, const Run& run, const SimulationResult& result,
                     double took_s) {
  const LoadReport report = ReportOf(result.records);
  const double hits = static_cast<double>(result.prefix_hits) /
                      static_cast<double>(std::max<int64_t>(1, result.prefix_queries));
  const double busy =
      result.busy_s / static_cast<double>(run.setup.replicas) / std::max(report.seconds, 1e-9);
  const int64_t bytes = MostBytes(run.table, result);
  int64_t most = 0, all = 0;
  for (int64_t pages : result.most_pages) most += pages;
  for (int64_t pages : run.setup.executor.pages) all += pages;
  if (options.json) {
    std::printf(
        "{\"simulate\": \"trace\", %s, %s, \"prefix_hit_rate\": %.4f, \"pages\": %lld, "
        "\"most_pages_used\": %lld, \"most_bytes_used\": %lld, \"preemptions\": %lld, "
        "\"refused\": %lld, \"steps\": %lld, \"busy\": %.4f, \"took_s\": %.3f}\n",
        SetupJson(options, run).c_str(), ReportJson(report).c_str(), hits,
        static_cast<long long>(all), static_cast<long long>(most), static_cast<long long>(bytes),
        static_cast<long long>(result.preemptions), static_cast<long long>(result.refused),
        static_cast<long long>(result.steps), busy, took_s);
    std::fflush(stdout);
    return;
  }
  std::printf("%s", ReportTable(report).c_str());
  std::printf(
      "%lld steps, executors busy %.1f %% of the time, %.1f %% of prompt tokens cached\n"
      "KV cache of a replica: at most %lld of %lld pages in use, %s; %lld preemptions\n",
      static_cast<long long>(result.steps), 100 * busy, 100 * hits, static_cast<long long>(most),
      static_cast<long long>(all), BytesText(bytes).c_str(),
      static_cast<long long>(result.preemptions));
  std::fprintf(stderr, "Simulated in %.2f s.\n", took_s);
}

SimulationResult RunSimulation(const Run& run, double& took_s) {
  ProgressBar bar("simulating", stderr, "requests");
  const auto begin = std::chrono::steady_clock::now();
  SimulationResult result = Simulate(run.costs, run.setup, run.trace, [&](int64_t came) {
    bar.Update(came, std::ssize(run.trace));
  });
  took_s = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  return result;
}

Status FillSetup(const SimulateOptions& options, Run& run) {
  run.setup = options.setup;
  run.setup.engine.prefix_cache = !options.no_prefix_cache;
  run.setup.router = options.router == "round-robin"    ? Router::kRoundRobin
                     : options.router == "least-loaded" ? Router::kLeastLoaded
                                                        : Router::kPrefixAffine;
  ROSE_ASSIGN_OR_RETURN(const std::vector<int64_t> pages,
                        PlanKvPages(run.table.kv, run.table.kv_dtype, run.table.max_positions,
                                    run.setup.engine, static_cast<int64_t>(options.kv_bytes)));
  run.setup.executor = {.vocab = run.table.vocab,
                        .max_positions = run.table.max_positions,
                        .kv = run.table.kv,
                        .pages = pages,
                        .feeds_back = run.table.feeds_back};
  return Status();
}

Result<StepTable> ReadTable(const std::string& path) {
  ROSE_ASSIGN_OR_RETURN(const std::string text, ReadFileOrPipe(path, kMostFileBytes));
  auto table = ParseStepTable(text);
  if (table.ok()) return table;
  return InvalidArgument(path, ": ", table.status().message());
}

Status RunTrace(const SimulateOptions& options) {
  Run run{.costs = StepCosts::Constant(0)};
  ROSE_ASSIGN_OR_RETURN(run.table, ReadTable(options.table));
  ROSE_ASSIGN_OR_RETURN(run.costs, StepCosts::Fit(run.table.steps));
  ROSE_ASSIGN_OR_RETURN(run.trace, TraceOf(options));
  ROSE_RETURN_IF_ERROR(FillSetup(options, run));
  if (!options.write_trace.empty()) {
    ROSE_RETURN_IF_ERROR(WriteTrace(options.write_trace, run.trace));
  }
  double took_s = 0;
  const SimulationResult result = RunSimulation(run, took_s);
  PrintSimulation(options, run, result, took_s);
  return Status();
}

double TokensPerSecond(const LoadReport& report) {
  return static_cast<double>(report.completion_tokens) / std::max(report.seconds, 1e-9);
}

// Predicted by measured, for what must agree.
void PrintComparison(const LoadReport& predicted, const LoadReport& measured) {
  const auto ratio = [](double a, double b) { return b > 0 ? a / b : 0; };
  std::printf(
      "{\"simulate\": \"compare\", \"throughput\": %.4f, \"answer_ms_p50\": %.4f, "
      "\"answer_ms_p99\": %.4f, \"first_token_ms_p50\": %.4f, \"inter_token_ms_p50\": %.4f}\n",
      ratio(TokensPerSecond(predicted), TokensPerSecond(measured)),
      ratio(predicted.answer_ms.p50, measured.answer_ms.p50),
      ratio(predicted.answer_ms.p99, measured.answer_ms.p99),
      ratio(predicted.first_token_ms.p50, measured.first_token_ms.p50),
      ratio(predicted.inter_token_ms.p50, measured.inter_token_ms.p50));
  std::fflush(stdout);
}

// The real engine's answers to the trace.
Result<LoadReport> RunEngine(const LoadedModel& loaded, const Run& run) {
  ROSE_ASSIGN_OR_RETURN(auto executor,
                        CreateExecutor(*loaded.model, *loaded.ops, run.setup.executor.pages));
  const auto engine = CreateEngine(run.setup.engine, std::move(executor), CreatePlainDecoder());
  ProgressBar bar("running", stderr, "requests");
  return ReportOf(
      Replay(*engine, run.trace, [&](int64_t done) { bar.Update(done, std::ssize(run.trace)); }));
}

// Runs the trace kCompareRounds times on the real engine, and measures this machine's steps before
// each, unless a table was given: a machine that is quicker in one minute than in the next must not
// be measured in the one and run in the other. The run of median throughput counts.
Status RunComparison(const SimulateOptions& options) {
  ROSE_ASSIGN_OR_RETURN(const LoadedModel loaded, LoadModelWithBar(options.model));
  Run run{.costs = StepCosts::Constant(0)};
  StepMeasuring measuring;
  measuring.max_running = std::min<int64_t>(64, options.setup.engine.max_running);
  measuring.max_step_tokens = options.setup.engine.max_step_tokens;
  if (!options.table.empty()) {
    ROSE_ASSIGN_OR_RETURN(run.table, ReadTable(options.table));
  }
  ROSE_ASSIGN_OR_RETURN(run.trace, TraceOf(options));
  std::vector<LoadReport> reports;
  for (int round = 0; round < kCompareRounds; ++round) {
    if (options.table.empty()) {
      ROSE_ASSIGN_OR_RETURN(StepTable table, MeasureTable(loaded, options.model, measuring));
      table.steps.insert(table.steps.end(), run.table.steps.begin(), run.table.steps.end());
      run.table = std::move(table);
    }
    ROSE_RETURN_IF_ERROR(FillSetup(options, run));
    ROSE_ASSIGN_OR_RETURN(LoadReport report, RunEngine(loaded, run));
    reports.push_back(std::move(report));
  }
  std::sort(reports.begin(), reports.end(), [](const LoadReport& a, const LoadReport& b) {
    return TokensPerSecond(a) < TokensPerSecond(b);
  });
  const LoadReport& measured = reports[reports.size() / 2];
  ROSE_ASSIGN_OR_RETURN(run.costs, StepCosts::Fit(run.table.steps));
  double took_s = 0;
  const SimulationResult result = RunSimulation(run, took_s);
  PrintSimulation(options, run, result, took_s);
  if (options.json) {
    std::printf("{\"simulate\": \"real\", %s, %s}\n", SetupJson(options, run).c_str(),
                ReportJson(measured).c_str());
  } else {
    std::printf("\nThe real engine:\n%s\nPredicted by measured:\n", ReportTable(measured).c_str());
  }
  PrintComparison(ReportOf(result.records), measured);
  return Status();
}

void AddTraceOptions(CLI::App& command, SimulateOptions& options) {
  TraceOptions& trace = options.trace;
  CLI::Option* file = command.add_option(
      "--trace", options.trace_file, "Recorded requests, a JSON object a line, instead of made-up");
  command.add_option("-n,--requests", trace.requests, "How many")
      ->check(CLI::Range(1, 100'000'000))
      ->capture_default_str()
      ->excludes(file);
  command
      .add_option("--rate", trace.rate,
                  "Requests a second, at random (Poisson) times [all at once]")
      ->check(CLI::Range(1e-6, 1e9));
  command.add_option("--burst", trace.burst, "Requests that come together; the rate stays")
      ->check(CLI::Range(1, 1'000'000))
      ->capture_default_str();
  command.add_option("--input", options.input, "Tokens of each prompt, beside the shared ones")
      ->capture_default_str();
  command.add_option("--output", options.output, "Tokens of each answer")->capture_default_str();
  command.add_option("--prefixes", trace.prefixes, "Different beginnings of prompts")
      ->check(CLI::Range(1, 1'000'000'000))
      ->capture_default_str();
  command.add_option("--prefix-tokens", trace.prefix_tokens, "Tokens of each of them")
      ->check(CLI::Range(0, 10'000'000))
      ->capture_default_str();
  command.add_option("--prefix-share", trace.prefix_share, "Share of prompts that begin with one")
      ->check(CLI::Range(0.0, 1.0))
      ->capture_default_str();
  command.add_option("--seed", trace.seed, "Of times, lengths and prefixes")->capture_default_str();
  command.add_option("--write-trace", options.write_trace, "Also write the trace to this file");
}

void AddEngineOptions(CLI::App& command, SimulateOptions& options) {
  SimulationSetup& setup = options.setup;
  command.add_option("--replicas", setup.replicas, "Engines behind the router")
      ->check(CLI::Range(1, 10'000))
      ->capture_default_str();
  command.add_option("--router", options.router, "Which of them gets a request")
      ->check(CLI::IsMember({"round-robin", "least-loaded", "prefix-affine"}))
      ->capture_default_str();
  command
      .add_option("--kv-memory", options.kv_bytes, "Memory of each KV cache, such as 512M or 80G")
      ->transform(CLI::AsSizeValue(/*kb_is_1000=*/false))
      ->check(CLI::Range(uint64_t{1}, uint64_t{1} << 50))
      ->default_str("2G");
  command.add_option("--max-running", setup.engine.max_running, "Answers computed at a time")
      ->check(CLI::Range(1, 1 << 20))
      ->capture_default_str();
  command.add_option("--max-waiting", setup.engine.max_waiting, "Requests that may wait for that")
      ->check(CLI::Range(0, 100'000'000))
      ->capture_default_str();
  command.add_option("--max-step-tokens", setup.engine.max_step_tokens, "Rows of a step")
      ->check(CLI::Range(1, 1 << 20))
      ->capture_default_str();
  command
      .add_option("--prefill-chunk", setup.engine.prefill_chunk,
                  "Rows of one prompt in a step [those of a step]")
      ->check(CLI::Range(1, 1 << 20));
  command
      .add_option("--max-context", setup.engine.max_context,
                  "Tokens of prompt and answer together [what model and memory allow]")
      ->check(CLI::Range(1, 1 << 24));
  command.add_flag("--pipeline,!--no-pipeline", setup.engine.pipeline,
                   "Plan and submit a step while the one before runs [where draws are fed back on "
                   "the device, as the table says]");
  command.add_flag("--no-prefix-cache", options.no_prefix_cache, "Compute every prompt anew");
}

}  // namespace

void AddSimulate(CLI::App& app, int& exit_code) {
  auto options = std::make_shared<SimulateOptions>();  // shared with the callback
  // In a trace all requests are there at once; a server's limit would only hide what is asked.
  options->setup.engine.max_waiting = 100'000'000;
  CLI::App* command = app.add_subcommand(
      "simulate", "Predict throughput, latency and memory of a load, on machines not at hand");
  CLI::Option* table =
      command->add_option("--steps", options->table,
                          "What steps take there: a table of `rose bench steps`, or by hand");
  AddTraceOptions(*command, *options);
  AddEngineOptions(*command, *options);
  command->add_flag("--json", options->json, "One line of JSON");
  CLI::Option* compare = command->add_flag(
      "--compare", options->compare,
      "Also run the trace on the real engine with the model DIR, and show predicted by measured");
  AddModelOptions(*command, options->model);
  command->footer(
      "The engine's own scheduler and cache run in virtual time; only the model is replaced, by a\n"
      "table of what steps take. Lengths are 256, 100:500 (evenly), 300~0.8 (log-normal: median "
      "and\n"
      "sigma) or @FILE (one a line, drawn from there). A line of a trace:\n"
      "  {\"at_s\": 0.5, \"prompt_tokens\": 700, \"output_tokens\": 90,\n"
      "   \"prefix\": \"any name\", \"prefix_tokens\": 500}\n"
      "\n"
      "Examples:\n"
      "  rose bench steps models/rosebud > rosebud.steps\n"
      "  rose simulate --steps rosebud.steps --rate 5 -n 2000 --input 300~0.8 --output 50:200\n"
      "  rose simulate --steps h200.steps --trace day.jsonl --replicas 4 --router prefix-affine\n"
      "  rose simulate --compare models/rosebud --rate 5 -n 200");
  command->callback([options, table, compare, &exit_code] {
    Status status;
    if (compare->count() > 0) {
      status = RunComparison(*options);
    } else if (table->count() == 0) {
      status = InvalidArgument("name a table with --steps; `rose bench steps` makes one");
    } else {
      status = RunTrace(*options);
    }
    if (!status.ok()) exit_code = ReportFailure(status);
  });
}

}  // namespace rose

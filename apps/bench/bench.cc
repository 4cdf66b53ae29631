// rose bench: measures on this machine. One line of JSON for each result on standard output.
#include "bench/bench.h"

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <limits>
#include <mutex>
#include <optional>

#include "base/json.h"
#include "bench/allocation_count.h"
#include "bench/made_up_prompt.h"
#include "bench/plain_run.h"
#include "commands.h"
#include "engine/model_executor.h"
#include "load/load_report.h"
#include "ops/cpu_fast/cpu_fast_ops.h"

namespace rose {
namespace {

using Clock = std::chrono::steady_clock;

struct DecodeOptions {
  ModelOptions model;
  std::vector<int64_t> users = {1, 16};
  int64_t prompt = 64;   // tokens of every user's prompt
  int64_t tokens = 256;  // that every user gets
  int64_t runs = 5;
  std::optional<bool> pipeline;
  SamplingParams sampling{.temperature = 0};
};

// What one run of all users took.
struct DecodeRun {
  double prompt_tokens_per_s = 0;          // from the first request to the last first token
  double tokens_per_s = 0;                 // while all users decode
  double ms_per_step = 0;                  // one step gives every user a token
  std::vector<double> steps_s;             // between the tokens of the first user, while all decode
  std::vector<double> first_s;             // from the first request to each user's first token
  std::vector<std::vector<int32_t>> said;  // by the first users
  double allocations = 0;                  // of the engine's thread, a step of steps_s
};

constexpr int64_t kCheckedUsers = 4;  // whose tokens are compared with those of the model alone

// Collects the events of all users; called on the engine's thread.
class Meter {
 public:
  // Takes all its memory now, so that the engine's allocations can be told from its own.
  Meter(int64_t users, int64_t tokens) : got_(users, 0), said_(std::min(users, kCheckedUsers)) {
    steps_s_.reserve(tokens);
    first_s_.reserve(users);
    for (std::vector<int32_t>& said : said_) said.reserve(tokens);
  }

  // Before the first request.
  void Begin() { begin_ = Clock::now(); }

  void Take(int64_t user, const TokenEvent& event) {
    const std::lock_guard lock(mutex_);
    const Clock::time_point now = Clock::now();
    const bool is_first = got_[user] == 0 && !event.tokens.empty();
    if (is_first) first_s_.push_back(Seconds(begin_, now));
    if (is_first && ++started_ == std::ssize(got_)) {
      all_started_ = now;
      tokens_ = 0;
    } else if (started_ == std::ssize(got_) && finished_ == 0) {
      tokens_ += std::ssize(event.tokens);
      last_ = now;
      if (user == 0 && got_[0] > 0) {
        steps_s_.push_back(Seconds(first_user_, now));
        allocations_ += AllocationsOfThread() - allocated_;
      }
    }
    if (user == 0) {
      first_user_ = now;
      allocated_ = AllocationsOfThread();
    }
    if (user < kCheckedUsers) {
      for (const SampledToken& token : event.tokens) said_[user].push_back(token.id);
    }
    got_[user] += std::ssize(event.tokens);
    if (event.finish == FinishReason::kNone) return;
    if (event.finish != FinishReason::kLength) error_ = StrCat("a request failed: ", event.error);
    ++finished_;
    changed_.notify_one();
  }

  Result<DecodeRun> Wait(int64_t prompt_tokens) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return finished_ == std::ssize(got_); });
    if (!error_.empty()) return Status(StatusCode::kInternal, error_);
    if (tokens_ == 0) {
      return InvalidArgument("the first of ", got_.size(),
                             " users has its answer before the last has its first token; give more "
                             "--tokens, or fewer --users");
    }
    const double decode_s = Seconds(all_started_, last_);
    const double users = static_cast<double>(got_.size());
    return DecodeRun{static_cast<double>(prompt_tokens) / Seconds(begin_, all_started_),
                     static_cast<double>(tokens_) / decode_s,
                     decode_s * 1000 * users / static_cast<double>(tokens_),
                     steps_s_,
                     first_s_,
                     said_,
                     static_cast<double>(allocations_) /
                         static_cast<double>(std::max<int64_t>(1, std::ssize(steps_s_)))};
  }

 private:
  static double Seconds(Clock::time_point from, Clock::time_point to) {
    return std::chrono::duration<double>(to - from).count();
  }

  std::mutex mutex_;  // guards all below
  std::condition_variable changed_;
  std::vector<int64_t> got_;  // tokens of every user
  int64_t started_ = 0;       // users with a first token
  int64_t finished_ = 0;
  int64_t tokens_ = 0;  // between the last user's first token and the first end
  Clock::time_point begin_, all_started_, last_, first_user_;
  std::vector<double> steps_s_, first_s_;
  std::vector<std::vector<int32_t>> said_;
  int64_t allocations_ = 0, allocated_ = 0;  // in steps_s_; of the engine's thread so far
  std::string error_;
};

Result<DecodeRun> RunUsers(const LoadedModel& loaded, const DecodeOptions& options, int64_t users) {
  EngineConfig config;
  config.max_running = users;
  config.max_context = options.prompt + options.tokens;
  config.max_step_tokens = DefaultStepTokens(*loaded.ops);
  config.pipeline = options.pipeline;
  ROSE_ASSIGN_OR_RETURN(
      const std::vector<int64_t> pages,
      PlanKvPages(*loaded.model, *loaded.ops, config, std::numeric_limits<int64_t>::max()));
  ROSE_ASSIGN_OR_RETURN(auto executor, CreateExecutor(*loaded.model, *loaded.ops, pages));
  Meter meter(users, options.tokens);  // outlives the engine, which calls it
  const auto engine = CreateEngine(config, std::move(executor), CreatePlainDecoder());
  meter.Begin();
  for (int64_t user = 0; user < users; ++user) {
    Request request;
    request.prompt = MadeUpPrompt(user, options.prompt, loaded.model->info().vocab);
    request.max_tokens = options.tokens;
    request.sampling = options.sampling;
    request.sampling.seed = static_cast<uint64_t>(user);
    request.on_event = [&meter, user](const TokenEvent& event) { meter.Take(user, event); };
    ROSE_ASSIGN_OR_RETURN(const RequestId id, engine->Submit(std::move(request)));
    (void)id;
  }
  return meter.Wait(users * options.prompt);
}

void PrintDecode(const LoadedModel& loaded, const DecodeOptions& options, int64_t users,
                 std::vector<DecodeRun> runs) {
  std::sort(runs.begin(), runs.end(),
            [](const DecodeRun& a, const DecodeRun& b) { return a.tokens_per_s > b.tokens_per_s; });
  double prompt_best = 0;
  std::vector<double> steps_s, first_s;
  for (const DecodeRun& run : runs) {
    prompt_best = std::max(prompt_best, run.prompt_tokens_per_s);
    steps_s.insert(steps_s.end(), run.steps_s.begin(), run.steps_s.end());
    first_s.insert(first_s.end(), run.first_s.begin(), run.first_s.end());
  }
  const Spread step = SpreadOf(steps_s), first = SpreadOf(first_s);
  // Every user gets a token, in the middle of what it decodes.
  const int64_t context = options.prompt + options.tokens / 2;
  const StepWork work = WorkOf(loaded, std::vector<SequenceWork>(users, {context, 1, 1}));
  std::printf(
      "{\"bench\": \"decode\", %s, \"users\": %lld, \"prompt_tokens\": %lld, \"tokens\": %lld, "
      "\"tokens_per_s\": %.1f, \"ms_per_step\": %.3f, \"prompt_tokens_per_s\": %.1f, "
      "\"first_token_ms\": %.3f, \"first_token_ms_p90\": %.3f, "
      "\"median_tokens_per_s\": %.1f, \"runs\": %zu, \"steps\": %lld, \"step_ms\": %.4f, "
      "\"step_ms_p10\": %.4f, \"step_ms_p90\": %.4f, \"allocations_a_step\": %.1f%s%s, "
      "\"checked\": {\"users\": %zu, \"tokens\": %lld}}\n",
      MachineJson(loaded, options.model).c_str(), static_cast<long long>(users),
      static_cast<long long>(options.prompt), static_cast<long long>(options.tokens),
      runs.front().tokens_per_s, runs.front().ms_per_step, prompt_best, first.p50, first.p90,
      runs[runs.size() / 2].tokens_per_s, runs.size(), static_cast<long long>(step.count), step.p50,
      step.p10, step.p90, runs.front().allocations,
      WorkJson(loaded, {work}, step.p50 / 1000).c_str(), ClocksJson(loaded).c_str(),
      options.sampling.temperature > 0 ? 0 : runs.front().said.size(),
      static_cast<long long>(options.tokens));
  std::fflush(stdout);
}

// Every run must say what the model alone says, or, where it is not the most likely, what the first
// run does.
Status CheckDecode(const LoadedModel& loaded, const DecodeOptions& options,
                   const std::vector<DecodeRun>& runs) {
  const int64_t users = std::ssize(runs.front().said);
  std::vector<std::vector<int32_t>> prompts;
  for (int64_t u = 0; u < users; ++u)
    prompts.push_back(MadeUpPrompt(u, options.prompt, loaded.model->info().vocab));
  std::vector<std::vector<int32_t>> expected = runs.front().said;
  if (options.sampling.temperature == 0) {
    ROSE_ASSIGN_OR_RETURN(expected, MostLikelyTokens(loaded, prompts, options.tokens));
  }
  for (const DecodeRun& run : runs) {
    for (int64_t u = 0; u < users; ++u) {
      const auto [said, wanted] = std::ranges::mismatch(run.said[u], expected[u]);
      if (wanted == expected[u].end() && said == run.said[u].end()) continue;
      return Status(StatusCode::kInternal,
                    StrCat("user ", u, " of ", users, " got another token number ",
                           wanted - expected[u].begin(), " than the model alone gives"));
    }
  }
  return Status();
}

Status RunDecode(const DecodeOptions& options) {
  ROSE_ASSIGN_OR_RETURN(const LoadedModel loaded, LoadModelWithBar(options.model));
  for (int64_t users : options.users) {
    std::vector<DecodeRun> runs;
    ROSE_RETURN_IF_ERROR(RunUsers(loaded, options, users).status());  // warm-up
    for (int64_t i = 0; i < options.runs; ++i) {
      ROSE_ASSIGN_OR_RETURN(DecodeRun run, RunUsers(loaded, options, users));
      runs.push_back(run);
    }
    ROSE_RETURN_IF_ERROR(CheckDecode(loaded, options, runs));
    PrintDecode(loaded, options, users, std::move(runs));
  }
  return {};
}

void AddDecode(CLI::App& bench, int& exit_code) {
  auto options = std::make_shared<DecodeOptions>();  // shared with the callback
  CLI::App* command =
      bench.add_subcommand("decode", "Tokens a second through the engine, for several users");
  AddModelOptions(*command, options->model);
  command->add_option("--users", options->users, "Numbers of users, each measured")
      ->delimiter(',')
      ->check(CLI::Range(1, 256))
      ->capture_default_str();
  command->add_option("--prompt", options->prompt, "Tokens of each user's prompt")
      ->check(CLI::Range(1, 1 << 20))
      ->capture_default_str();
  command->add_option("--tokens", options->tokens, "Tokens that each user gets")
      ->check(CLI::Range(2, 1 << 20))
      ->capture_default_str();
  command->add_option("--runs", options->runs, "Runs; the best is reported, and the median")
      ->check(CLI::Range(1, 1000))
      ->capture_default_str();
  command->add_option("--temperature", options->sampling.temperature, "Of all draws; 0 is greedy")
      ->check(CLI::Range(0.0, 2.0))
      ->capture_default_str();
  command->add_option("--top-p", options->sampling.top_p, "Of all draws")
      ->check(CLI::Range(0.0, 1.0))
      ->capture_default_str();
  command->add_option("--top-k", options->sampling.top_k, "Of all draws; 0 is all")
      ->check(CLI::Range(0, 1 << 20))
      ->capture_default_str();
  command->add_flag("--pipeline,!--no-pipeline", options->pipeline,
                    "Plan each step while the one before runs [on a GPU]");
  command->callback([options, &exit_code] {
    if (const Status status = RunDecode(*options); !status.ok()) exit_code = ReportFailure(status);
  });
}

}  // namespace

std::string MachineJson(const LoadedModel& loaded, const ModelOptions& options) {
  std::string json = "\"model\": ";
  AppendJsonString(json, loaded.name);
  json +=
      StrCat(", \"ops\": \"", loaded.ops->name(), "\", \"precision\": \"", options.precision, "\"");
  if (const auto* cpu = dynamic_cast<const CpuFastOps*>(loaded.ops.get())) {
    json +=
        StrCat(", \"threads\": ", cpu->threads(), ", \"isa\": \"", CpuIsaName(cpu->isa()), "\"");
  }
  return json;
}

void AddBench(CLI::App& app, int& exit_code) {
  CLI::App* bench = app.add_subcommand("bench", "Measure speed on this machine");
  bench->require_subcommand(1);
  bench->footer(
      "Examples:\n"
      "  rose bench decode models/rosebud --users 1,16\n"
      "  rose bench decode models/rosebud --users 1 --prompt 3000 --tokens 64\n"
      "  rose bench decode --like 20b --users 1,16 --prompt 1024\n"
      "  rose bench prefill --like 120b --tokens 8192 --chunk 8192\n"
      "  rose bench ops --like 20b --tokens 1,64,8192\n"
      "  rose bench engine\n"
      "  rose bench steps models/rosebud > rosebud.steps\n"
      "  rose bench serve http://127.0.0.1:8000 --concurrency 16\n"
      "  rose bench tokenize --python ~/venv/bin/python");
  AddDecode(*bench, exit_code);
  AddBenchPrefill(*bench, exit_code);
  AddBenchOps(*bench, exit_code);
  AddBenchServe(*bench, exit_code);
  AddBenchTokenize(*bench, exit_code);
  AddBenchStreams(*bench, exit_code);
  AddBenchEngine(*bench, exit_code);
  AddBenchOverload(*bench, exit_code);
  AddBenchSteps(*bench, exit_code);
}

}  // namespace rose

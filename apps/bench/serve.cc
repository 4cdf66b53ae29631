// rose bench serve: a load on any server of the OpenAI API, and what it does under it.
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <memory>

#include "base/file.h"
#include "base/json.h"
#include "base/progress.h"
#include "bench/bench.h"
#include "commands.h"
#include "load/fetch.h"
#include "load/load_bodies.h"
#include "load/load_report.h"
#include "signals.h"

namespace rose {
namespace {

struct ServeLoadOptions {
  std::string url = "http://127.0.0.1:8000";
  std::string key;
  std::string endpoint = "chat";
  std::string input = "256", output = "128";
  std::string file;
  std::string extra;
  int64_t requests = 0;
  int64_t concurrency = 0;
  double rate = 0;
  int64_t warmup = 1;
  bool natural_end = false;
  std::string model;
  uint64_t seed = 1;
  double timeout_s = 600;
};

Result<std::vector<LoadRequest>> Bodies(const ServeLoadOptions& options, const std::string& model) {
  BodyOptions bodies;
  bodies.model = model;
  bodies.is_chat = options.endpoint == "chat";
  bodies.fixed_output = !options.natural_end;
  bodies.seed = options.seed;
  ROSE_ASSIGN_OR_RETURN(bodies.input, ParseRange(options.input));
  ROSE_ASSIGN_OR_RETURN(bodies.output, ParseRange(options.output));
  if (!options.extra.empty()) {
    const auto extra = ParseJson(options.extra);
    if (!extra.ok() || extra->object() == nullptr) {
      return InvalidArgument("--extra must be a JSON object, such as {\"temperature\": 0}");
    }
    const std::string text = WriteJson(*extra);
    bodies.common = text.substr(1, text.size() - 2);
  }
  if (options.file.empty()) {
    return MakeBodies(options.requests > 0 ? options.requests : 100, bodies);
  }
  ROSE_ASSIGN_OR_RETURN(const std::string jsonl,
                        ReadFile(options.file, /*max_bytes=*/int64_t{1} << 30));
  return ReadBodies(jsonl, options.requests, bodies);
}

void PrintResult(const ServeLoadOptions& options, const std::string& model,
                 const LoadReport& report) {
  std::string json = "{\"bench\": \"serve\", \"url\": ";
  AppendJsonString(json, options.url);
  AppendJsonString(json += ", \"model\": ", model);
  if (options.file.empty()) {
    AppendJsonString(json += ", \"endpoint\": ", options.endpoint);
    AppendJsonString(json += ", \"input\": ", options.input);
    AppendJsonString(json += ", \"output\": ", options.output);
  } else {
    AppendJsonString(json += ", \"file\": ", options.file);
  }
  json += options.rate > 0 ? StrCat(", \"mode\": \"open\", \"rate\": ", options.rate)
                           : StrCat(", \"mode\": \"closed\", \"concurrency\": ",
                                    std::max<int64_t>(1, options.concurrency));
  std::printf("%s, %s}\n", json.c_str(), ReportJson(report).c_str());
  std::fflush(stdout);
  std::fputs(ReportTable(report).c_str(), stderr);
}

Status RunServeLoad(const ServeLoadOptions& options) {
  std::atomic<int> signals = 0;
  SignalWatcher watcher([&](int count) {
    signals = count;
    if (count > 1) ::_exit(1);
  });
  ROSE_ASSIGN_OR_RETURN(const LoadTarget target, ParseTarget(options.url, options.key));
  std::string model = options.model;
  if (model.empty()) {
    const Result<std::string> named = AskModel(target);
    if (!named.ok()) return Unavailable(named.status().message(), " -- or name one with --model");
    model = *named;
  }
  ROSE_ASSIGN_OR_RETURN(const std::vector<LoadRequest> requests, Bodies(options, model));
  const auto count = static_cast<int64_t>(requests.size());
  LoadPlan plan;
  plan.timeout_s = options.timeout_s;
  const std::vector<LoadRequest> first(requests.begin(),
                                       requests.begin() + std::min(options.warmup, count));
  RunLoad(target, plan, first, [&](int64_t) { return signals == 0; });
  plan.concurrency = options.rate > 0 ? 0 : std::max<int64_t>(1, options.concurrency);
  if (options.rate > 0) plan.arrivals = PoissonArrivals(count, options.rate, options.seed);
  std::vector<LoadRecord> records;
  {
    ProgressBar bar("asking", stderr, "answers");
    records = RunLoad(target, plan, requests, [&](int64_t done) {
      bar.Update(done, count);
      return signals == 0;
    });
  }
  const LoadReport report = ReportOf(records);
  PrintResult(options, model, report);
  if (signals > 0) return Unavailable("stopped; the figures are of what was sent until then");
  if (report.answered == 0) return Unavailable("no request was answered");
  return Status();
}

void AddOptions(CLI::App& command, ServeLoadOptions& options) {
  command.add_option("URL", options.url, "The server: http://HOST[:PORT][/v1]")
      ->capture_default_str();
  command.add_option("--key", options.key, "API key, sent as a bearer token");
  command.add_option("--model", options.model, "Default: the first that the server names");
  auto* concurrency =
      command.add_option("--concurrency", options.concurrency,
                         "Closed loop: so many requests at a time, the next as soon as one is "
                         "answered [1]");
  concurrency->check(CLI::Range(1, 65536));
  command
      .add_option(
          "--rate", options.rate,
          "Open loop: requests a second, at random (Poisson) times, whatever the answers do")
      ->check(CLI::Range(1e-6, 1e6))
      ->excludes(concurrency);
  command.add_option("-n,--requests", options.requests, "How many [100, or each line of --file]")
      ->check(CLI::Range(1, 100'000'000));
  command.add_option("--endpoint", options.endpoint, "What made-up requests are for")
      ->check(CLI::IsMember({"chat", "completions"}))
      ->capture_default_str();
  command.add_option("--input", options.input, "Words of each prompt; 100:500 = evenly from there")
      ->capture_default_str();
  command.add_option("--output", options.output, "Tokens of each answer, or a range of them")
      ->capture_default_str();
  command.add_flag("--natural-end", options.natural_end,
                   "Let answers end where the model ends them (otherwise ignore_eos and min_tokens "
                   "are sent, which OpenAI's own service refuses)");
  command.add_option("--file", options.file,
                     "Requests to send instead of made-up ones: a JSON body a line, chat or "
                     "completion");
  command.add_option("--extra", options.extra, "JSON object of members for every request");
  command.add_option("--warmup", options.warmup, "Requests sent before, one by one, not counted")
      ->check(CLI::Range(0, 1000))
      ->capture_default_str();
  command.add_option("--timeout", options.timeout_s, "Seconds until a request counts as failed")
      ->check(CLI::Range(0.001, 1e6))
      ->capture_default_str();
  command.add_option("--seed", options.seed, "Of prompts, lengths and times")
      ->capture_default_str();
}

}  // namespace

void AddBenchServe(CLI::App& bench, int& exit_code) {
  auto options = std::make_shared<ServeLoadOptions>();  // shared with the callback
  CLI::App* command = bench.add_subcommand(
      "serve", "Put a load on a server of the OpenAI API and take the time of every token");
  AddOptions(*command, *options);
  command->footer(
      "One line of JSON goes to standard output, a table and the progress to standard error.\n"
      "\n"
      "  first token       from sending a request to the first event with text\n"
      "  between events    from one such event to the next (an event may hold several tokens)\n"
      "  per further token time after the first token, by the tokens that the usage counts\n"
      "  sent late         open loop only: how long after its time a request was sent. If this is\n"
      "                    large, this program or its machine was the bottleneck, not the server\n"
      "\n"
      "A closed loop says how fast a server is for a number of users who wait for their answers;\n"
      "it slows down together with the server. An open loop says what happens at a given rate of\n"
      "arrivals: choose a rate below what the server can take, or the waiting grows without end.\n"
      "A failed request is counted by its reason and is in no other figure. Exit code 1 if none\n"
      "was answered.\n"
      "\n"
      "Examples:\n"
      "  rose bench serve\n"
      "  rose bench serve http://127.0.0.1:8000 --concurrency 16 -n 200 --input 100:1000\n"
      "  rose bench serve http://gpu7:8000/v1 --rate 4 -n 1000 --output 64:256 --key $KEY\n"
      "  rose bench serve --file requests.jsonl --concurrency 8 --extra '{\"temperature\": 0}'");
  command->callback([options, &exit_code] {
    if (const Status status = RunServeLoad(*options); !status.ok()) {
      exit_code = ReportFailure(status);
    }
  });
}

}  // namespace rose

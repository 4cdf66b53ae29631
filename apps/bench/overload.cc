// rose bench overload: whether a server that gets far more than it can do still does what it can.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <memory>
#include <string>

#include "base/progress.h"
#include "bench/bench.h"
#include "commands.h"
#include "load/fetch.h"
#include "load/load_bodies.h"
#include "load/load_report.h"

namespace rose {
namespace {

// What a server must keep of its goodput, and how much its memory may grow.
constexpr double kLeastGoodput = 0.9;
constexpr double kMostGrowth = 0.1;

struct OverloadOptions {
  std::string url = "http://127.0.0.1:8000";
  std::string key;
  std::string input = "64", output = "32:96";
  int64_t concurrency = 64;
  double seconds = 60;
  double factor = 3;
  double within_s = 0;
  uint64_t seed = 1;
};

// What came of an open loop at one rate.
struct Phase {
  double rate = 0;
  int64_t sent = 0;
  int64_t in_time = 0;          // answered in full, in time, before the last request was sent
  int64_t late = 0;             // answered in full, but not in time
  int64_t refused = 0;          // with 429 or 503 and Retry-After
  int64_t rude = 0;             // refused in another way
  int64_t lost = 0;             // answers that began and did not end
  double goodput = 0;           // in_time a second
  double resident_halfway = 0;  // bytes of the server; 0 = unknown
  double resident = 0;          // at the end
  Spread answer_ms;             // of those answered
  Spread refusal_ms;            // from sending to the refusal
};

class Overload {
 public:
  Overload(const OverloadOptions& options, LoadTarget target, BodyOptions bodies)
      : options_(options), target_(std::move(target)), bodies_(std::move(bodies)) {}

  Status Run() {
    ROSE_ASSIGN_OR_RETURN(const LoadReport closed, MeasureCapacity());
    const double capacity = static_cast<double>(closed.answered) / closed.seconds;
    within_s_ = options_.within_s > 0 ? options_.within_s : 4 * closed.answer_ms.p50 / 1000;
    std::printf(
        "{\"bench\": \"overload\", \"phase\": \"closed\", \"concurrency\": %lld, "
        "\"answers_per_s\": %.3f, \"answer_ms_p50\": %.1f, \"answer_ms_p99\": %.1f, "
        "\"within_s\": %.3f}\n",
        static_cast<long long>(options_.concurrency), capacity, closed.answer_ms.p50,
        closed.answer_ms.p99, within_s_);
    std::fflush(stdout);
    const Phase at_capacity = OpenLoop("capacity", capacity);
    const Phase over = OpenLoop("overload", capacity * options_.factor);
    const double kept = over.goodput / std::max(at_capacity.goodput, 1e-9);
    // The first half may still fill caches that are bounded.
    const double growth = over.resident_halfway > 0 ? over.resident / over.resident_halfway - 1 : 0;
    std::printf(
        "{\"bench\": \"overload\", \"phase\": \"result\", \"factor\": %.2f, "
        "\"goodput_kept\": %.4f, \"lost\": %lld, \"memory_growth\": %.4f}\n",
        options_.factor, kept, static_cast<long long>(at_capacity.lost + over.lost), growth);
    if (kept < kLeastGoodput || growth > kMostGrowth || over.rude > 0 ||
        at_capacity.lost + over.lost > 0) {
      return Unavailable("the server does not stand this: goodput kept ", kept, ", lost ",
                         at_capacity.lost + over.lost, ", refused without Retry-After ", over.rude,
                         ", memory grown by ", growth);
    }
    return Status();
  }

 private:
  std::vector<LoadRequest> Bodies(int64_t n) {
    ++bodies_.seed;  // no phase profits from what the one before left in a cache
    return MakeBodies(n, bodies_);
  }

  // A short closed loop tells how many requests a longer one needs.
  Result<LoadReport> MeasureCapacity() {
    LoadPlan plan;
    plan.concurrency = options_.concurrency;
    LoadReport report;
    int64_t n = 2 * options_.concurrency;
    for (int round = 0; round < 2; ++round) {
      report = ReportOf(Load("closed loop", plan, Bodies(n)));
      if (report.answered < report.requests) {
        return Unavailable("the server refuses requests before there is any load: ",
                           report.errors.begin()->first);
      }
      const double rate = static_cast<double>(report.answered) / std::max(report.seconds, 1e-3);
      n = std::max<int64_t>(n, std::llround(rate * std::min(options_.seconds, 30.0)));
    }
    return report;
  }

  Phase OpenLoop(const char* name, double rate) {
    const int64_t n = std::max<int64_t>(1, std::llround(rate * options_.seconds));
    LoadPlan plan;
    plan.concurrency = 0;
    plan.arrivals = PoissonArrivals(n, rate, options_.seed);
    plan.max_open = 1 << 16;
    Phase phase = Judge(Load(name, plan, Bodies(n)), plan.arrivals.back());
    phase.resident_halfway = halfway_;
    phase.resident = ResidentBytes();
    phase.rate = rate;
    std::printf(
        "{\"bench\": \"overload\", \"phase\": \"%s\", \"rate\": %.3f, \"sent\": %lld, "
        "\"in_time\": %lld, \"late\": %lld, \"refused\": %lld, \"refused_without_retry_after\": "
        "%lld, \"lost\": %lld, \"goodput_per_s\": %.3f, \"answer_ms_p50\": %.1f, "
        "\"answer_ms_p99\": %.1f, \"refusal_ms_p50\": %.1f, \"refusal_ms_p99\": %.1f, "
        "\"resident_mb_halfway\": %.1f, \"resident_mb\": %.1f}\n",
        name, rate, static_cast<long long>(phase.sent), static_cast<long long>(phase.in_time),
        static_cast<long long>(phase.late), static_cast<long long>(phase.refused),
        static_cast<long long>(phase.rude), static_cast<long long>(phase.lost), phase.goodput,
        phase.answer_ms.p50, phase.answer_ms.p99, phase.refusal_ms.p50, phase.refusal_ms.p99,
        phase.resident_halfway / 1e6, phase.resident / 1e6);
    std::fflush(stdout);
    return phase;
  }

  Phase Judge(const std::vector<LoadRecord>& records, double end_s) {
    Phase phase;
    std::vector<double> answers, refusals;
    for (const LoadRecord& record : records) {
      ++phase.sent;
      const double took = record.done_s - record.sent_s;
      if (record.error.empty()) {
        answers.push_back(took);
        if (took > within_s_) ++phase.late;
        // What is answered when the load is over is no part of what it could stand.
        if (took <= within_s_ && record.done_s <= end_s) ++phase.in_time;
      } else if (record.status == 200 || record.status == 0) {
        ++phase.lost;
      } else {
        const bool polite =
            (record.status == 429 || record.status == 503) && record.has_retry_after;
        ++(polite ? phase.refused : phase.rude);
        refusals.push_back(took);
      }
    }
    phase.goodput = static_cast<double>(phase.in_time) / std::max(end_s, 1e-9);
    phase.answer_ms = SpreadOf(std::move(answers));
    phase.refusal_ms = SpreadOf(std::move(refusals));
    return phase;
  }

  std::vector<LoadRecord> Load(const char* name, const LoadPlan& plan,
                               const std::vector<LoadRequest>& requests) {
    ProgressBar bar(name, stderr, "answers");
    halfway_ = 0;
    return RunLoad(target_, plan, requests, [&](int64_t done) {
      bar.Update(done, std::ssize(requests));
      if (halfway_ == 0 && 2 * done >= std::ssize(requests)) halfway_ = ResidentBytes();
      return true;
    });
  }

  // As the server's own metrics say it; 0 if it has none.
  double ResidentBytes() const {
    constexpr std::string_view kName = "\nprocess_resident_memory_bytes ";
    LoadTarget root = target_;
    root.prefix.clear();
    const Result<std::string> metrics = Fetch(root, "/metrics");
    const size_t at = metrics.ok() ? metrics->find(kName) : std::string::npos;
    return at == std::string::npos ? 0 : std::atof(metrics->c_str() + at + kName.size());
  }

  const OverloadOptions& options_;
  const LoadTarget target_;
  BodyOptions bodies_;
  double within_s_ = 0;
  double halfway_ = 0;  // the server's memory when half of a phase's requests were done
};

Status RunOverload(const OverloadOptions& options) {
  ROSE_ASSIGN_OR_RETURN(LoadTarget target, ParseTarget(options.url, options.key));
  BodyOptions bodies;
  ROSE_ASSIGN_OR_RETURN(bodies.model, AskModel(target));
  ROSE_ASSIGN_OR_RETURN(bodies.input, ParseRange(options.input));
  ROSE_ASSIGN_OR_RETURN(bodies.output, ParseRange(options.output));
  bodies.seed = options.seed;
  return Overload(options, std::move(target), std::move(bodies)).Run();
}

}  // namespace

void AddBenchOverload(CLI::App& bench, int& exit_code) {
  auto options = std::make_shared<OverloadOptions>();  // shared with the callback
  CLI::App* command = bench.add_subcommand(
      "overload", "What a server does when it gets a multiple of what it can do");
  command->add_option("URL", options->url, "The server: http://HOST[:PORT][/v1]")
      ->capture_default_str();
  command->add_option("--key", options->key, "API key, sent as a bearer token");
  command->add_option("--input", options->input, "Words of each prompt, or a range of them")
      ->capture_default_str();
  command->add_option("--output", options->output, "Tokens of each answer, or a range of them")
      ->capture_default_str();
  command
      ->add_option("--concurrency", options->concurrency,
                   "Requests at a time while the capacity is measured")
      ->check(CLI::Range(1, 65536))
      ->capture_default_str();
  command->add_option("--seconds", options->seconds, "Of load at the capacity, and above it")
      ->check(CLI::Range(1.0, 86400.0))
      ->capture_default_str();
  command->add_option("--factor", options->factor, "Times the capacity")
      ->check(CLI::Range(1.0, 1000.0))
      ->capture_default_str();
  command
      ->add_option("--within", options->within_s,
                   "Seconds in which an answer is in time [4 times the median of the closed loop]")
      ->check(CLI::Range(0.001, 1e6));
  command->add_option("--seed", options->seed, "Of prompts, lengths and times")
      ->capture_default_str();
  command->footer(
      "First a closed loop says how many answers a second the server can give: its capacity. Then\n"
      "requests come at random times, at that rate and at a multiple of it, whatever the answers\n"
      "do. Goodput is answers in full and in time, a second. A line of JSON for each, and the\n"
      "result; exit code 1 if less than 90 % of the goodput is kept, an answer that began is "
      "lost,\n"
      "a refusal is not 429 or 503 with Retry-After, or the server's memory grows by more than\n"
      "10 % in the second half.\n"
      "\n"
      "Example:\n  rose bench overload http://127.0.0.1:8000 --seconds 60");
  command->callback([options, &exit_code] {
    if (const Status status = RunOverload(*options); !status.ok()) {
      exit_code = ReportFailure(status);
    }
  });
}

}  // namespace rose

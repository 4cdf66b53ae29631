#include "simulator/simulation.h"

#include <algorithm>
#include <chrono>
#include <deque>
#include <limits>
#include <memory>

#include "base/check.h"
#include "engine/engine_limits.h"
#include "engine/step_loop.h"
#include "engine/validate.h"
#include "simulator/virtual_executor.h"

namespace rose {
namespace {

using TimePoint = std::chrono::steady_clock::time_point;

TimePoint TimeOf(double s) {
  return TimePoint(
      std::chrono::duration_cast<TimePoint::duration>(std::chrono::duration<double>(s)));
}

// One engine and its clock.
class Replica {
 public:
  Replica(const StepCosts& costs, const SimulationSetup& setup, std::vector<LoadRecord>& records)
      : records_(records),
        executor_(setup.executor, costs, now_s_),
        decoder_(CreatePlainDecoder()),
        loop_(SchedulerLimitsOf(setup.engine), executor_, *decoder_,
              {.prefix_cache = setup.engine.prefix_cache,
               .pipeline = IsPipelined(setup.engine, setup.executor),
               .now = [this] { return TimeOf(now_s_); }}),
        most_pages_(setup.executor.pages.size(), 0) {}
  Replica(const Replica&) = delete;

  // Runs until no step begins before `s`.
  void RunTo(double s) {
    while (!loop_.idle() && now_s_ < s) {
      loop_.Step();
      for (size_t g = 0; g < most_pages_.size(); ++g) {
        const auto group = static_cast<int64_t>(g);
        const int64_t used = loop_.kv().groups()[g].pages - loop_.kv().available(group);
        most_pages_[g] = std::max(most_pages_[g], used);
      }
    }
  }

  // A request that came at `s`, to which this replica has run.
  void Add(int64_t index, double s, Request request) {
    if (loop_.idle()) now_s_ = std::max(now_s_, s);
    LoadRecord& record = records_[index];
    record.sent_s = s;
    record.prompt_tokens = std::ssize(request.prompt);
    request.submitted = TimeOf(s);
    request.on_event = [this, index](const TokenEvent& event) { Take(index, event); };
    const auto id = static_cast<RequestId>(index + 1);
    loop_.Add(id, /*seed=*/id, std::move(request));
    ++taken_;
  }

  // Unfinished requests at `s`. A step that ends later has ended them by now, but not yet by then.
  int64_t OpenAt(double s) {
    while (!ends_s_.empty() && ends_s_.front() <= s) {
      ends_s_.pop_front();
      ++ended_;
    }
    return taken_ - ended_;
  }

  void AddTo(SimulationResult& result) const {
    const EngineStats stats = loop_.stats();
    result.prefix_queries += stats.prefix_queries;
    result.prefix_hits += stats.prefix_hits;
    result.steps += stats.steps;
    result.preemptions += stats.preemptions;
    result.busy_s += executor_.busy_s();
    for (size_t g = 0; g < most_pages_.size(); ++g) {
      result.most_pages[g] = std::max(result.most_pages[g], most_pages_[g]);
    }
    result.cached_pages += stats.pages_cached;
  }

 private:
  void Take(int64_t index, const TokenEvent& event) {
    LoadRecord& record = records_[index];
    if (!event.tokens.empty()) record.token_s.push_back(now_s_);
    record.completion_tokens += std::ssize(event.tokens);
    if (event.finish == FinishReason::kNone) return;
    record.done_s = now_s_;
    if (event.finish != FinishReason::kLength) record.error = StrCat("ended early ", event.error);
    ends_s_.push_back(now_s_);
  }

  std::vector<LoadRecord>& records_;
  double now_s_ = 0;
  VirtualExecutor executor_;
  std::unique_ptr<Decoder> decoder_;
  StepLoop loop_;
  std::vector<int64_t> most_pages_;  // [group]
  std::deque<double> ends_s_;        // of those not yet counted in ended_
  int64_t taken_ = 0, ended_ = 0;
};

// Which replica gets the next request.
class Routing {
 public:
  explicit Routing(Router router) : router_(router) {}

  size_t Choose(const TraceRequest& request, const std::vector<int64_t>& open) {
    const size_t next = next_++ % open.size();
    switch (router_) {
      case Router::kRoundRobin:
        return next;
      case Router::kLeastLoaded:
        return Least(open, next);
      case Router::kPrefixAffine:
        return Affine(request, open, next);
    }
    return next;
  }

 private:
  // Of equals, the first from `from` on, so that they take turns.
  static size_t Least(const std::vector<int64_t>& open, size_t from) {
    size_t best = from;
    for (size_t i = 1; i < open.size(); ++i) {
      const size_t at = (from + i) % open.size();
      if (open[at] < open[best]) best = at;
    }
    return best;
  }

  // A prefix goes home as long as its home has at most a quarter more than the average, and a few.
  static size_t Affine(const TraceRequest& request, const std::vector<int64_t>& open, size_t from) {
    constexpr double kMoreThanAverage = 1.25;
    constexpr double kFew = 4;
    if (request.prefix_tokens == 0) return Least(open, from);
    const auto home = static_cast<size_t>(
        MadeUpToken(request.prefix, /*position=*/0, static_cast<int64_t>(open.size())));
    double sum = 0;
    for (int64_t one : open) sum += static_cast<double>(one);
    const double average = sum / static_cast<double>(open.size());
    const bool is_full = static_cast<double>(open[home]) > kMoreThanAverage * average + kFew;
    return is_full ? Least(open, from) : home;
  }

  const Router router_;
  size_t next_ = 0;
};

// The whole of it.
class Simulation {
 public:
  Simulation(const StepCosts& costs, const SimulationSetup& setup,
             const std::vector<TraceRequest>& trace)
      : setup_(setup), trace_(trace), routing_(setup.router) {
    result_.records.resize(trace.size());
    result_.most_pages.resize(setup.executor.pages.size(), 0);
    for (int64_t i = 0; i < setup.replicas; ++i) {
      replicas_.push_back(std::make_unique<Replica>(costs, setup, result_.records));
    }
    for (size_t g = 0; g < setup.executor.pages.size(); ++g) {
      groups_.push_back(
          {.window = setup.executor.kv.groups[g].window, .pages = setup.executor.pages[g]});
    }
    limits_ = {.vocab = setup.executor.vocab, .page_size = KvLayout::kPageSize, .groups = groups_};
    const int64_t largest = LargestContext(limits_, setup.executor.max_positions);
    const int64_t wanted = setup.engine.max_context;
    limits_.max_context = wanted > 0 ? std::min(wanted, largest) : largest;
    max_open_ = SchedulerLimitsOf(setup.engine).max_running +
                std::max<int64_t>(0, setup.engine.max_waiting);
  }

  SimulationResult Run(const std::function<void(int64_t)>& on_progress) {
    constexpr int64_t kProgressEvery = 64;
    for (int64_t came = 0; came < std::ssize(trace_); ++came) {
      if (came % kProgressEvery == 0) on_progress(came);
      for (auto& replica : replicas_) replica->RunTo(trace_[came].at_s);
      Route(came);
    }
    for (auto& replica : replicas_) replica->RunTo(std::numeric_limits<double>::infinity());
    on_progress(std::ssize(trace_));
    for (auto& replica : replicas_) replica->AddTo(result_);
    return std::move(result_);
  }

 private:
  void Route(int64_t index) {
    const TraceRequest& one = trace_[index];
    open_.clear();
    for (auto& replica : replicas_) open_.push_back(replica->OpenAt(one.at_s));
    const size_t chosen = routing_.Choose(one, open_);
    if (open_[chosen] >= max_open_) return Refuse(index, "all places are taken");
    Request request;
    request.prompt = PromptOf(one, index, setup_.executor.vocab);
    request.max_tokens = one.output_tokens;
    const Status valid = CheckRequest(request, limits_);
    if (!valid.ok()) return Refuse(index, valid.message());
    replicas_[chosen]->Add(index, one.at_s, std::move(request));
  }

  void Refuse(int64_t index, std::string why) {
    LoadRecord& record = result_.records[index];
    record.sent_s = record.done_s = trace_[index].at_s;
    record.error = std::move(why);
    ++result_.refused;
  }

  const SimulationSetup& setup_;
  const std::vector<TraceRequest>& trace_;
  Routing routing_;
  SimulationResult result_;
  std::vector<std::unique_ptr<Replica>> replicas_;
  std::vector<PageGroup> groups_;
  RequestLimits limits_;
  int64_t max_open_ = 0;
  std::vector<int64_t> open_;  // [replica]
};

}  // namespace

SimulationResult Simulate(const StepCosts& costs, const SimulationSetup& setup,
                          const std::vector<TraceRequest>& trace,
                          const std::function<void(int64_t)>& on_progress) {
  ROSE_CHECK_GE(setup.replicas, 1);
  return Simulation(costs, setup, trace).Run(on_progress);
}

}  // namespace rose

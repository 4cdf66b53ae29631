// StepLoop: the engine without its thread. It owns the sequences and the page accounting; every
// step plans, runs and settles. Pipelined, a step is planned and submitted while the one before
// runs. Not thread-safe. Contract: README.md.
#pragma once

#include <array>
#include <chrono>
#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "engine/decoder.h"
#include "engine/engine.h"
#include "engine/executor.h"
#include "engine/sequence.h"
#include "scheduler/scheduler.h"

namespace rose {

struct StepLoopOptions {
  bool prefix_cache = false;
  // Two steps in flight; the executor must feed draws back. Without effect on decoders that
  // propose, since they must see the draws first.
  bool pipeline = false;
  std::function<std::chrono::steady_clock::time_point()> now = std::chrono::steady_clock::now;
};

class StepLoop {
 public:
  // `executor` and `decoder` outlive the loop.
  StepLoop(const SchedulerLimits& limits, Executor& executor, Decoder& decoder,
           StepLoopOptions options = {});
  ~StepLoop();  // waits for what is in flight

  // Takes a checked request in. Ids must grow.
  void Add(RequestId id, uint64_t seed, Request request);
  // Ends a request with kCancelled and frees its pages; unknown ids are ignored.
  void Cancel(RequestId id);
  // Ends every request.
  void FinishAll(FinishReason reason, const std::string& error);

  bool idle() const { return running_.empty() && waiting_.empty() && in_flight() == 0; }
  // Submits a step, if anything can run, and settles the oldest in flight once there are as many as
  // may be; the loop must not be idle. Throws CheckFailure when the executor does; then only
  // FinishAll may follow.
  void Step();

  // Figures for EngineStats.
  EngineStats stats() const;
  const KvPages& kv() const { return kv_; }
  int64_t finished() const { return finished_; }  // requests since start

 private:
  using SequencePtr = std::shared_ptr<Sequence>;  // of a list and the steps in flight
  using TimePoint = std::chrono::steady_clock::time_point;

  // A step from its planning until it is settled.
  struct Flight {
    StepPlan plan;
    std::vector<SequencePtr> seqs;  // of every entry of the plan
  };

  // step_loop_plan.cc: who runs.
  void ProposeDrafts();
  // Preempts as far as needed, admits, and sets Sequence::rows of all that run.
  void Schedule();
  bool BeginPlanning();
  bool AdmitWaiting();
  static bool Displaces(const Sequence& seq, const Sequence& last);
  bool Admit(size_t waiting);
  void Preempt();
  // Looks up what is cached of a waiting sequence.
  void FindCached(Sequence& seq) const;
  bool IsBeingComputed(const Sequence& seq) const;
  bool IsBlocked(const Sequence& seq);
  SeqFigures FiguresOf(Sequence& seq);
  void BuildPlan(Flight& flight);
  SeqPlan PlanSequence(Sequence& seq);

  // step_loop.cc: what becomes of it.
  void Expire();
  void Submit(Flight& flight);
  void Settle();
  // Takes the draws in: extends, streams, finishes.
  void SettleSequence(Sequence& seq, const SeqPlan& plan, SeqResult result);
  // Appends draws to the output until one ends the request, and adds them to event_.
  void Extend(Sequence& seq, std::span<const SampledToken> drawn);
  void Place(Sequence& seq, int32_t token);
  // Publishes what is settled and frees what the sequence does not need any longer.
  void Tidy(Sequence& seq);
  void Finish(Sequence& seq, TokenEvent& event);
  void Deliver(const Sequence& seq, TokenEvent& event);

  int64_t in_flight() const { return submitted_ - settled_; }
  Flight& flight(int64_t step) { return flights_[step % std::ssize(flights_)]; }
  void Insert(SequencePtr seq);  // into waiting_

  Executor& executor_;
  Decoder& decoder_;
  const StepLoopOptions options_;
  const int64_t depth_;  // steps in flight at most
  KvPages kv_;
  StepPlanner planner_;
  std::vector<SequencePtr> running_;  // by rank
  std::deque<SequencePtr> waiting_;   // by rank
  TimePoint next_expiry_ = Request::kNever;
  std::array<Flight, 2> flights_;
  int64_t submitted_ = 0, settled_ = 0;  // steps since start
  TokenEvent event_;                     // the one being put together
  EngineStats totals_;                   // the sums since start; the rest is filled by stats()
  int64_t finished_ = 0;

  // Buffers of the planning. Page counts of several sequences follow each other, [groups] each.
  std::vector<SeqFigures> figures_;
  std::vector<int64_t> free_, held_, cost_;
  // The one that pages were too short for, and the slack there was, by group: until there is more,
  // nobody looks again.
  RequestId blocked_ = 0;
  std::vector<int64_t> blocked_slack_;
};

}  // namespace rose

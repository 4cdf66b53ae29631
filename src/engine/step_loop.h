// StepLoop: the engine without its thread. It owns the sequences and the page accounting; every
// step plans, runs and settles. Not thread-safe. Contract: README.md.
#pragma once

#include <deque>
#include <memory>
#include <string>
#include <vector>

#include "engine/decoder.h"
#include "engine/engine.h"
#include "engine/executor.h"
#include "engine/sequence.h"
#include "scheduler/scheduler.h"

namespace rose {

class StepLoop {
 public:
  // `executor` and `decoder` outlive the loop.
  StepLoop(const SchedulerLimits& limits, Executor& executor, Decoder& decoder,
           bool prefix_cache = false);

  // Takes a checked request in. Ids must grow: they are the age.
  void Add(RequestId id, uint64_t seed, Request request);
  // Ends a request with kCancelled and frees its pages; unknown ids are ignored.
  void Cancel(RequestId id);
  // Ends every request.
  void FinishAll(FinishReason reason, const std::string& error);

  bool idle() const { return running_.empty() && waiting_.empty(); }
  // Runs one step; there must be something to run. Throws CheckFailure when the executor does; then
  // only FinishAll may follow.
  void Step();

  // Figures for EngineStats.
  EngineStats stats() const;
  int64_t finished() const { return finished_; }  // requests since start

 private:
  using Sequences = std::deque<std::unique_ptr<Sequence>>;

  void ProposeDrafts();
  // Preempts as far as needed, and admits; returns the rows of every running one.
  std::vector<int64_t> Schedule();
  ScheduledStep Plan(bool may_admit);
  // Looks up what is cached of a waiting sequence.
  void FindCached(Sequence& seq) const;
  void Preempt();
  void Admit();
  // Fills plan_ and planned_ with the sequences that have rows.
  void BuildPlan(const std::vector<int64_t>& rows);
  SeqPlan PlanSequence(Sequence& seq, int64_t rows);
  // Takes the draws in: extends, streams, finishes.
  void Settle(StepResult result);
  void SettleSequence(Sequence& seq, const SeqPlan& plan, SeqResult result);
  void Deliver(Sequence& seq, TokenEvent event);
  // Appends draws to the output until one ends the request; the event to send for them.
  TokenEvent Extend(Sequence& seq, std::span<const SampledToken> drawn);
  void Finish(Sequence& seq, TokenEvent event);

  const SchedulerLimits limits_;
  Executor& executor_;
  Decoder& decoder_;
  KvPages kv_;
  Sequences running_;  // oldest first, all older than waiting_
  Sequences waiting_;  // oldest first
  StepPlan plan_;
  std::vector<Sequence*> planned_;  // the sequence of every entry of plan_
  EngineStats totals_;              // the sums since start; the rest is filled by stats()
  int64_t finished_ = 0;
};

}  // namespace rose

// Scheduler: who runs in the next step, and with how many rows. It decides from plain figures
// alone; the engine applies what it decides.
//
// Sequences are served by rank: whoever ranks first is served first. Admission takes the first that
// waits, preemption the last that runs, and a preempted sequence keeps its rank. The first that
// runs gets a row in every step, so every sequence becomes the first one day and ends: nobody
// starves.
//
// A step has a budget of rows. Every sequence that decodes takes one. Half of the rest belongs to
// prompts by rank, so that the first in line is soon done; the other half to those that come in,
// and then to the prompts with the least left to compute: a short question does not wait for the
// end of a long document.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "cache/kv_pages.h"

namespace rose {

struct SchedulerLimits {
  int64_t max_running = 1;      // sequences; <= max_step_tokens, so that every decode gets its row
  int64_t max_step_tokens = 1;  // rows of a step
  int64_t prefill_chunk = 1;    // most rows of one prompt in one step; 1 .. max_step_tokens
};

// What the scheduler knows of a sequence.
struct SeqFigures {
  int64_t known = 0;     // tokens of prompt and output so far
  int64_t computed = 0;  // positions with K and V in pages; == known: nothing to compute now
  int64_t draft = 0;     // draft tokens offered for verification; only if computed == known - 1
  int64_t covered = 0;   // pages of its tables, see SeqPages
  std::span<const int64_t> held;  // [group]
  // Only of one that waits and whose beginning is cached; all above is then as it will be after it
  // has taken that: [group] pages that this makes unavailable.
  std::span<const int64_t> reuse_cost;
};

// Plans one step after the other: Begin, then Admit for each that waits as long as that makes
// sense, then Finish. What a step gets depends on these calls alone, never on the steps before; the
// object only keeps its buffers, so that planning allocates nothing once they have grown.
class StepPlanner {
 public:
  StepPlanner(const SchedulerLimits& limits, std::span<const PageGroup> groups, int64_t page_size);

  // Gives their rows to those that run, first in rank first. `free`: [group] pages that can be had.
  // False: pages are short. The last that runs must give up its own and wait; then begin anew,
  // admitting nobody. (What a preemption frees depends on who shares its pages, so one at a time.)
  // What the arguments point to must stay until Finish.
  bool Begin(std::span<const SeqFigures> running, std::span<const int64_t> free);

  // Whether places and budget are left for one more.
  bool HasPlace() const { return std::ssize(rows_) < limits_.max_running && budget_ > 0; }
  // Pages of a group that nobody uses or is promised.
  int64_t Slack(size_t group);
  // The rows of the next one that waits, if it may come in; 0 if it must wait on, and with it all
  // behind it.
  int64_t Admit(const SeqFigures& seq);

  // Gives out what is left: to prompts, then to drafts. Nobody is displaced for it.
  void Finish();

  // Rows of each that runs and then of each that was admitted: known tokens first, then draft
  // tokens. 0: it waits for pages or budget, or has nothing to compute.
  std::span<const int64_t> rows() const { return rows_; }

 private:
  static int64_t Remaining(const SeqFigures& seq) { return seq.known - seq.computed; }
  void ShareBudget();
  bool FitPages(size_t i);
  int64_t LeastFree() const;
  int64_t Room(size_t i) const;
  int64_t TakePages(int64_t covered, int64_t end);
  int64_t Peak(size_t group, const SeqFigures& seq) const;
  void PromisePages();
  // Up to `most` more rows for running[i], as budget and pages allow.
  void AddRows(size_t i, int64_t most);

  const SchedulerLimits limits_;
  const std::span<const PageGroup> groups_;
  const int64_t page_size_;

  std::span<const SeqFigures> running_;
  std::vector<int64_t> rows_;      // [running and admitted]
  std::vector<int64_t> covered_;   // [running]
  std::vector<int64_t> free_;      // [group]
  std::vector<int64_t> promised_;  // [group] pages that others still take; empty = not yet known
  std::vector<size_t> prompts_;    // running ones with rows left to give
  int64_t budget_ = 0;
};

// Whether a sequence that comes to `tokens` positions can be computed when it has all pages alone.
bool CanEverFit(std::span<const PageGroup> groups, int64_t page_size, int64_t tokens);

}  // namespace rose

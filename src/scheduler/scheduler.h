// Scheduler: who runs in the next step, and with how many rows. A pure function over plain figures;
// the engine applies what it decides.
//
// Sequences are served by age. What runs is always older than what waits: admission takes the
// oldest that waits, preemption the youngest that runs, and a preempted sequence keeps its age. The
// oldest always gets a row, so every sequence becomes the oldest one day and ends: nobody starves.
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
  int64_t computed = 0;  // positions with K and V in pages; < known
  int64_t draft = 0;     // draft tokens offered for verification; only if computed == known - 1
  int64_t covered = 0;   // pages of its tables, see SeqPages
  std::span<const int64_t> held;  // [group]
  // Only of one that waits and whose beginning is cached; all above is then as it will be after it
  // has taken that: [group] pages that this makes unavailable.
  std::span<const int64_t> reuse_cost;
};

struct SchedulerInput {
  std::span<const PageGroup> groups;
  int64_t page_size = 0;
  std::span<const int64_t> free;        // [group] pages that can be had
  std::span<const SeqFigures> running;  // oldest first
  std::span<const SeqFigures> waiting;  // oldest first; the first few are enough
  bool may_admit = true;
};

struct ScheduledStep {
  // Pages are short: the youngest that runs must give up its own and wait. Then plan anew,
  // admitting nobody; the rest of this is empty. (What a preemption frees depends on who shares its
  // pages, so one at a time.)
  bool preempt = false;
  // Rows of running[i]: known tokens first, then draft tokens. 0: it waits for pages or budget.
  std::vector<int64_t> rows;
  // Rows of the sequences admitted: waiting[0 .. admitted.size()). All > 0.
  std::vector<int64_t> admitted;
};

ScheduledStep PlanStep(const SchedulerLimits& limits, const SchedulerInput& input);

// Whether a sequence that comes to `tokens` positions can be computed when it has all pages alone.
bool CanEverFit(std::span<const PageGroup> groups, int64_t page_size, int64_t tokens);

}  // namespace rose

#include "scheduler/scheduler.h"

#include <algorithm>
#include <limits>

#include "base/check.h"

namespace rose {
namespace {

// While something runs, this part of every pool is not given to new sequences: what runs grows.
constexpr int64_t kHeadroomShare = 64;

// The figures of one planning, page counts updated as rows are given out.
class Planning {
 public:
  Planning(const SchedulerLimits& limits, const SchedulerInput& input)
      : limits_(limits), in_(input), free_(input.free.begin(), input.free.end()) {
    step_.rows.assign(in_.running.size(), 0);
    covered_.reserve(in_.running.size());
    for (const SeqFigures& seq : in_.running) covered_.push_back(seq.covered);
  }

  ScheduledStep Run() {
    ShareBudget();
    for (int64_t i = 0; i < std::ssize(in_.running); ++i) {
      if (!FitPages(i)) return {.preempt = true};
    }
    if (in_.may_admit) Admit();
    AddDrafts();
    return std::move(step_);
  }

 private:
  static int64_t Remaining(const SeqFigures& seq) { return seq.known - seq.computed; }

  // Rows by budget alone: each decode one, then prompts by age. As no more run than the budget has
  // rows, the oldest prompt gets at least one.
  void ShareBudget() {
    budget_ = limits_.max_step_tokens;
    for (size_t i = 0; i < in_.running.size(); ++i) {
      if (Remaining(in_.running[i]) != 1) continue;
      step_.rows[i] = 1;
      --budget_;
    }
    for (size_t i = 0; i < in_.running.size(); ++i) {
      const int64_t chunk = std::min(Remaining(in_.running[i]), limits_.prefill_chunk);
      const int64_t more = std::min(chunk - step_.rows[i], budget_);
      if (more <= 0) continue;
      step_.rows[i] += more;
      budget_ -= more;
    }
  }

  int64_t LeastFree() const { return *std::min_element(free_.begin(), free_.end()); }

  // Rows that fit into the pages of running[i] and the free ones.
  int64_t Room(int64_t i) const {
    return (covered_[i] + LeastFree()) * in_.page_size - in_.running[i].computed;
  }

  // Takes the pages for positions below `end` of a sequence that covers `covered` pages.
  int64_t TakePages(int64_t covered, int64_t end) {
    const int64_t wanted = std::max(covered, (end + in_.page_size - 1) / in_.page_size);
    for (int64_t& free : free_) free -= wanted - covered;
    return wanted;
  }

  // Cuts the rows of running[i] to what fits; false if nothing does and a younger one must go.
  bool FitPages(int64_t i) {
    int64_t& rows = step_.rows[i];
    if (rows == 0) return true;
    if (Room(i) < 1 && i + 1 < std::ssize(in_.running)) return false;
    const int64_t fitting = std::clamp<int64_t>(Room(i), 0, rows);
    budget_ += rows - fitting;
    rows = fitting;
    covered_[i] = TakePages(covered_[i], in_.running[i].computed + rows);
    return true;
  }

  int64_t Peak(size_t group, const SeqFigures& seq) const {
    const int64_t chunk = std::min(Remaining(seq), limits_.prefill_chunk);
    return PeakPages(in_.groups[group], in_.page_size, seq.known, chunk);
  }

  // Pages that running sequences still take to come to the end of what they know, and headroom.
  std::vector<int64_t> PromisedPages() const {
    std::vector<int64_t> promised(free_.size(), 0);
    if (in_.running.empty()) return promised;
    for (size_t g = 0; g < free_.size(); ++g) {
      promised[g] = in_.groups[g].pages / kHeadroomShare;
      for (size_t i = 0; i < in_.running.size(); ++i) {
        const int64_t held = in_.running[i].held[g] + covered_[i] - in_.running[i].covered;
        promised[g] += std::max<int64_t>(0, Peak(g, in_.running[i]) - held);
      }
    }
    return promised;
  }

  void Admit() {
    std::vector<int64_t> promised = PromisedPages();
    for (const SeqFigures& seq : in_.waiting) {
      const int64_t running = std::ssize(in_.running) + std::ssize(step_.admitted);
      if (running >= limits_.max_running || budget_ == 0) return;
      const auto cost = [&](size_t g) { return seq.reuse_cost.empty() ? 0 : seq.reuse_cost[g]; };
      int64_t least = std::numeric_limits<int64_t>::max();
      for (size_t g = 0; g < free_.size(); ++g) {
        const int64_t growth = std::max<int64_t>(0, Peak(g, seq) - seq.held[g]);
        // Alone, a sequence needs no promise: it fits in smaller chunks if need be (CanEverFit).
        if (running > 0 && cost(g) + growth + promised[g] > free_[g]) return;
        least = std::min(least, free_[g] - cost(g));
      }
      const int64_t room = (seq.covered + least) * in_.page_size - seq.computed;
      const int64_t rows = std::min({Remaining(seq), limits_.prefill_chunk, budget_, room});
      if (rows < 1) return;
      for (size_t g = 0; g < free_.size(); ++g) free_[g] -= cost(g);
      const int64_t taken = TakePages(seq.covered, seq.computed + rows) - seq.covered;
      for (size_t g = 0; g < free_.size(); ++g) {
        promised[g] += std::max<int64_t>(0, Peak(g, seq) - seq.held[g] - taken);
      }
      budget_ -= rows;
      step_.admitted.push_back(rows);
    }
  }

  // Drafts take what is left of budget and pages, and displace nobody.
  void AddDrafts() {
    for (int64_t i = 0; i < std::ssize(in_.running); ++i) {
      const SeqFigures& seq = in_.running[i];
      if (seq.draft == 0 || step_.rows[i] != Remaining(seq)) continue;
      const int64_t more = std::min({seq.draft, budget_, Room(i) - step_.rows[i]});
      if (more <= 0) continue;
      step_.rows[i] += more;
      budget_ -= more;
      covered_[i] = TakePages(covered_[i], seq.computed + step_.rows[i]);
    }
  }

  const SchedulerLimits& limits_;
  const SchedulerInput& in_;
  std::vector<int64_t> free_;     // [group]
  std::vector<int64_t> covered_;  // [running]
  int64_t budget_ = 0;
  ScheduledStep step_;
};

}  // namespace

ScheduledStep PlanStep(const SchedulerLimits& limits, const SchedulerInput& input) {
  ROSE_CHECK(limits.prefill_chunk >= 1 && limits.prefill_chunk <= limits.max_step_tokens,
             "prefill_chunk=", limits.prefill_chunk, " max_step_tokens=", limits.max_step_tokens);
  ROSE_CHECK(limits.max_running >= 1 && limits.max_running <= limits.max_step_tokens,
             "max_running=", limits.max_running, " max_step_tokens=", limits.max_step_tokens);
  ROSE_CHECK_LE(static_cast<int64_t>(input.running.size()), limits.max_running);
  return Planning(limits, input).Run();
}

bool CanEverFit(std::span<const PageGroup> groups, int64_t page_size, int64_t tokens) {
  for (const PageGroup& group : groups) {
    if (PeakPages(group, page_size, tokens, /*chunk=*/1) > group.pages) return false;
  }
  return true;
}

}  // namespace rose

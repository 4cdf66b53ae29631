#include "scheduler/scheduler.h"

#include <algorithm>
#include <limits>

#include "base/check.h"

namespace rose {
namespace {

// While something runs, this part of every pool is not given to new sequences: what runs grows.
constexpr int64_t kHeadroomShare = 64;

}  // namespace

StepPlanner::StepPlanner(const SchedulerLimits& limits, std::span<const PageGroup> groups,
                         int64_t page_size)
    : limits_(limits), groups_(groups), page_size_(page_size) {
  ROSE_CHECK(limits.prefill_chunk >= 1 && limits.prefill_chunk <= limits.max_step_tokens,
             "prefill_chunk=", limits.prefill_chunk, " max_step_tokens=", limits.max_step_tokens);
  ROSE_CHECK(limits.max_running >= 1 && limits.max_running <= limits.max_step_tokens,
             "max_running=", limits.max_running, " max_step_tokens=", limits.max_step_tokens);
}

bool StepPlanner::Begin(std::span<const SeqFigures> running, std::span<const int64_t> free) {
  ROSE_CHECK_LE(std::ssize(running), limits_.max_running);
  ROSE_CHECK_EQ(free.size(), groups_.size());
  running_ = running;
  free_.assign(free.begin(), free.end());
  rows_.assign(running.size(), 0);
  covered_.clear();
  for (const SeqFigures& seq : running) covered_.push_back(seq.covered);
  promised_.clear();
  ShareBudget();
  for (size_t i = 0; i < running.size(); ++i) {
    if (!FitPages(i)) return false;
  }
  return true;
}

// Rows by budget alone: each decode one, then prompts by rank, up to half of what is left. As no
// more run than the budget has rows, the first in rank gets at least one.
void StepPlanner::ShareBudget() {
  budget_ = limits_.max_step_tokens;
  for (size_t i = 0; i < running_.size(); ++i) {
    if (Remaining(running_[i]) != 1) continue;
    rows_[i] = 1;
    --budget_;
  }
  int64_t half = (budget_ + 1) / 2;
  for (size_t i = 0; i < running_.size() && half > 0; ++i) {
    if (rows_[i] > 0) continue;
    rows_[i] = std::min({Remaining(running_[i]), limits_.prefill_chunk, half});
    half -= rows_[i];
    budget_ -= rows_[i];
  }
}

int64_t StepPlanner::LeastFree() const {
  return *std::min_element(free_.begin(), free_.end());
}

// Rows that fit into the pages of running[i] and the free ones.
int64_t StepPlanner::Room(size_t i) const {
  return (covered_[i] + LeastFree()) * page_size_ - running_[i].computed;
}

// Takes the pages for positions below `end` of a sequence that covers `covered` pages.
int64_t StepPlanner::TakePages(int64_t covered, int64_t end) {
  const int64_t wanted = std::max(covered, (end + page_size_ - 1) / page_size_);
  for (int64_t& free : free_) free -= wanted - covered;
  return wanted;
}

// Cuts the rows of running[i] to what fits; false if nothing does and one behind it must go.
bool StepPlanner::FitPages(size_t i) {
  int64_t& rows = rows_[i];
  if (rows == 0) return true;
  if (Room(i) < 1 && i + 1 < running_.size()) return false;
  const int64_t fitting = std::clamp<int64_t>(Room(i), 0, rows);
  budget_ += rows - fitting;
  rows = fitting;
  covered_[i] = TakePages(covered_[i], running_[i].computed + rows);
  return true;
}

int64_t StepPlanner::Peak(size_t group, const SeqFigures& seq) const {
  const int64_t chunk = std::min(Remaining(seq), limits_.prefill_chunk);
  return PeakPages(groups_[group], page_size_, seq.known, chunk);
}

// Pages that running sequences still take to come to the end of what they know, and headroom.
void StepPlanner::PromisePages() {
  promised_.assign(free_.size(), 0);
  if (running_.empty()) return;
  for (size_t g = 0; g < free_.size(); ++g) {
    promised_[g] = groups_[g].pages / kHeadroomShare;
    for (size_t i = 0; i < running_.size(); ++i) {
      const int64_t held = running_[i].held[g] + covered_[i] - running_[i].covered;
      promised_[g] += std::max<int64_t>(0, Peak(g, running_[i]) - held);
    }
  }
}

int64_t StepPlanner::Slack(size_t group) {
  if (promised_.empty()) PromisePages();
  return free_[group] - promised_[group];
}

int64_t StepPlanner::Admit(const SeqFigures& seq) {
  if (!HasPlace()) return 0;
  if (promised_.empty()) PromisePages();
  const auto cost = [&](size_t g) { return seq.reuse_cost.empty() ? 0 : seq.reuse_cost[g]; };
  int64_t least = std::numeric_limits<int64_t>::max();
  for (size_t g = 0; g < free_.size(); ++g) {
    const int64_t growth = std::max<int64_t>(0, Peak(g, seq) - seq.held[g]);
    // Alone, a sequence needs no promise: it fits in smaller chunks if need be (CanEverFit).
    if (!rows_.empty() && cost(g) + growth > Slack(g)) return 0;
    least = std::min(least, free_[g] - cost(g));
  }
  const int64_t room = (seq.covered + least) * page_size_ - seq.computed;
  const int64_t rows = std::min({Remaining(seq), limits_.prefill_chunk, budget_, room});
  if (rows < 1) return 0;
  for (size_t g = 0; g < free_.size(); ++g) free_[g] -= cost(g);
  const int64_t taken = TakePages(seq.covered, seq.computed + rows) - seq.covered;
  for (size_t g = 0; g < free_.size(); ++g) {
    promised_[g] += std::max<int64_t>(0, Peak(g, seq) - seq.held[g] - taken);
  }
  budget_ -= rows;
  rows_.push_back(rows);
  return rows;
}

void StepPlanner::AddRows(size_t i, int64_t most) {
  const int64_t more = std::min({most, budget_, Room(i) - rows_[i]});
  if (more <= 0) return;
  rows_[i] += more;
  budget_ -= more;
  covered_[i] = TakePages(covered_[i], running_[i].computed + rows_[i]);
}

void StepPlanner::Finish() {
  const auto left = [&](size_t i) { return Remaining(running_[i]) - rows_[i]; };
  prompts_.clear();
  for (size_t i = 0; i < running_.size() && budget_ > 0; ++i) {
    if (left(i) > 0) prompts_.push_back(i);
  }
  std::sort(prompts_.begin(), prompts_.end(),
            [&](size_t a, size_t b) { return left(a) != left(b) ? left(a) < left(b) : a < b; });
  for (size_t i : prompts_) AddRows(i, std::min(left(i), limits_.prefill_chunk - rows_[i]));
  for (size_t i = 0; i < running_.size(); ++i) {
    if (running_[i].draft > 0 && left(i) == 0) AddRows(i, running_[i].draft);
  }
}

bool CanEverFit(std::span<const PageGroup> groups, int64_t page_size, int64_t tokens) {
  for (const PageGroup& group : groups) {
    if (PeakPages(group, page_size, tokens, /*chunk=*/1) > group.pages) return false;
  }
  return true;
}

}  // namespace rose

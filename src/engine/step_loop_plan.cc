// Who runs in a step: drafts, preemption, admission, and the plan that the executor gets.
#include <algorithm>
#include <utility>

#include "base/check.h"
#include "engine/step_loop.h"

namespace rose {
namespace {

// No more that wait are looked at in one step: finding what is cached takes time.
constexpr int64_t kMostLookedAt = 32;

constexpr auto kByRank = [](const auto& a, const auto& b) { return a->rank < b->rank; };

}  // namespace

void StepLoop::Insert(SequencePtr seq) {
  const auto at = std::upper_bound(waiting_.begin(), waiting_.end(), seq, kByRank);
  waiting_.insert(at, std::move(seq));
}

void StepLoop::ProposeDrafts() {
  if (!decoder_.proposes()) return;
  for (auto& seq : running_) {
    seq->draft.clear();
    // The last token allowed cannot be followed by another.
    const int64_t most = seq->request.max_tokens - (seq->known - seq->prompt_tokens) - 1;
    if (seq->computed != seq->known - 1 || most <= 0) continue;
    seq->draft = decoder_.Propose(seq->id, seq->tokens);
    if (static_cast<int64_t>(seq->draft.size()) > most) seq->draft.resize(most);
    for (int32_t id : seq->draft) {
      ROSE_CHECK(id >= 0 && id < executor_.info().vocab, "draft of request ", seq->id, " has ", id);
    }
  }
}

void StepLoop::Schedule() {
  bool may_admit = true;
  do {
    while (!BeginPlanning()) {
      ROSE_CHECK_GT(running_.size(), 1u);
      Preempt();
      may_admit = false;  // pages are short
    }
  } while (may_admit && !AdmitWaiting());
  planner_.Finish();
  // Those admitted stand at the end until their rows are known.
  for (size_t i = 0; i < running_.size(); ++i) running_[i]->rows = planner_.rows()[i];
  if (!std::is_sorted(running_.begin(), running_.end(), kByRank)) {
    std::sort(running_.begin(), running_.end(), kByRank);
  }
}

bool StepLoop::BeginPlanning() {
  const int64_t groups = std::ssize(kv_.groups());
  free_.clear();
  for (int64_t g = 0; g < groups; ++g) free_.push_back(kv_.available(g));
  figures_.clear();
  for (const SequencePtr& seq : running_) {
    figures_.push_back({.known = seq->known,
                        .computed = seq->full() ? seq->known : seq->computed,
                        .draft = std::ssize(seq->draft),
                        .covered = seq->pages.covered,
                        .held = seq->pages.held});
  }
  return planner_.Begin(figures_, free_);
}

// False if one that ran had to make place: the step must be planned anew.
bool StepLoop::AdmitWaiting() {
  const size_t ran = running_.size();
  int64_t looked_at = 0;
  for (size_t i = 0; i < waiting_.size() && looked_at < kMostLookedAt;) {
    Sequence& seq = *waiting_[i];
    if (seq.step >= settled_) {
      ++i;  // sent back while its last step is in flight, whose draw it needs
      continue;
    }
    if (planner_.HasPlace() && !IsBlocked(seq)) {
      ++looked_at;
      FindCached(seq);
      if (IsBeingComputed(seq)) {
        ++i;  // it waits for pages that another computes, and nobody behind it does
        continue;
      }
      if (Admit(i)) continue;
    }
    // One of a better priority displaces the last that runs, unless somebody came in just now.
    if (running_.size() != ran || ran == 0 || !Displaces(seq, *running_.back())) return true;
    Preempt();
    return false;
  }
  return true;
}

bool StepLoop::Displaces(const Sequence& seq, const Sequence& last) {
  return seq.request.priority < last.request.priority && seq.rank < last.rank;
}

// Pages were too short for it, and no more can be promised since.
bool StepLoop::IsBlocked(const Sequence& seq) {
  if (seq.id != blocked_ || running_.empty()) return false;
  for (size_t g = 0; g < blocked_slack_.size(); ++g) {
    if (planner_.Slack(g) > blocked_slack_[g]) return false;
  }
  return true;
}

bool StepLoop::Admit(size_t at) {
  if (planner_.Admit(FiguresOf(*waiting_[at])) == 0) {
    blocked_ = waiting_[at]->id;
    blocked_slack_.clear();
    for (size_t g = 0; g < free_.size(); ++g) blocked_slack_.push_back(planner_.Slack(g));
    return false;
  }
  running_.push_back(std::move(waiting_[at]));
  waiting_.erase(waiting_.begin() + static_cast<std::ptrdiff_t>(at));
  Sequence& seq = *running_.back();
  seq.running = true;
  // What is reused is in use before any new page is taken, which may evict others.
  seq.computed = seq.settled = kv_.Reuse(seq.pages, seq.match);
  seq.match = {};
  const int64_t most = seq.prompt_tokens + seq.request.max_tokens;
  seq.tokens.reserve(most);
  kv_.Reserve(seq.pages, most);
  if (seq.admitted) return true;
  seq.admitted = true;
  seq.cached = std::min(seq.computed, seq.prompt_tokens);
  totals_.prompt_tokens += seq.prompt_tokens;
  totals_.prefix_queries += seq.prompt_tokens;
  totals_.prefix_hits += seq.cached;
  totals_.prefix_host_hits += seq.pages.host_tokens;
  const auto waited = options_.now() - seq.request.submitted;
  seq.queued_ms = std::chrono::duration<double, std::milli>(waited).count();
  return true;
}

// Sends the last back to wait. What it said stays said: its tokens are computed anew, as a prompt.
void StepLoop::Preempt() {
  SequencePtr seq = std::move(running_.back());
  running_.pop_back();
  kv_.Release(seq->pages);
  seq->running = false;
  seq->computed = seq->settled = 0;
  seq->draft.clear();
  ++totals_.preemptions;
  Insert(std::move(seq));
}

void StepLoop::FindCached(Sequence& seq) const {
  seq.match = {};
  // Logprobs of a prompt come from rows, so those that are not out yet must be computed.
  const bool scores = seq.request.prompt_logprobs >= 0 && seq.scored < seq.prompt_tokens - 1;
  const int64_t most = scores ? seq.scored : seq.known - 1;
  if (most > 0) seq.match = kv_.Find(seq.request.cache_salt, std::span(seq.tokens).first(most));
}

// Whether one that runs is about to compute the page behind what was found for a waiting one.
bool StepLoop::IsBeingComputed(const Sequence& seq) const {
  const int64_t page = kv_.page_size();
  const auto found = std::ssize(seq.match.path);
  const int64_t end = (found + 1) * page;
  if (!options_.prefix_cache || seq.request.prompt_logprobs >= 0 || end > seq.known - 1)
    return false;
  return std::any_of(running_.begin(), running_.end(), [&](const SequencePtr& other) {
    const std::vector<PrefixTree::Node*>& nodes = other->pages.nodes;
    return std::ssize(nodes) == found && end <= other->prompt_tokens &&
           (found == 0 ? other->request.cache_salt == seq.request.cache_salt
                       : nodes.back() == seq.match.path.back()) &&
           std::equal(seq.tokens.begin() + (end - page), seq.tokens.begin() + end,
                      other->tokens.begin() + (end - page));
  });
}

// Of one that waits, as it would be with what was found for it.
SeqFigures StepLoop::FiguresOf(Sequence& seq) {
  held_.clear();
  cost_.clear();
  for (int64_t g = 0; g < std::ssize(kv_.groups()); ++g) {
    held_.push_back(kv_.ReuseHeld(seq.match, g));
    cost_.push_back(kv_.ReuseCost(seq.match, g));
  }
  return {.known = seq.known,
          .computed = seq.match.tokens(kv_.page_size()),
          .covered = std::ssize(seq.match.path),
          .held = held_,
          .reuse_cost = cost_};
}

// The plan has its own copy of the page tables: while it is in flight, pages are given back and
// taken already for the steps behind it.
void StepLoop::BuildPlan(Flight& flight) {
  StepPlan& plan = flight.plan;
  plan.seqs.clear();
  plan.tables.clear();
  plan.page_ids.clear();
  flight.seqs.clear();
  for (const SequencePtr& seq : running_) {
    if (seq->rows == 0) continue;
    kv_.Cover(seq->pages, seq->computed + seq->rows);
    for (const auto& table : seq->pages.tables)
      plan.page_ids.insert(plan.page_ids.end(), table.begin(), table.end());
    flight.seqs.push_back(seq);
  }
  kv_.TakeCopies(plan.copies);
  const int64_t groups = std::ssize(kv_.groups());
  std::span<const int32_t> rest = plan.page_ids;
  for (const SequencePtr& seq : flight.seqs) {
    for (int64_t g = 0; g < groups; ++g) {
      plan.tables.push_back(rest.first(seq->pages.covered));
      rest = rest.subspan(seq->pages.covered);
    }
  }
  for (size_t i = 0; i < flight.seqs.size(); ++i) {
    plan.seqs.push_back(PlanSequence(*flight.seqs[i]));
    plan.seqs.back().pages = std::span(plan.tables).subspan(i * groups, groups);
  }
}

SeqPlan StepLoop::PlanSequence(Sequence& seq) {
  const int64_t end = seq.computed + seq.rows;
  const int64_t drafted = std::max<int64_t>(0, end - seq.known);
  seq.draft.resize(drafted);
  seq.tokens.insert(seq.tokens.end(), seq.draft.begin(), seq.draft.end());

  SeqPlan plan;
  plan.id = seq.id;
  plan.start = seq.computed;
  plan.history = std::span(seq.tokens).first(end);
  plan.tokens = plan.history.subspan(seq.computed);
  plan.samples = end < seq.known ? 0 : 1 + drafted;
  plan.sampling = &seq.request.sampling;
  plan.seed = seq.seed;
  plan.prompt_tokens = seq.prompt_tokens;
  plan.forbidden_ids = seq.request.stop_ids;
  plan.forbidden_until = seq.prompt_tokens + seq.request.min_tokens;
  plan.constraint = seq.request.constraint.get();
  if (seq.unknown > 0) {
    ROSE_CHECK(seq.unknown == 1 && end == seq.known && seq.step == submitted_ - 1, "request ",
               seq.id, ": ", seq.unknown, " draws in flight");
    plan.fed_from = seq.plan_index;
    plan.fed_token = &seq.tokens[end - 1];
    seq.fed = true;
  }
  if (seq.request.prompt_logprobs >= 0) {
    // The row at p tells the logprob of the token at p + 1. After a preemption rows come again
    // whose logprobs are out.
    plan.score_from = std::max(seq.computed, seq.scored);
    plan.scored = std::max<int64_t>(0, std::min(end, seq.prompt_tokens - 1) - plan.score_from);
    plan.score_top = seq.request.prompt_logprobs;
  }
  return plan;
}

}  // namespace rose

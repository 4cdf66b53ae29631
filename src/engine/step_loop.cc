#include "engine/step_loop.h"

#include <algorithm>
#include <cstdio>
#include <utility>

#include "base/check.h"

namespace rose {
namespace {

std::vector<PageGroup> GroupsOf(const ExecutorInfo& info) {
  ROSE_CHECK_EQ(info.kv.groups.size(), info.pages.size());
  std::vector<PageGroup> groups;
  for (size_t g = 0; g < info.pages.size(); ++g) {
    groups.push_back({.window = info.kv.groups[g].window,
                      .pages = info.pages[g],
                      .host_pages = info.host_pages.empty() ? 0 : info.host_pages[g]});
  }
  return groups;
}

// More are not admitted in one step: finding what is cached takes time.
constexpr int64_t kMostAdmitted = 32;

int64_t OutputTokens(const Sequence& seq) {
  return seq.known - seq.prompt_tokens;
}

TokenEvent FinalEvent(FinishReason reason, const std::string& error) {
  TokenEvent event;
  event.finish = reason;
  event.error = error;
  return event;
}

}  // namespace

StepLoop::StepLoop(const SchedulerLimits& limits, Executor& executor, Decoder& decoder,
                   bool prefix_cache)
    : limits_(limits),
      executor_(executor),
      decoder_(decoder),
      kv_(GroupsOf(executor.info()), KvLayout::kPageSize, prefix_cache) {}

void StepLoop::Add(RequestId id, uint64_t seed, Request request) {
  auto seq = std::make_unique<Sequence>();
  seq->id = id;
  seq->seed = seed;
  seq->tokens = std::move(request.prompt);
  seq->request = std::move(request);
  seq->prompt_tokens = seq->known = static_cast<int64_t>(seq->tokens.size());
  seq->pages = kv_.NewSequence();
  seq->pages.marks[0] = seq->prompt_tokens;
  waiting_.push_back(std::move(seq));
}

void StepLoop::Cancel(RequestId id) {
  for (Sequences* seqs : {&running_, &waiting_}) {
    const auto at = std::find_if(seqs->begin(), seqs->end(), [&](auto& s) { return s->id == id; });
    if (at == seqs->end()) continue;
    Finish(**at, FinalEvent(FinishReason::kCancelled, ""));
    seqs->erase(at);
    return;
  }
}

void StepLoop::FinishAll(FinishReason reason, const std::string& error) {
  for (Sequences* seqs : {&running_, &waiting_}) {
    for (auto& seq : *seqs) {
      if (!seq->finished) Finish(*seq, FinalEvent(reason, error));
    }
    seqs->clear();
  }
}

void StepLoop::Step() {
  ProposeDrafts();
  BuildPlan(Schedule());
  ROSE_CHECK(!plan_.seqs.empty(), "no progress: running=", running_.size(),
             " waiting=", waiting_.size(), " pages used=", kv_.used_pages());
  executor_.Submit(plan_);
  StepResult result = executor_.Wait();
  Settle(std::move(result));
  ++totals_.steps;
  if (idle()) ROSE_CHECK_EQ(kv_.used_pages(), 0);
}

void StepLoop::ProposeDrafts() {
  for (auto& seq : running_) {
    seq->draft.clear();
    // The last token allowed cannot be followed by another.
    const int64_t most = seq->request.max_tokens - OutputTokens(*seq) - 1;
    if (seq->computed != seq->known - 1 || most <= 0) continue;
    seq->draft = decoder_.Propose(seq->id, seq->tokens);
    if (static_cast<int64_t>(seq->draft.size()) > most) seq->draft.resize(most);
    for (int32_t id : seq->draft) {
      ROSE_CHECK(id >= 0 && id < executor_.info().vocab, "draft of request ", seq->id, " has ", id);
    }
  }
}

std::vector<int64_t> StepLoop::Schedule() {
  ScheduledStep step = Plan(/*may_admit=*/true);
  while (step.preempt) {
    ROSE_CHECK_GT(running_.size(), 1u);
    Preempt();
    // Who was just preempted must not come back in the same step.
    step = Plan(/*may_admit=*/false);
  }
  // All that is reused is in use before the first new page is taken, which may evict others.
  for (size_t i = 0; i < step.admitted.size(); ++i) Admit();
  step.rows.insert(step.rows.end(), step.admitted.begin(), step.admitted.end());
  return std::move(step.rows);
}

ScheduledStep StepLoop::Plan(bool may_admit) {
  const int64_t groups = std::ssize(kv_.groups());
  std::vector<int64_t> free;
  for (int64_t g = 0; g < groups; ++g) free.push_back(kv_.available(g));
  std::vector<SeqFigures> running, waiting;
  running.reserve(running_.size());
  for (const auto& seq : running_) {
    running.push_back({.known = seq->known,
                       .computed = seq->computed,
                       .draft = std::ssize(seq->draft),
                       .covered = seq->pages.covered,
                       .held = seq->pages.held});
  }
  const int64_t candidates =
      may_admit ? std::min({std::ssize(waiting_), limits_.max_running - std::ssize(running_),
                            kMostAdmitted})
                : 0;
  // [candidate * groups]
  std::vector<int64_t> held(candidates * groups), cost(candidates * groups);
  for (int64_t i = 0; i < candidates; ++i) {
    Sequence& seq = *waiting_[i];
    FindCached(seq);
    for (int64_t g = 0; g < groups; ++g) {
      held[i * groups + g] = kv_.ReuseHeld(seq.match, g);
      cost[i * groups + g] = kv_.ReuseCost(seq.match, g);
    }
    waiting.push_back({.known = seq.known,
                       .computed = seq.match.tokens(kv_.page_size()),
                       .covered = std::ssize(seq.match.path),
                       .held = std::span(held).subspan(i * groups, groups),
                       .reuse_cost = std::span(cost).subspan(i * groups, groups)});
  }
  return PlanStep(limits_, {.groups = kv_.groups(),
                            .page_size = kv_.page_size(),
                            .free = free,
                            .running = running,
                            .waiting = waiting,
                            .may_admit = may_admit});
}

void StepLoop::FindCached(Sequence& seq) const {
  seq.match = {};
  // Logprobs of a prompt come from rows, so all must be computed.
  if (seq.request.prompt_logprobs >= 0) return;
  seq.match = kv_.Find(seq.request.cache_salt, std::span(seq.tokens).first(seq.known - 1));
}

// Sends the youngest back to wait. What it said stays said: its tokens are computed anew, as a
// prompt.
void StepLoop::Preempt() {
  Sequence& seq = *running_.back();
  kv_.Release(seq.pages);
  seq.computed = 0;
  seq.draft.clear();
  waiting_.push_front(std::move(running_.back()));
  running_.pop_back();
  ++totals_.preemptions;
}

void StepLoop::Admit() {
  running_.push_back(std::move(waiting_.front()));
  waiting_.pop_front();
  Sequence& seq = *running_.back();
  seq.computed = kv_.Reuse(seq.pages, seq.match);
  seq.match = {};
  if (seq.admitted) return;
  seq.admitted = true;
  seq.cached = std::min(seq.computed, seq.prompt_tokens);
  totals_.prompt_tokens += seq.prompt_tokens;
  totals_.prefix_queries += seq.prompt_tokens;
  totals_.prefix_hits += seq.cached;
  totals_.prefix_host_hits += seq.pages.host_tokens;
  const auto waited = std::chrono::steady_clock::now() - seq.request.submitted;
  seq.queued_ms = std::chrono::duration<double, std::milli>(waited).count();
}

void StepLoop::BuildPlan(const std::vector<int64_t>& rows) {
  plan_.seqs.clear();
  planned_.clear();
  for (size_t i = 0; i < rows.size(); ++i) {
    if (rows[i] == 0) continue;
    plan_.seqs.push_back(PlanSequence(*running_[i], rows[i]));
    planned_.push_back(running_[i].get());
  }
  kv_.TakeCopies(plan_.copies);
}

SeqPlan StepLoop::PlanSequence(Sequence& seq, int64_t rows) {
  const int64_t end = seq.computed + rows;
  kv_.Cover(seq.pages, end);
  const int64_t drafted = std::max<int64_t>(0, end - seq.known);
  seq.draft.resize(drafted);
  seq.tokens.insert(seq.tokens.end(), seq.draft.begin(), seq.draft.end());

  SeqPlan plan;
  plan.id = seq.id;
  plan.start = seq.computed;
  plan.history = std::span(seq.tokens).first(end);
  plan.tokens = plan.history.subspan(seq.computed);
  for (const auto& table : seq.pages.tables) plan.pages.emplace_back(table);
  plan.samples = end < seq.known ? 0 : 1 + drafted;
  plan.sampling = &seq.request.sampling;
  plan.seed = seq.seed;
  plan.prompt_tokens = seq.prompt_tokens;
  plan.forbidden_ids = seq.request.stop_ids;
  plan.forbidden_until = seq.prompt_tokens + seq.request.min_tokens;
  plan.constraint = seq.request.constraint.get();
  if (seq.request.prompt_logprobs >= 0) {
    // The row at p tells the logprob of the token at p + 1. After a preemption rows come again
    // whose logprobs are out.
    plan.score_from = std::max(seq.computed, seq.scored);
    plan.scored = std::max<int64_t>(0, std::min(end, seq.prompt_tokens - 1) - plan.score_from);
    plan.score_top = seq.request.prompt_logprobs;
  }
  return plan;
}

void StepLoop::Settle(StepResult result) {
  ROSE_CHECK_EQ(result.seqs.size(), planned_.size());
  for (size_t i = 0; i < planned_.size(); ++i) {
    SettleSequence(*planned_[i], plan_.seqs[i], std::move(result.seqs[i]));
  }
  std::erase_if(running_, [](const auto& seq) { return seq->finished; });
}

void StepLoop::SettleSequence(Sequence& seq, const SeqPlan& plan, SeqResult result) {
  seq.tokens.resize(seq.known);  // the draft's part in the step is over
  TokenEvent event;
  if (!result.sampled.empty()) {
    ROSE_CHECK_LE(std::ssize(result.sampled), plan.samples);
    const int64_t kept = decoder_.Accept(seq.draft, result.sampled);
    ROSE_CHECK(kept >= 1 && kept <= std::ssize(result.sampled), "kept=", kept, " of ",
               result.sampled.size());
    event = Extend(seq, std::span(result.sampled).first(kept));
    // K and V of accepted draft tokens are right; those of rejected ones lie at positions that the
    // next steps compute, and so overwrite, before they read them.
    seq.computed = seq.known - 1;
  } else {
    ROSE_CHECK(plan.samples == 0 || !result.error.empty(), "request ", seq.id, " has no draw");
    seq.computed += std::ssize(plan.tokens);
  }
  if (result.error.empty()) ROSE_CHECK_EQ(std::ssize(result.scored), plan.scored);
  seq.scored += std::ssize(result.scored);
  event.prompt = std::move(result.scored);
  if (!result.error.empty() && event.finish == FinishReason::kNone) {
    std::fprintf(stderr, "rose: request %llu fails: %s\n", static_cast<unsigned long long>(seq.id),
                 result.error.c_str());
    event.finish = FinishReason::kError;
    event.error = std::move(result.error);
  }
  Deliver(seq, std::move(event));
}

// Sends an event, if there is news, and frees what the sequence does not need any longer.
void StepLoop::Deliver(Sequence& seq, TokenEvent event) {
  if (event.finish != FinishReason::kNone) return Finish(seq, std::move(event));
  kv_.Publish(seq.pages, seq.request.cache_salt, std::span(seq.tokens).first(seq.computed));
  kv_.Slide(seq.pages, seq.computed);
  if (event.tokens.empty() && event.prompt.empty()) return;
  event.id = seq.id;
  event.cached_tokens = seq.cached;
  event.queued_ms = seq.queued_ms;
  if (seq.request.on_event) seq.request.on_event(event);
}

TokenEvent StepLoop::Extend(Sequence& seq, std::span<const SampledToken> drawn) {
  TokenEvent event;
  for (const SampledToken& token : drawn) {
    ROSE_CHECK(token.id >= 0 && token.id < executor_.info().vocab, "request ", seq.id, " drew ",
               token.id, " of a vocabulary of ", executor_.info().vocab);
    seq.tokens.push_back(token.id);
    ++seq.known;
    ++totals_.generated_tokens;
    event.tokens.push_back(token);
    const std::vector<int32_t>& stops = seq.request.stop_ids;
    if (std::find(stops.begin(), stops.end(), token.id) != stops.end()) {
      event.finish = FinishReason::kStop;
      event.stop_id = token.id;
      break;
    }
    if (OutputTokens(seq) == seq.request.max_tokens) {
      event.finish = FinishReason::kLength;
      break;
    }
  }
  return event;
}

void StepLoop::Finish(Sequence& seq, TokenEvent event) {
  // What a failed step left in its pages is not for others.
  if (event.finish != FinishReason::kError)
    kv_.Publish(seq.pages, seq.request.cache_salt, std::span(seq.tokens).first(seq.computed));
  kv_.Release(seq.pages);
  seq.finished = true;
  ++finished_;
  event.id = seq.id;
  event.cached_tokens = seq.cached;
  event.queued_ms = seq.queued_ms;
  if (seq.request.on_event) seq.request.on_event(event);
}

EngineStats StepLoop::stats() const {
  EngineStats stats = totals_;
  stats.running = static_cast<int64_t>(running_.size());
  stats.waiting = static_cast<int64_t>(waiting_.size());
  stats.pages_total = kv_.total_pages();
  stats.pages_used = kv_.used_pages();
  stats.pages_cached = kv_.cached_pages();
  stats.host_pages_total = kv_.host_pages();
  stats.host_pages_used = kv_.host_pages_used();
  stats.pages_swapped_out = kv_.swapped_out();
  stats.pages_swapped_in = kv_.swapped_in();
  return stats;
}

}  // namespace rose

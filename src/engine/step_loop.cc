// Intake, the turn of a step, and what becomes of its result. Who runs: step_loop_plan.cc.
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

Rank RankOf(RequestId id, const Request& request) {
  // Far more than any server runs, and far from overflow.
  constexpr int64_t kMostSeconds = 1'000'000'000;
  const int64_t seconds = std::clamp(request.priority, -kMostSeconds, kMostSeconds);
  return {.due = request.submitted + std::chrono::seconds(seconds), .id = id};
}

TokenEvent FinalEvent(FinishReason reason, const std::string& error) {
  TokenEvent event;
  event.finish = reason;
  event.error = error;
  return event;
}

}  // namespace

StepLoop::StepLoop(const SchedulerLimits& limits, Executor& executor, Decoder& decoder,
                   StepLoopOptions options)
    : executor_(executor),
      decoder_(decoder),
      options_(std::move(options)),
      depth_(options_.pipeline && !decoder.proposes() ? 2 : 1),
      kv_(GroupsOf(executor.info()), KvLayout::kPageSize, options_.prefix_cache),
      planner_(limits, kv_.groups(), kv_.page_size()) {}

StepLoop::~StepLoop() {
  for (; in_flight() > 0; ++settled_) {
    try {
      executor_.Wait();
    } catch (const std::exception&) {
      // It was reported when it was settled, or nobody is there to hear it.
    }
  }
}

void StepLoop::Add(RequestId id, uint64_t seed, Request request) {
  auto seq = std::make_shared<Sequence>();
  seq->id = id;
  seq->seed = seed;
  seq->rank = RankOf(id, request);
  seq->tokens = std::move(request.prompt);
  seq->request = std::move(request);
  seq->prompt_tokens = seq->known = std::ssize(seq->tokens);
  seq->pages = kv_.NewSequence();
  seq->pages.marks[0] = seq->prompt_tokens;
  next_expiry_ = std::min({next_expiry_, seq->request.start_by, seq->request.deadline});
  Insert(std::move(seq));
}

void StepLoop::Cancel(RequestId id) {
  const auto cancel = [&](auto& seqs) {
    const auto at = std::find_if(seqs.begin(), seqs.end(), [&](auto& s) { return s->id == id; });
    if (at == seqs.end()) return false;
    TokenEvent event = FinalEvent(FinishReason::kCancelled, "");
    Finish(**at, event);
    seqs.erase(at);
    return true;
  };
  if (!cancel(running_)) cancel(waiting_);
}

void StepLoop::FinishAll(FinishReason reason, const std::string& error) {
  const auto finish = [&](auto& seqs) {
    for (auto& seq : seqs) {
      TokenEvent event = FinalEvent(reason, error);
      if (!seq->finished) Finish(*seq, event);
    }
    seqs.clear();
  };
  finish(running_);
  finish(waiting_);
}

// Ends those whose time is over.
void StepLoop::Expire() {
  if (next_expiry_ == Request::kNever) return;
  const TimePoint now = options_.now();
  if (now < next_expiry_) return;
  next_expiry_ = Request::kNever;
  const auto expire = [&](auto& seqs) {
    std::erase_if(seqs, [&](const SequencePtr& seq) {
      const TimePoint start_by = seq->admitted ? Request::kNever : seq->request.start_by;
      const TimePoint expiry = std::min(start_by, seq->request.deadline);
      if (now < expiry) {
        next_expiry_ = std::min(next_expiry_, expiry);
        return false;
      }
      TokenEvent event = FinalEvent(
          FinishReason::kExpired, now >= seq->request.deadline ? "it was not done by its deadline"
                                                               : "it waited too long for its turn");
      Finish(*seq, event);
      return true;
    });
  };
  expire(running_);
  expire(waiting_);
}

void StepLoop::Step() {
  Expire();
  if (idle()) return;
  ProposeDrafts();
  Schedule();
  Flight& next = flight(submitted_);
  BuildPlan(next);
  const bool submits = !next.seqs.empty();
  ROSE_CHECK(submits || in_flight() > 0, "no progress: running=", running_.size(),
             " waiting=", waiting_.size(), " pages used=", kv_.used_pages());
  if (submits) Submit(next);
  if (!submits || in_flight() == depth_) Settle();
  if (idle()) ROSE_CHECK_EQ(kv_.used_pages(), 0);
}

// What a step computes is there for the steps behind it, so pipelined, all counts move on now.
void StepLoop::Submit(Flight& next) {
  executor_.Submit(next.plan);
  ++submitted_;
  if (depth_ == 1) return;
  for (size_t i = 0; i < next.seqs.size(); ++i) {
    Sequence& seq = *next.seqs[i];
    seq.plan_index = static_cast<int64_t>(i);
    seq.step = submitted_ - 1;
    seq.computed = std::ssize(next.plan.seqs[i].history);
    if (next.plan.seqs[i].samples == 0) {
      seq.settled = seq.computed;
      Tidy(seq);
    } else {
      seq.tokens.push_back(-1);  // until it is drawn
      ++seq.known;
      ++seq.unknown;
    }
  }
}

void StepLoop::Settle() {
  Flight& done = flight(settled_);
  StepResult result = executor_.Wait();
  ++settled_;
  ROSE_CHECK_EQ(result.seqs.size(), done.seqs.size());
  bool ended_waiting = false;  // sent back while its last token was drawn
  for (size_t i = 0; i < done.seqs.size(); ++i) {
    Sequence& seq = *done.seqs[i];
    // One that ended while this step was in flight: whatever was drawn comes too late.
    if (seq.finished) continue;
    SettleSequence(seq, done.plan.seqs[i], std::move(result.seqs[i]));
    ended_waiting |= seq.finished && !seq.running;
  }
  const auto finished = [](const SequencePtr& seq) { return seq->finished; };
  std::erase_if(running_, finished);
  if (ended_waiting) std::erase_if(waiting_, finished);
  done.seqs.clear();
  ++totals_.steps;
}

void StepLoop::SettleSequence(Sequence& seq, const SeqPlan& plan, SeqResult result) {
  const bool pipelined = depth_ > 1;
  event_.tokens.clear();
  event_.finish = FinishReason::kNone;
  event_.stop_id.reset();
  event_.error.clear();
  if (!pipelined) seq.tokens.resize(seq.known);  // the draft's part in the step is over
  if (!result.sampled.empty()) {
    ROSE_CHECK_LE(std::ssize(result.sampled), plan.samples);
    const int64_t kept = decoder_.Accept(seq.draft, result.sampled);
    ROSE_CHECK(kept >= 1 && kept <= std::ssize(result.sampled), "kept=", kept, " of ",
               result.sampled.size());
    Extend(seq, std::span(result.sampled).first(kept));
    // K and V of accepted draft tokens are right; those of rejected ones lie at positions that the
    // next steps compute, and so overwrite, before they read them.
    if (!pipelined) seq.computed = seq.known - 1;
  } else {
    ROSE_CHECK(plan.samples == 0 || !result.error.empty(), "request ", seq.id, " has no draw");
    if (!pipelined) seq.computed += std::ssize(plan.tokens);
  }
  if (seq.running) seq.settled = pipelined ? std::ssize(plan.history) : seq.computed;
  if (result.error.empty()) ROSE_CHECK_EQ(std::ssize(result.scored), plan.scored);
  seq.scored += std::ssize(result.scored);
  event_.prompt = std::move(result.scored);
  if (!result.error.empty() && event_.finish == FinishReason::kNone) {
    std::fprintf(stderr, "rose: request %llu fails: %s\n", static_cast<unsigned long long>(seq.id),
                 result.error.c_str());
    event_.finish = FinishReason::kError;
    event_.error = std::move(result.error);
  }
  if (event_.finish != FinishReason::kNone) return Finish(seq, event_);
  Tidy(seq);
  if (!event_.tokens.empty() || !event_.prompt.empty()) Deliver(seq, event_);
}

void StepLoop::Tidy(Sequence& seq) {
  if (!seq.running) return;
  kv_.Publish(seq.pages, seq.request.cache_salt, std::span(seq.tokens).first(seq.settled));
  kv_.Slide(seq.pages, seq.computed);
}

void StepLoop::Extend(Sequence& seq, std::span<const SampledToken> drawn) {
  for (const SampledToken& token : drawn) {
    ROSE_CHECK(token.id >= 0 && token.id < executor_.info().vocab, "request ", seq.id, " drew ",
               token.id, " of a vocabulary of ", executor_.info().vocab);
    Place(seq, token.id);
    ++totals_.generated_tokens;
    event_.tokens.push_back(token);
    const std::vector<int32_t>& stops = seq.request.stop_ids;
    if (std::find(stops.begin(), stops.end(), token.id) != stops.end()) {
      event_.finish = FinishReason::kStop;
      event_.stop_id = token.id;
      break;
    }
    if (seq.known - seq.unknown - seq.prompt_tokens == seq.request.max_tokens) {
      event_.finish = FinishReason::kLength;
      break;
    }
  }
}

// The next token of the sequence.
void StepLoop::Place(Sequence& seq, int32_t token) {
  if (seq.unknown == 0) {
    seq.tokens.push_back(token);
    ++seq.known;
    return;
  }
  // Where a step in flight is fed with it, the executor writes it.
  if (!std::exchange(seq.fed, false)) seq.tokens[seq.known - seq.unknown] = token;
  --seq.unknown;
}

void StepLoop::Deliver(const Sequence& seq, TokenEvent& event) {
  event.id = seq.id;
  event.cached_tokens = seq.cached;
  event.queued_ms = seq.queued_ms;
  if (seq.request.on_event) seq.request.on_event(event);
}

void StepLoop::Finish(Sequence& seq, TokenEvent& event) {
  // What a failed step left in its pages is not for others.
  if (seq.running && event.finish != FinishReason::kError)
    kv_.Publish(seq.pages, seq.request.cache_salt, std::span(seq.tokens).first(seq.settled));
  kv_.Release(seq.pages);
  seq.finished = true;
  ++finished_;
  Deliver(seq, event);
}

EngineStats StepLoop::stats() const {
  EngineStats stats = totals_;
  stats.running = std::ssize(running_);
  stats.waiting = std::ssize(waiting_);
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

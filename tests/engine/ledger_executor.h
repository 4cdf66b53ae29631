// LedgerExecutor: a model of integers with a real paged KV cache. Every cell of a page remembers
// which token of which position was written last; a draw is a hash of what attention would read
// from the pages. So a wrong page table, a page with two writers, or a read of freed memory shows
// at once, and the right output of every request is known without running it.
#pragma once

#include <functional>
#include <memory>
#include <set>
#include <span>
#include <vector>

#include "base/check.h"
#include "engine/executor.h"

namespace rose {

inline uint64_t Mix(uint64_t hash, uint64_t value) {
  hash ^= value + 0x9e3779b97f4a7c15u + (hash << 6) + (hash >> 2);
  hash *= 0xbf58476d1ce4e5b9u;
  return hash ^ (hash >> 29);
}

inline int32_t LedgerDraw(uint64_t hash, int64_t vocab, int64_t position,
                          std::span<const int32_t> forbidden, int64_t forbidden_until) {
  int32_t id = static_cast<int32_t>(hash % static_cast<uint64_t>(vocab));
  const auto is_forbidden = [&] {
    return position < forbidden_until &&
           std::find(forbidden.begin(), forbidden.end(), id) != forbidden.end();
  };
  while (is_forbidden()) id = static_cast<int32_t>((id + 1) % vocab);
  return id;
}

// What the draw after `history` reads: all keys, then the last `window`, then the seed.
template <typename TokenAt>
uint64_t LedgerHash(int64_t tokens, int64_t window, uint64_t seed, const TokenAt& token_at) {
  uint64_t hash = 1;
  for (int64_t key = 0; key < tokens; ++key) hash = Mix(hash, token_at(1, key));
  for (int64_t key = std::max<int64_t>(0, tokens - window); key < tokens; ++key) {
    hash = Mix(hash, token_at(0, key));
  }
  return Mix(hash, seed);
}

class LedgerExecutor : public Executor {
 public:
  static constexpr int64_t kWindow = 128;
  static constexpr int64_t kVocab = 50;

  LedgerExecutor(int64_t sliding_pages, int64_t full_pages, int64_t host_sliding = 0,
                 int64_t host_full = 0) {
    info_.vocab = kVocab;
    info_.max_positions = 4096;
    info_.kv.groups = {{.window = kWindow, .layers = {0}}, {.window = 0, .layers = {1}}};
    info_.pages = {sliding_pages, full_pages};
    info_.host_pages = {host_sliding, host_full};
    for (int64_t pages : info_.pages) cells_.emplace_back(pages * KvLayout::kPageSize);
    for (int64_t pages : info_.host_pages) host_cells_.emplace_back(pages * KvLayout::kPageSize);
  }

  // Called at the start of every step, before anything is computed.
  std::function<void(const StepPlan&)> on_step;

  // The whole output of a request without stop ids.
  static std::vector<int32_t> Reference(std::span<const int32_t> prompt, int64_t tokens,
                                        uint64_t seed) {
    std::vector<int32_t> history(prompt.begin(), prompt.end());
    for (int64_t i = 0; i < tokens; ++i) {
      const int64_t length = static_cast<int64_t>(history.size());
      const uint64_t hash =
          LedgerHash(length, kWindow, seed, [&](int, int64_t key) { return history[key]; });
      history.push_back(LedgerDraw(hash, kVocab, length, {}, 0));
    }
    return {history.begin() + static_cast<int64_t>(prompt.size()), history.end()};
  }

  const ExecutorInfo& info() const override { return info_; }
  void Submit(const StepPlan& plan) override { plan_ = &plan; }

  StepResult Wait() override {
    if (on_step) on_step(*plan_);
    Copy(plan_->copies);
    std::set<std::pair<int, int32_t>> written;
    for (const SeqPlan& seq : plan_->seqs) Write(seq, written);
    for (const SeqPlan& seq : plan_->seqs) CheckOthersReadOnly(seq, written);
    StepResult result;
    for (const SeqPlan& seq : plan_->seqs) result.seqs.push_back(Draws(seq));
    return result;
  }

  // What a scored row tells: a made-up number of the position and the token that follows.
  static float Score(int64_t position, int32_t next) {
    return -static_cast<float>(position * kVocab + next);
  }

 private:
  struct Cell {
    int64_t position = -1;
    int32_t token = -1;
  };
  using Memory = std::vector<std::vector<Cell>>;  // [group][page * kPageSize + slot]

  Cell& At(const SeqPlan& seq, int group, int64_t position) {
    const auto& table = seq.pages[group];
    const int64_t index = position / KvLayout::kPageSize;
    ROSE_CHECK_LT(index, static_cast<int64_t>(table.size()));
    ROSE_CHECK_GE(table[index], 0);
    ROSE_CHECK_LT(table[index], info_.pages[group]);
    return cells_[group][table[index] * KvLayout::kPageSize + position % KvLayout::kPageSize];
  }

  // Copies of one kind may be made in any order, so none may write what another reads or writes.
  void Copy(const PageCopies& copies) {
    CopyAll(copies.to_host, cells_, host_cells_);
    CopyAll(copies.to_device, host_cells_, cells_);
    CopyAll(copies.within, cells_, cells_);
  }

  static void CopyAll(const std::vector<PageCopy>& copies, const Memory& from, Memory& to) {
    constexpr int64_t kPage = KvLayout::kPageSize;
    std::set<std::pair<int64_t, int32_t>> written;
    for (const PageCopy& copy : copies) {
      ROSE_CHECK((written.insert({copy.group, copy.to}).second), "page ", copy.to, " twice");
    }
    for (const PageCopy& copy : copies) {
      const std::vector<Cell>& source = from[copy.group];
      std::vector<Cell>& target = to[copy.group];
      ROSE_CHECK(copy.from >= 0 && copy.from < std::ssize(source) / kPage, "page ", copy.from);
      ROSE_CHECK(copy.to >= 0 && copy.to < std::ssize(target) / kPage, "page ", copy.to);
      ROSE_CHECK(&from != &to || !written.contains({copy.group, copy.from}), "page ", copy.from);
      std::copy_n(&source[copy.from * kPage], kPage, &target[copy.to * kPage]);
    }
  }

  // A page that a step writes to is in one table only.
  void CheckOthersReadOnly(const SeqPlan& seq, std::set<std::pair<int, int32_t>>& written) {
    for (int group = 0; group < 2; ++group) {
      for (size_t i = 0; i < seq.pages[group].size(); ++i) {
        const bool own = static_cast<int64_t>(i) >= seq.start / KvLayout::kPageSize;
        if (own || seq.pages[group][i] < 0) continue;
        ROSE_CHECK(!written.contains({group, seq.pages[group][i]}), "page ", seq.pages[group][i],
                   " is written to and read by another");
      }
    }
  }

  void Write(const SeqPlan& seq, std::set<std::pair<int, int32_t>>& written) {
    ROSE_CHECK_EQ(seq.start + static_cast<int64_t>(seq.tokens.size()),
                  static_cast<int64_t>(seq.history.size()));
    for (int group = 0; group < 2; ++group) {
      for (size_t i = seq.start / KvLayout::kPageSize; i < seq.pages[group].size(); ++i) {
        const int32_t page = seq.pages[group][i];
        ROSE_CHECK((written.insert({group, page}).second), "page ", page, " has two writers");
      }
      for (size_t row = 0; row < seq.tokens.size(); ++row) {
        const int64_t position = seq.start + static_cast<int64_t>(row);
        At(seq, group, position) = {position, seq.tokens[row]};
      }
    }
  }

  SeqResult Draws(const SeqPlan& seq) {
    SeqResult result;
    for (int64_t row = seq.score_from; row < seq.score_from + seq.scored; ++row) {
      ROSE_CHECK_GE(row, seq.start);
      SampledToken token;
      token.id = seq.history[row + 1];
      token.logprob = Score(row, token.id);
      result.scored.push_back(token);
    }
    const int64_t end = static_cast<int64_t>(seq.history.size());
    for (int64_t position = end - seq.samples + 1; position <= end; ++position) {
      SampledToken token;
      token.id = Draw(seq, position);
      result.sampled.push_back(token);
    }
    return result;
  }

  int32_t Draw(const SeqPlan& seq, int64_t position) {
    const uint64_t hash = LedgerHash(position, kWindow, seq.seed, [&](int group, int64_t key) {
      const Cell& cell = At(seq, group, key);
      ROSE_CHECK_EQ(cell.position, key);
      ROSE_CHECK_EQ(cell.token, seq.history[key]);
      return cell.token;
    });
    return LedgerDraw(hash, kVocab, position, seq.forbidden_ids, seq.forbidden_until);
  }

  ExecutorInfo info_;
  Memory cells_, host_cells_;
  const StepPlan* plan_ = nullptr;
};

}  // namespace rose

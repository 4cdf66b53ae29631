// ScriptedDecoder: a decoder for tests, with drafts of known quality.
#pragma once

#include <map>
#include <random>
#include <utility>
#include <vector>

#include "engine/decoder.h"

namespace rose {

// Proposes drafts of known quality: it is told every request's right output.
class ScriptedDecoder : public Decoder {
 public:
  enum class Quality { kNone, kRight, kWrong, kHalf, kRandom };
  ScriptedDecoder(Quality quality, int64_t length, int64_t vocab)
      : quality_(quality), length_(length), vocab_(vocab) {}

  void Tell(RequestId id, std::vector<int32_t> prompt, const std::vector<int32_t>& output) {
    prompt.insert(prompt.end(), output.begin(), output.end());
    right_[id] = std::move(prompt);
  }

  bool proposes() const override { return quality_ != Quality::kNone; }

  std::vector<int32_t> Propose(RequestId id, std::span<const int32_t> history) override {
    std::vector<int32_t> draft;
    if (quality_ == Quality::kNone) return draft;
    const std::vector<int32_t>& right = right_.at(id);
    const int64_t length = quality_ == Quality::kRandom ? random_() % (length_ + 1) : length_;
    for (int64_t i = 0; i < length && history.size() + i < right.size(); ++i) {
      const bool good = quality_ == Quality::kRight ||
                        (quality_ == Quality::kHalf && i < length / 2) ||
                        (quality_ == Quality::kRandom && random_() % 4 != 0);
      const int32_t token = right[history.size() + i];
      draft.push_back(good ? token : (token + 1) % static_cast<int32_t>(vocab_));
    }
    return draft;
  }

  int64_t Accept(std::span<const int32_t> draft, std::span<const SampledToken> drawn) override {
    const int64_t kept = CountAccepted(draft, drawn);
    accepted_ += kept - 1;
    rejected_ += static_cast<int64_t>(draft.size()) - (kept - 1);
    return kept;
  }

  int64_t accepted() const { return accepted_; }
  int64_t rejected() const { return rejected_; }

 private:
  const Quality quality_;
  const int64_t length_;
  const int64_t vocab_;
  std::map<RequestId, std::vector<int32_t>> right_;
  std::mt19937_64 random_{7};
  int64_t accepted_ = 0, rejected_ = 0;
};

}  // namespace rose

#include "engine/draw_specs.h"

#include <algorithm>
#include <set>

#include "base/draw.h"

namespace rose {

bool ReadsHistory(const SamplingParams& params) {
  return HasPenalty(params) || !params.bad_words.empty();
}

bool NeedsHost(const SamplingParams& params) {
  if (params.logprobs >= 0) return true;
  std::set<int32_t> biased;
  for (const auto& [id, bias] : params.logit_bias) {
    if (!biased.insert(id).second) return true;
  }
  return false;
}

void DrawSpecs::Clear() {
  specs_.clear();
  edits_.clear();
  edits_of_.clear();
  masks_of_.clear();
  masks_.clear();
}

void DrawSpecs::Add(const SampleRow& row, int64_t logits_row, int64_t vocab) {
  const SamplingParams& params = *row.params;
  specs_.push_back({.row = logits_row, .rule = DrawRuleOf(params, row.seed, row.history.size())});
  by_id_.clear();
  const auto edit = [&](int32_t id) -> LogitEdit& {
    return by_id_.try_emplace(id, LogitEdit{.id = id}).first->second;
  };
  for (const auto& [id, bias] : params.logit_bias) edit(id).bias = bias;
  if (HasPenalty(params)) {
    for (size_t i = 0; i < row.history.size(); ++i) {
      int32_t& occurrences = edit(row.history[i]).occurrences;
      occurrences = std::max(occurrences, 0);
      if (static_cast<int64_t>(i) >= row.prompt_tokens) ++occurrences;
    }
  }
  for (int32_t id : ExcludedIds(row)) edit(id).excluded = true;
  edits_of_.push_back({edits_.size(), by_id_.size()});
  for (const auto& [id, one] : by_id_) edits_.push_back(one);

  const size_t mask_begin = masks_.size();
  if (!params.allowed_ids.empty()) {
    masks_.resize(mask_begin + (vocab + 31) / 32, 0);
    for (int32_t id : params.allowed_ids) {
      const uint32_t bit = uint32_t{1} << (id % 32);
      const size_t word = static_cast<size_t>(id) / 32;
      const bool is_masked =
          !row.mask.empty() && (word >= row.mask.size() || (row.mask[word] & bit) == 0);
      if (!is_masked) masks_[mask_begin + word] |= bit;
    }
  } else {
    masks_.insert(masks_.end(), row.mask.begin(), row.mask.end());
  }
  masks_of_.push_back({mask_begin, masks_.size() - mask_begin});
}

std::span<const DrawSpec> DrawSpecs::specs() {
  for (size_t i = 0; i < specs_.size(); ++i) {
    specs_[i].edits = std::span(edits_).subspan(edits_of_[i].begin, edits_of_[i].size);
    specs_[i].mask = std::span(masks_).subspan(masks_of_[i].begin, masks_of_[i].size);
  }
  return specs_;
}

}  // namespace rose

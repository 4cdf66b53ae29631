#include "grammar/grammar_constraint.h"

#include <algorithm>
#include <utility>

namespace rose {

GrammarConstraint::GrammarConstraint(std::shared_ptr<const Grammar> grammar,
                                     std::vector<int32_t> end_ids)
    : grammar_(std::move(grammar)),
      end_ids_(std::move(end_ids)),
      matcher_(grammar_->NewMatcher()) {}

Result<std::span<const uint32_t>> GrammarConstraint::Allowed(std::span<const int32_t> output) {
  const auto [end, unused] =
      std::mismatch(followed_.begin(), followed_.end(), output.begin(), output.end());
  matcher_->Rollback(followed_.end() - end);
  followed_.erase(end, followed_.end());
  for (const int32_t token : output.subspan(followed_.size())) {
    if (!matcher_->Consume(token)) {
      if (matcher_->broken()) break;
      // The end, or a token that was not drawn under the mask (a draft that will be rejected).
      return std::span<const uint32_t>();
    }
    followed_.push_back(token);
  }
  const auto step = matcher_->Next();
  if (!step.ok()) return InvalidArgument(kConstraintTooHard, step.status().message());
  if (!step->accepting) return step->mask;
  mask_.assign(step->mask.begin(), step->mask.end());
  for (const int32_t id : end_ids_) {
    if (id >= 0 && id / 32 < static_cast<int64_t>(mask_.size()))
      mask_[id / 32] |= uint32_t{1} << (id % 32);
  }
  return std::span<const uint32_t>(mask_);
}

}  // namespace rose

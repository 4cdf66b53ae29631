#include "chat/answer_constraint.h"

#include <algorithm>
#include <utility>

namespace rose {
namespace {

void Allow(std::vector<uint32_t>& mask, int32_t token) {
  mask[token / 32] |= uint32_t{1} << (token % 32);
}

void Allow(std::vector<uint32_t>& mask, std::span<const uint32_t> tokens) {
  const size_t words = std::min(mask.size(), tokens.size());
  for (size_t i = 0; i < words; ++i) mask[i] |= tokens[i];
}

bool IsAllowed(const std::vector<uint32_t>& mask, int32_t token) {
  return token >= 0 && token / 32 < static_cast<int64_t>(mask.size()) &&
         ((mask[token / 32] >> (token % 32)) & 1) != 0;
}

}  // namespace

std::vector<uint32_t> TextTokens(const Tokenizer& tokenizer) {
  std::vector<uint32_t> mask((tokenizer.vocab() + 31) / 32, 0);
  for (int32_t id = 0; id < tokenizer.vocab(); ++id)
    if (!tokenizer.IsSpecial(id) && !tokenizer.Bytes(id).empty()) Allow(mask, id);
  return mask;
}

// ---- the graph

int AnswerPlan::AddNode() {
  nodes_.emplace_back();
  return static_cast<int>(nodes_.size()) - 1;
}

int AnswerPlan::AddPath(int from, const Tokens& tokens) {
  for (const int32_t token : tokens) {
    const auto known = nodes_[from].next.find(token);
    const bool is_known = known != nodes_[from].next.end();
    const int to = is_known ? known->second : AddNode();
    if (!is_known) nodes_[from].next.emplace(token, to);
    from = to;
  }
  return from;
}

void AnswerPlan::AddHeader(int from, std::initializer_list<Tokens> parts, int body) {
  for (const Tokens& part : parts) from = AddPath(from, part);
  nodes_[from].body = body;
}

void AnswerPlan::AddLink(int from, const Tokens& tokens, int to) {
  const int last = AddPath(from, Tokens(tokens.begin(), tokens.end() - 1));
  nodes_[last].next[tokens.back()] = to;
}

int AnswerPlan::AddBody(Body body) {
  bodies_.push_back(std::move(body));
  return static_cast<int>(bodies_.size()) - 1;
}

// ---- an answer

AnswerConstraint::AnswerConstraint(AnswerPlan plan,
                                   std::shared_ptr<const std::vector<uint32_t>> text)
    : plan_(std::move(plan)), text_(std::move(text)) {
  places_.push_back(At(0, 0));
}

Result<std::span<const uint32_t>> AnswerConstraint::Allowed(std::span<const int32_t> output) {
  const auto [end, unused] =
      std::mismatch(output_.begin(), output_.end(), output.begin(), output.end());
  Rewind(end - output_.begin());
  for (const int32_t token : output.subspan(output_.size())) {
    places_.push_back(Step(token));
    output_.push_back(token);
  }

  const Place& place = places_.back();
  if (place.kind == Place::Kind::kAnywhere) return std::span<const uint32_t>();
  if (place.kind == Place::Kind::kBroken)
    return InvalidArgument(kConstraintTooHard, "it runs into a limit of its grammar");
  mask_.assign(text_->size(), 0);
  if (place.body != AnswerPlan::kNoBody) ROSE_RETURN_IF_ERROR(AllowInBody(place));
  if (place.node >= 0)
    for (const auto& [token, node] : plan_.node(place.node).next) Allow(mask_, token);
  return std::span<const uint32_t>(mask_);
}

Status AnswerConstraint::AllowInBody(const Place& place) {
  const AnswerPlan::Body& body = plan_.body(place.body);
  const int64_t budget = plan_.thinking_budget();
  bool may_end = true;
  if (body.is_thoughts && budget >= 0 && place.thoughts >= budget) {
    // Nothing but the end.
  } else if (body.grammar == nullptr) {
    Allow(mask_, *text_);
  } else {
    const auto step = Matcher(place).Next();
    if (!step.ok()) return InvalidArgument(kConstraintTooHard, step.status().message());
    Allow(mask_, step->mask);
    may_end = step->accepting;
  }
  if (may_end)
    for (const auto& [token, node] : body.ends) Allow(mask_, token);
  return Status();
}

void AnswerConstraint::Rewind(int64_t tokens) {
  if (tokens == static_cast<int64_t>(output_.size())) return;
  output_.resize(tokens);
  places_.resize(tokens + 1);
  if (matcher_ == nullptr || matcher_to_ <= tokens) return;
  const Place& now = places_.back();
  if (now.body == matcher_body_ && now.body_from == matcher_from_) {
    matcher_->Rollback(matcher_to_ - tokens);
    matcher_to_ = tokens;
  } else {
    matcher_.reset();
  }
}

AnswerConstraint::Place AnswerConstraint::At(int node, int64_t tokens) const {
  if (node == AnswerPlan::kComplete) return {.kind = Place::Kind::kAnywhere};
  const AnswerPlan::Node& at = plan_.node(node);
  return {.node = at.next.empty() ? -1 : node, .body = at.body, .body_from = tokens};
}

AnswerConstraint::Place AnswerConstraint::Step(int32_t token) {
  const Place place = places_.back();
  Place next = Move(place, token);
  const bool thinks = place.body != AnswerPlan::kNoBody && next.body == place.body &&
                      next.body_from == place.body_from && plan_.body(place.body).is_thoughts;
  next.thoughts = place.thoughts + (thinks ? 1 : 0);
  return next;
}

AnswerConstraint::Place AnswerConstraint::Move(const Place& place, int32_t token) {
  const Place anywhere{.kind = Place::Kind::kAnywhere};
  const Place broken{.kind = Place::Kind::kBroken};
  if (place.kind != Place::Kind::kInside) return place;
  const int64_t behind = static_cast<int64_t>(output_.size()) + 1;
  if (place.node >= 0) {
    const auto& next = plan_.node(place.node).next;
    if (const auto to = next.find(token); to != next.end()) return At(to->second, behind);
  }
  if (place.body == AnswerPlan::kNoBody) return anywhere;
  const AnswerPlan::Body& body = plan_.body(place.body);
  if (const auto end = body.ends.find(token); end != body.ends.end()) {
    if (body.grammar != nullptr) {
      const auto step = Matcher(place).Next();
      if (!step.ok()) return broken;
      if (!step->accepting) return anywhere;
    }
    return At(end->second, behind);
  }
  Place inside = place;
  inside.node = -1;
  if (body.grammar == nullptr) return IsAllowed(*text_, token) ? inside : anywhere;
  if (!Matcher(place).Consume(token)) return matcher_->broken() ? broken : anywhere;
  ++matcher_to_;
  return inside;
}

GrammarMatcher& AnswerConstraint::Matcher(const Place& place) {
  if (matcher_ == nullptr || matcher_body_ != place.body || matcher_from_ != place.body_from ||
      matcher_->broken()) {
    matcher_ = plan_.body(place.body).grammar->NewMatcher();
    matcher_body_ = place.body;
    matcher_from_ = matcher_to_ = place.body_from;
  }
  for (; matcher_to_ < static_cast<int64_t>(output_.size()); ++matcher_to_) {
    // They were allowed when they came.
    if (matcher_->Consume(output_[matcher_to_])) continue;
    ROSE_CHECK(matcher_->broken(), "token ", output_[matcher_to_], " at ", matcher_to_);
    break;
  }
  return *matcher_;
}

}  // namespace rose

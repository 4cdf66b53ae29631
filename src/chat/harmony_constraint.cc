#include "chat/harmony_constraint.h"

#include <algorithm>
#include <utility>

namespace rose {
namespace {

void Allow(std::vector<uint32_t>& mask, int32_t token) {
  mask[token / 32] |= uint32_t{1} << (token % 32);
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

HarmonyConstraint::HarmonyConstraint(const HarmonyIds& ids, const Tokenizer& tokenizer,
                                     std::shared_ptr<const std::vector<uint32_t>> text,
                                     const OutputRules& rules)
    : ids_(ids), text_(std::move(text)), thinking_budget_(rules.thinking_budget), places_(1) {
  BuildHeaders(tokenizer, rules);
}

void HarmonyConstraint::BuildHeaders(const Tokenizer& tokenizer, const OutputRules& rules) {
  const auto text = [&](std::string_view s) { return tokenizer.Encode(s); };
  const Tokens channel = {ids_.channel}, message = {ids_.message};
  Tokens json = text(" ");
  json.push_back(ids_.constrain);
  for (const int32_t token : text("json")) json.push_back(token);
  const std::vector<Tokens> types = {{}, json, text(" json")};

  // Node 0 is where the prompt leaves off; `decided` is the same after thoughts.
  nodes_.resize(2);
  const int decided = 1;
  Tokens start = {ids_.start};
  for (const int32_t token : text("assistant")) start.push_back(token);
  const int between = static_cast<int>(nodes_.size());
  nodes_.emplace_back();
  const int between_decided = static_cast<int>(nodes_.size());
  nodes_.emplace_back();
  const auto chain = [&](int from, int to) {
    const int last = AddPath(from, Tokens(start.begin(), start.end() - 1));
    nodes_[last].next[start.back()] = to;
  };
  chain(between, 0);
  chain(between_decided, decided);

  const int thoughts = AddBody(nullptr, ids_.end, between_decided);
  bodies_[thoughts].is_thoughts = true;
  AddHeader(0, {channel, text("analysis"), message}, thoughts);
  for (const int root : {0, decided}) {
    if (rules.calls != OutputRules::Calls::kRequired) {
      const int final = AddBody(rules.content, ids_.return_, -1);
      for (const Tokens& type : {Tokens(), json})
        AddHeader(root, {channel, text("final"), type, message}, final);
    }
    if (rules.calls == OutputRules::Calls::kFree && rules.content == nullptr) {
      const int preamble = AddBody(nullptr, ids_.end, between);
      AddHeader(root, {channel, text("commentary"), message}, preamble);
    }
    if (rules.calls == OutputRules::Calls::kForbidden) continue;
    for (const OutputRules::Tool& tool : rules.tools) {
      const int call = AddBody(tool.arguments, ids_.call, -1);
      const Tokens recipient = text(" to=functions." + tool.name);
      for (const Tokens& type : types) {
        AddHeader(root, {channel, text("commentary"), recipient, type, message}, call);
        AddHeader(root, {recipient, channel, text("commentary"), type, message}, call);
      }
    }
  }
}

void HarmonyConstraint::AddHeader(int from, std::initializer_list<Tokens> parts, int body) {
  for (const Tokens& part : parts) from = AddPath(from, part);
  nodes_[from].body = body;
}

int HarmonyConstraint::AddPath(int from, const Tokens& tokens) {
  for (const int32_t token : tokens) {
    const auto [next, added] = nodes_[from].next.emplace(token, static_cast<int>(nodes_.size()));
    from = next->second;
    if (added) nodes_.emplace_back();
  }
  return from;
}

int HarmonyConstraint::AddBody(std::shared_ptr<const Grammar> grammar, int32_t end, int next_node) {
  bodies_.push_back({std::move(grammar), end, next_node});
  return static_cast<int>(bodies_.size()) - 1;
}

Result<std::span<const uint32_t>> HarmonyConstraint::Allowed(std::span<const int32_t> output) {
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
  if (place.kind == Place::Kind::kHeader) {
    mask_.assign(text_->size(), 0);
    for (const auto& [token, node] : nodes_[place.index].next) Allow(mask_, token);
    return std::span<const uint32_t>(mask_);
  }
  const Body& body = bodies_[place.index];
  bool may_end = true;
  if (body.is_thoughts && thinking_budget_ >= 0 && place.thoughts >= thinking_budget_) {
    mask_.assign(text_->size(), 0);
  } else if (body.grammar == nullptr) {
    mask_ = *text_;
  } else {
    const auto step = Matcher(place).Next();
    if (!step.ok()) return InvalidArgument(kConstraintTooHard, step.status().message());
    mask_.assign(step->mask.begin(), step->mask.end());
    may_end = step->accepting;
  }
  if (may_end) Allow(mask_, body.end);
  return std::span<const uint32_t>(mask_);
}

void HarmonyConstraint::Rewind(int64_t tokens) {
  if (tokens == static_cast<int64_t>(output_.size())) return;
  output_.resize(tokens);
  places_.resize(tokens + 1);
  if (matcher_ == nullptr || matcher_to_ <= tokens) return;
  const Place& now = places_.back();
  if (now.kind == Place::Kind::kBody && now.body_from == matcher_from_) {
    matcher_->Rollback(matcher_to_ - tokens);
    matcher_to_ = tokens;
  } else {
    matcher_.reset();
  }
}

HarmonyConstraint::Place HarmonyConstraint::Step(int32_t token) {
  const Place place = places_.back();
  Place next = Move(place, token);
  const bool thinks = place.kind == Place::Kind::kBody && next.kind == Place::Kind::kBody &&
                      bodies_[place.index].is_thoughts;
  next.thoughts = place.thoughts + (thinks ? 1 : 0);
  return next;
}

HarmonyConstraint::Place HarmonyConstraint::Move(const Place& place, int32_t token) {
  const Place anywhere{.kind = Place::Kind::kAnywhere};
  const Place broken{.kind = Place::Kind::kBroken};
  if (place.kind == Place::Kind::kAnywhere || place.kind == Place::Kind::kBroken) return place;
  if (place.kind == Place::Kind::kHeader) {
    const auto next = nodes_[place.index].next.find(token);
    if (next == nodes_[place.index].next.end()) return anywhere;
    const int body = nodes_[next->second].body;
    if (body < 0) return {.index = next->second};
    return {Place::Kind::kBody, body, static_cast<int64_t>(output_.size()) + 1};
  }
  const Body& body = bodies_[place.index];
  if (token == body.end) {
    if (body.grammar != nullptr) {
      const auto step = Matcher(place).Next();
      if (!step.ok()) return broken;
      if (!step->accepting) return anywhere;
    }
    return body.next_node < 0 ? anywhere : Place{.index = body.next_node};
  }
  if (body.grammar == nullptr) return IsAllowed(*text_, token) ? place : anywhere;
  if (!Matcher(place).Consume(token)) return matcher_->broken() ? broken : anywhere;
  ++matcher_to_;
  return place;
}

GrammarMatcher& HarmonyConstraint::Matcher(const Place& place) {
  if (matcher_ == nullptr || matcher_from_ != place.body_from || matcher_->broken()) {
    matcher_ = bodies_[place.index].grammar->NewMatcher();
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

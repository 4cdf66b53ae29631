#include "chat/harmony_constraint.h"

namespace rose {
namespace {

using Tokens = AnswerPlan::Tokens;

}  // namespace

AnswerPlan HarmonyPlan(const HarmonyIds& ids, const Tokenizer& tokenizer,
                       const OutputRules& rules) {
  const auto text = [&](std::string_view s) { return tokenizer.Encode(s); };
  const Tokens channel = {ids.channel}, message = {ids.message};
  Tokens json = text(" ");
  json.push_back(ids.constrain);
  for (const int32_t token : text("json")) json.push_back(token);
  const std::vector<Tokens> types = {{}, json, text(" json")};

  // Node 0 is where the prompt leaves off; `decided` is the same after thoughts.
  AnswerPlan plan(rules.thinking_budget);
  const int decided = plan.AddNode();
  const int between = plan.AddNode(), between_decided = plan.AddNode();
  Tokens start = {ids.start};
  for (const int32_t token : text("assistant")) start.push_back(token);
  plan.AddLink(between, start, 0);
  plan.AddLink(between_decided, start, decided);

  const int thoughts = plan.AddBody({.ends = {{ids.end, between_decided}}, .is_thoughts = true});
  plan.AddHeader(0, {channel, text("analysis"), message}, thoughts);
  for (const int root : {0, decided}) {
    if (rules.calls != OutputRules::Calls::kRequired) {
      const int final =
          plan.AddBody({.grammar = rules.content, .ends = {{ids.return_, AnswerPlan::kComplete}}});
      for (const Tokens& type : {Tokens(), json})
        plan.AddHeader(root, {channel, text("final"), type, message}, final);
    }
    if (rules.calls == OutputRules::Calls::kFree && rules.content == nullptr) {
      const int preamble = plan.AddBody({.ends = {{ids.end, between}}});
      plan.AddHeader(root, {channel, text("commentary"), message}, preamble);
    }
    if (rules.calls == OutputRules::Calls::kForbidden) continue;
    for (const OutputRules::Tool& tool : rules.tools) {
      const int call =
          plan.AddBody({.grammar = tool.arguments, .ends = {{ids.call, AnswerPlan::kComplete}}});
      const Tokens recipient = text(" to=functions." + tool.name);
      for (const Tokens& type : types) {
        plan.AddHeader(root, {channel, text("commentary"), recipient, type, message}, call);
        plan.AddHeader(root, {recipient, channel, text("commentary"), type, message}, call);
      }
    }
  }
  return plan;
}

}  // namespace rose

// What a Harmony answer may be: well-formed headers of the permitted kinds (spec E.4).
#pragma once

#include "chat/answer_constraint.h"
#include "chat/harmony_render.h"

namespace rose {

// An answer is any number of these, each opened by the prompt or by <|start|>assistant:
//
//   thoughts   <|channel|>analysis<|message|> text <|end|>, never two in a row, so that it ends;
//              together not above the budget
//   preamble   <|channel|>commentary<|message|> text <|end|>, where the answer has no form
//
// and then one of
//
//   final      <|channel|>final<|message|> content <|return|>; or "final <|constrain|>json"
//   a call     <|channel|>commentary to=functions.NAME<|message|> arguments <|call|>; the recipient
//              may come before the channel; and " <|constrain|>json" or " json" before <|message|>
AnswerPlan HarmonyPlan(const HarmonyIds& ids, const Tokenizer& tokenizer, const OutputRules& rules);

}  // namespace rose

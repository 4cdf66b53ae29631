// The form that an answer must have, whatever the endpoint: what a request says about its content
// and its calls (spec E.3), turned into grammars that the engine keeps to.
#pragma once

#include <optional>
#include <string_view>

#include "api/context.h"
#include "api/generation.h"

namespace rose {

// The form that a response format asks for; `field` names it in errors.
std::optional<AnswerForm> FormOf(const std::optional<ResponseFormat>& format,
                                 std::string_view field);

// Reads vLLM's fields, `structured_outputs` {json, json_object, regex, choice, grammar} and the
// older guided_json, guided_regex, guided_choice, guided_grammar, into `form`. One request has one
// form.
void ReadForm(FieldReader& fields, std::optional<AnswerForm>& form);

// Compiles what out.form, out.chat.tools (strict ones), out.call_required, out.only_call,
// out.callable and out.thinking_budget ask for into out.new_constraint; nothing if they ask for
// nothing. The arguments of a forced call follow the tool's schema where that can be enforced, and
// are a JSON object in any case. A schema that is promised and cannot be enforced is a 400 that
// names its field.
void Constrain(FieldReader& fields, const ApiContext& context, Generation& out);

// The same for an output that is no chat: out.form for the whole of it.
void ConstrainText(FieldReader& fields, const ApiContext& context, Generation& out);

}  // namespace rose

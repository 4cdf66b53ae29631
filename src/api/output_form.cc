#include "api/output_form.h"

#include <algorithm>
#include <array>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "grammar/compiler.h"
#include "grammar/grammar_constraint.h"

namespace rose {
namespace {

using Kind = GrammarSource::Kind;

// A schema as clients send it: an object, or its text.
Result<GrammarSource> SchemaSource(const JsonValue& value) {
  if (value.string()) return GrammarSource{Kind::kJsonSchema, *value.string()};
  if (value.object()) return GrammarSource{Kind::kJsonSchema, WriteJson(value)};
  return InvalidArgument("must be a JSON Schema");
}

Result<GrammarSource> ChoicesSource(const JsonValue& value) {
  std::vector<std::string> choices;
  for (const JsonValue& choice : value.array() ? *value.array() : JsonValue::Array()) {
    if (!choice.string()) return InvalidArgument("must be a list of strings");
    choices.push_back(*choice.string());
  }
  return ChoiceSource(choices);
}

Result<GrammarSource> SourceOf(std::string_view kind, const JsonValue& value) {
  if (kind == "json") return SchemaSource(value);
  if (kind == "choice") return ChoicesSource(value);
  if (!value.string()) return InvalidArgument("must be a string");
  if (kind == "regex") return GrammarSource{Kind::kRegex, *value.string()};
  return GrammarTextSource(*value.string());
}

// Members of structured_outputs that only say how other servers should go about it.
constexpr std::array<std::string_view, 5> kTuning = {"backend", "_backend", "disable_fallback",
                                                     "disable_any_whitespace",
                                                     "disable_additional_properties"};

void SetForm(FieldReader& fields, const std::string& path, std::string_view kind,
             const JsonValue& value, std::optional<AnswerForm>& form) {
  if (form)
    return fields.FailAt(path, StrCat("asks for a form beside ", form->field, "; give only one"));
  Result<GrammarSource> source = SourceOf(kind, value);
  if (!source.ok()) {
    std::string why = source.status().message();
    if (!why.starts_with("must ")) why = "is not understood: " + why;
    return fields.FailAt(path, why);
  }
  form = AnswerForm{std::move(source).value(), path};
}

class Compiling {
 public:
  Compiling(FieldReader& fields, const ApiContext& context) : fields_(fields), context_(context) {
    if (context.grammars != nullptr) deadline_ = context.grammars->NewDeadline();
  }

  // Null after a failure, which `field` is blamed for.
  std::shared_ptr<const Grammar> Compile(const GrammarSource& source, const std::string& field) {
    auto grammar = TryCompile(source);
    if (grammar.ok()) return std::move(grammar).value();
    ApiError error = ErrorFromStatus(grammar.status());
    error.message = StrCat(field, " cannot be enforced: ", grammar.status().message(), ".");
    error.param = field;
    fields_.Fail(std::move(error));
    return nullptr;
  }

  Result<std::shared_ptr<const Grammar>> TryCompile(const GrammarSource& source) {
    if (context_.grammars == nullptr)
      return Unsupported("this server was built without structured output");
    return context_.grammars->Compile(source, deadline_);
  }

  GrammarSource ArgumentsSource(GrammarSource schema) const {
    return context_.format->ArgumentsSource(std::move(schema));
  }

  // For a tool that must be called: the schema if it will do, else any object, else any text.
  std::shared_ptr<const Grammar> CompileForced(const ToolSpec& tool) {
    if (tool.parameters) {
      auto grammar = TryCompile(ArgumentsSource({Kind::kJsonSchema, WriteJson(*tool.parameters)}));
      if (grammar.ok()) return std::move(grammar).value();
    }
    auto object = TryCompile(ArgumentsSource(JsonObjectSource()));
    return object.ok() ? std::move(object).value() : nullptr;
  }

 private:
  FieldReader& fields_;
  const ApiContext& context_;
  GrammarCompiler::Deadline deadline_;
};

}  // namespace

std::optional<AnswerForm> FormOf(const std::optional<ResponseFormat>& format,
                                 std::string_view field) {
  if (!format) return std::nullopt;
  return AnswerForm{{Kind::kJsonSchema, format->schema_json}, std::string(field)};
}

void ReadForm(FieldReader& fields, std::optional<AnswerForm>& form) {
  for (const std::string_view kind : {"json", "regex", "choice", "grammar"}) {
    const std::string name = StrCat("guided_", kind);
    if (const JsonValue* value = fields.Get(name)) SetForm(fields, name, kind, *value, form);
  }
  const JsonValue* json = fields.Get("structured_outputs");
  if (!json || !fields.ok()) return;
  if (!json->object()) return fields.Fail("structured_outputs", "must be an object");
  for (const auto& [kind, value] : *json->object()) {
    const std::string path = StrCat("structured_outputs.", kind);
    if (value.is_null()) continue;
    if (kind == "json" || kind == "regex" || kind == "choice" || kind == "grammar") {
      SetForm(fields, path, kind, value, form);
    } else if (kind == "json_object" && value.boolean()) {
      if (*value.boolean()) SetForm(fields, path, "json", JsonValue(JsonObjectSource().text), form);
    } else if (std::find(kTuning.begin(), kTuning.end(), kind) == kTuning.end()) {
      fields.FailAt(path,
                    "is not supported; use json, json_object: true, regex, choice or grammar");
    }
  }
}

void Constrain(FieldReader& fields, const ApiContext& context, Generation& out) {
  const bool forced = out.call_required || !out.only_call.empty();
  Compiling compiling(fields, context);
  auto rules = std::make_shared<OutputRules>();
  rules->thinking_budget = out.thinking_budget;
  rules->may_think = out.chat.effort != ReasoningEffort::kNone;
  bool constrained = forced || out.form || out.thinking_budget >= 0 || !out.callable.empty();
  if (!out.calls_allowed) rules->calls = OutputRules::Calls::kForbidden;
  if (forced) rules->calls = OutputRules::Calls::kRequired;
  if (out.form && !forced) rules->content = compiling.Compile(out.form->source, out.form->field);
  for (size_t i = 0; out.calls_allowed && i < out.chat.tools.size() && fields.ok(); ++i) {
    const ToolSpec& tool = out.chat.tools[i];
    if (!out.only_call.empty() && tool.name != out.only_call) continue;
    if (!out.callable.empty() && std::ranges::find(out.callable, tool.name) == out.callable.end())
      continue;
    OutputRules::Tool rule{tool.name, nullptr};
    if (tool.strict) {
      constrained = true;
      rule.arguments = compiling.Compile(
          compiling.ArgumentsSource(
              tool.parameters ? GrammarSource{Kind::kJsonSchema, WriteJson(*tool.parameters)}
                              : JsonObjectSource()),
          tool.field);
    } else if (forced) {
      rule.arguments = compiling.CompileForced(tool);
    }
    rules->tools.push_back(std::move(rule));
  }
  if (!constrained || !fields.ok()) return;
  out.new_constraint = [rules = std::shared_ptr<const OutputRules>(rules),
                        format = context.format]() -> std::shared_ptr<TokenConstraint> {
    return format->NewConstraint(*rules);
  };
}

void ConstrainText(FieldReader& fields, const ApiContext& context, Generation& out) {
  if (!out.form || !fields.ok()) return;
  auto grammar = Compiling(fields, context).Compile(out.form->source, out.form->field);
  if (!grammar) return;
  out.new_constraint = [grammar = std::move(grammar),
                        ends = context.format->stop_ids()]() -> std::shared_ptr<TokenConstraint> {
    return std::make_shared<GrammarConstraint>(grammar, ends);
  };
}

}  // namespace rose

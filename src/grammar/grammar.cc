#include "grammar/grammar.h"

#include <algorithm>

#include "grammar/gbnf.h"

namespace rose {

GrammarSource JsonObjectSource() {
  return {GrammarSource::Kind::kJsonSchema, R"({"type":"object"})"};
}

Result<GrammarSource> ChoiceSource(std::span<const std::string> choices) {
  if (choices.empty()) return InvalidArgument("must have at least one text to choose from");
  GrammarSource source{GrammarSource::Kind::kRegex, ""};
  for (const std::string& choice : choices) {
    if (choice.empty()) return InvalidArgument("must not hold an empty text");
    if (!source.text.empty()) source.text += '|';
    for (const char c : choice) {
      if (std::string_view(R"(\.+*?()|[]{}^$#&-~/)").find(c) != std::string_view::npos)
        source.text += '\\';
      source.text += c;
    }
  }
  return source;
}

Result<GrammarSource> GrammarTextSource(std::string_view text) {
  if (text.find("::=") == std::string_view::npos)
    return GrammarSource{GrammarSource::Kind::kLark, std::string(text)};
  ROSE_ASSIGN_OR_RETURN(std::string lark, GbnfToLark(text));
  return GrammarSource{GrammarSource::Kind::kLark, std::move(lark)};
}

}  // namespace rose

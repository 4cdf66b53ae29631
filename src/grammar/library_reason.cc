#include "grammar/library_reason.h"

#include <algorithm>
#include <array>
#include <optional>
#include <utility>

#include "base/status.h"

namespace rose {
namespace {

constexpr size_t kLongest = 300;
constexpr std::string_view kTooMuchWork =
    "it takes more work for one token than is allowed; make it smaller or simpler";
constexpr std::string_view kNothing = "nothing can satisfy it";
constexpr std::string_view kTooLarge = "it is too large; make it smaller or simpler";

// Errors by a part of them.
constexpr std::array<std::pair<std::string_view, std::string_view>, 11> kKnown = {{
    {"NoExtensionBias", kNothing},
    {"Regex is empty", kNothing},
    {"panic: ", "it is not understood"},
    {"oneOf constraints", "the branches of a oneOf cannot be told apart; use anyOf"},
    {"Too many items", kTooMuchWork},
    {"Current row has", kTooMuchWork},
    {"too many expressions", kTooMuchWork},
    {"too many states", kTooMuchWork},
    {"fuel exhausted", kTooLarge},
    {"lexer precomputation failed", kTooLarge},
    {"lexer configuration (grammar) too big", kTooLarge},
}};

std::string_view FirstLine(std::string_view text) {
  return text.substr(0, text.find('\n'));
}

// A regular expression's error stands behind a picture of it.
std::optional<std::string> RegexReason(std::string_view error) {
  constexpr std::string_view kMark = "\nerror: ";
  if (error.find("regex parse error") == error.npos) return std::nullopt;
  const size_t at = error.rfind(kMark);
  if (at == error.npos) return "a regular expression in it is not understood";
  return StrCat("a regular expression in it is not understood: ",
                FirstLine(error.substr(at + kMark.size())));
}

// "at 3(8): what is wrong", or without "at": a place in a grammar.
std::optional<std::string> PlaceReason(std::string_view line) {
  const auto number = [&](std::string_view& rest) {
    const size_t end = std::min(rest.find_first_not_of("0123456789"), rest.size());
    return std::exchange(rest, rest.substr(end)).substr(0, end);
  };
  const auto skip = [](std::string_view& rest, std::string_view what) {
    if (!rest.starts_with(what)) return false;
    rest.remove_prefix(what.size());
    return true;
  };
  std::string_view rest = line;
  skip(rest, "at ");
  const std::string_view row = number(rest);
  if (row.empty() || !skip(rest, "(")) return std::nullopt;
  const std::string_view column = number(rest);
  if (column.empty() || !skip(rest, "): ")) return std::nullopt;
  // Behind it may stand the token again.
  return StrCat("line ", row, ", column ", column, ": ", rest.substr(0, rest.find(" (at ")));
}

}  // namespace

std::string LibraryReason(std::string_view error) {
  for (const auto& [part, words] : kKnown)
    if (error.find(part) != error.npos) return std::string(words);
  if (auto reason = RegexReason(error)) return *std::move(reason);
  constexpr std::string_view kKeywords = "Unimplemented keys: ";
  const std::string_view line = FirstLine(error.substr(0, error.find("<non-verbose/>")));
  if (line.starts_with(kKeywords))
    return StrCat("these keywords are not supported: ", line.substr(kKeywords.size()));
  std::string reason = PlaceReason(line).value_or(std::string(line));
  while (!reason.empty() && (reason.back() == ' ' || reason.back() == '.')) reason.pop_back();
  if (reason.empty()) return "no reason is known";
  if (reason.size() <= kLongest) return reason;
  size_t end = kLongest - 3;
  while (end > 0 && (static_cast<unsigned char>(reason[end]) & 0xc0) == 0x80) --end;
  return reason.substr(0, end) + "...";
}

}  // namespace rose

#include "grammar/library_reason.h"

#include <gtest/gtest.h>

namespace rose {
namespace {

TEST(LibraryReason, IsOnePlainLine) {
  const struct {
    const char *error, *reason;
  } cases[] = {
      {"regex parse error:\n    (a|b\n    ^\nerror: unclosed group",
       "a regular expression in it is not understood: unclosed group"},
      {"at 1(8): invalid regex \"(a|b\" (in regex): regex parse error:\n    (a|b\n    ^\nerror: "
       "unclosed group\n\n   1 | start: /(a|b/\n              ^",
       "a regular expression in it is not understood: unclosed group"},
      {"at 2(8): unknown name: \"b\"\n\n   1 | start: \"a\" b\n              ^\n   2 | c: x",
       "line 2, column 8: unknown name: \"b\""},
      {"1(9): Expected token ')', found '\\n' (at \"\\n\" ('\\n'))\n  1 | x",
       "line 1, column 9: Expected token ')', found '\\n'"},
      {"Unimplemented keys: [\"if\", \"then\"]",
       "these keywords are not supported: [\"if\", \"then\"]"},
      {"parser error: Too many items (limit 50000; mask); try avoiding single-byte/short lexemes",
       "it takes more work for one token than is allowed; make it smaller or simpler"},
      {"lexer error: too many expressions constructed",
       "it takes more work for one token than is allowed; make it smaller or simpler"},
      {"initial lexer configuration (grammar) too big (limit for this grammar: 3)",
       "it is too large; make it smaller or simpler"},
      {"Unsatisfiable schema: Regex is empty:  (And (SearchRegex /x/))", "nothing can satisfy it"},
      {"panic: removal index (is 0) should be < len (is 0)", "it is not understood"},
      {"type must be a string. \nmore\n<non-verbose/>state", "type must be a string"},
      {"", "no reason is known"},
  };
  for (const auto& [error, reason] : cases) EXPECT_EQ(LibraryReason(error), reason) << error;
}

TEST(LibraryReason, IsCutBetweenCharacters) {
  std::string error;
  while (error.size() < 1000) error += "\u00e9";
  const std::string reason = LibraryReason("a" + error);
  EXPECT_LE(reason.size(), 300u);
  EXPECT_TRUE(reason.ends_with("\u00e9..."));
}

}  // namespace
}  // namespace rose

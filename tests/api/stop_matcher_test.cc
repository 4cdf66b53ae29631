#include "api/stop_matcher.h"

#include <gtest/gtest.h>

#include <random>

namespace rose {
namespace {

std::string Feed(StopMatcher& matcher, std::string_view text, size_t step) {
  std::string out;
  for (size_t i = 0; i < text.size(); i += step) out += matcher.Push(text.substr(i, step));
  return out + matcher.Flush();
}

TEST(StopMatcher, HoldsBackOnlyWhatMayMatch) {
  StopMatcher matcher({"stop", "ox"}, false);
  EXPECT_EQ(matcher.Push("a st"), "a ");
  EXPECT_EQ(matcher.Push("e s"), "ste ");
  EXPECT_EQ(matcher.Push("to"), "");
  EXPECT_EQ(matcher.Push("x y"), "st");
  EXPECT_EQ(matcher.matched(), "ox");
  EXPECT_EQ(matcher.Push("more"), "");
  EXPECT_EQ(matcher.Flush(), "");
}

TEST(StopMatcher, OverlapsAreFound) {
  for (const size_t step : {1, 2, 3, 100}) {
    StopMatcher matcher({"aab"}, false);
    EXPECT_EQ(Feed(matcher, "aaaab", step), "aa");
    EXPECT_TRUE(matcher.matched());
    StopMatcher nested({"abc", "b"}, false);
    EXPECT_EQ(Feed(nested, "xabc", step), "xa");
    EXPECT_EQ(nested.matched(), "b");
  }
}

TEST(StopMatcher, EqualsAPlainSearchHoweverTheTextIsCut) {
  std::mt19937 random(7);
  const auto word = [&](size_t size) {
    std::string out;
    for (size_t i = 0; i < size; ++i) out += static_cast<char>('a' + random() % 2);
    return out;
  };
  for (int round = 0; round < 5000; ++round) {
    const std::string text = word(random() % 20);
    const std::vector<std::string> stops = {word(1 + random() % 6), word(1 + random() % 6)};
    size_t end = text.npos, begin = text.npos;
    for (const std::string& stop : stops) {
      const size_t at = text.find(stop);
      if (at == text.npos || (end != text.npos && at + stop.size() > end)) continue;
      begin = at + stop.size() == end ? std::min(begin, at) : at;
      end = at + stop.size();
    }
    for (size_t step = 1; step < 8; ++step) {
      StopMatcher matcher(stops, false);
      EXPECT_EQ(Feed(matcher, text, step), text.substr(0, begin))
          << text << ' ' << stops[0] << ' ' << stops[1];
    }
  }
}

}  // namespace
}  // namespace rose

#include "simulator/trace.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <fstream>

#include "expect_says.h"
#include "temp_path.h"

namespace rose {
namespace {

TEST(Trace, LengthsFollowTheirDistribution) {
  std::mt19937_64 random(1);
  const auto draw = [&](const std::string& text) {
    const Lengths lengths = Lengths::Parse(text).value();
    std::vector<double> drawn;
    for (int i = 0; i < 10'001; ++i) drawn.push_back(static_cast<double>(lengths.Draw(random)));
    std::sort(drawn.begin(), drawn.end());
    return drawn;
  };
  EXPECT_EQ(draw("7").front(), 7);
  EXPECT_EQ(draw("7").back(), 7);
  const auto even = draw("100:500");
  EXPECT_EQ(even.front(), 100);
  EXPECT_EQ(even.back(), 500);
  EXPECT_NEAR(even[5000], 300, 10);
  const auto log_normal = draw("300~0.8");
  EXPECT_NEAR(log_normal[5000], 300, 12);
  EXPECT_NEAR(log_normal[8413], 300 * std::exp(0.8), 40);  // one sigma above
  const std::string path = TempPath("lengths");
  std::ofstream(path) << "5\n9\n9\n";
  const auto listed = draw("@" + path);
  EXPECT_EQ(listed.front(), 5);
  EXPECT_NEAR(std::count(listed.begin(), listed.end(), 9.0), 6667, 200);
  for (const char* text : {"", "0", "5:3", "x", "300~", "~1", "0~1", "300~-1", "300~1x", "1e9"}) {
    EXPECT_FALSE(Lengths::Parse(text).ok()) << text;
  }
  std::ofstream(path) << "5\nx\n";
  EXPECT_SAYS(Lengths::Parse("@" + path).status().message(), "number 2 is no length");
}

TEST(Trace, ArrivalsKeepTheRateAndComeInBursts) {
  TraceOptions options{.requests = 20'000, .rate = 50};
  const auto one_by_one = MakeTrace(options);
  EXPECT_NEAR(one_by_one.back().at_s, 400, 15);
  options.burst = 20;
  const auto bursts = MakeTrace(options);
  EXPECT_NEAR(bursts.back().at_s, 400, 50);
  EXPECT_EQ(bursts[0].at_s, bursts[19].at_s);
  EXPECT_LT(bursts[19].at_s, bursts[20].at_s);
  options.rate = 0;
  EXPECT_EQ(MakeTrace(options).back().at_s, 0);
}

TEST(Trace, PromptsShareTheirPrefixAndNothingElse) {
  TraceOptions options{.requests = 1000,
                       .input = Lengths::Parse("10:20").value(),
                       .output = Lengths::Parse("5").value(),
                       .prefixes = 2,
                       .prefix_tokens = 100,
                       .prefix_share = 0.5};
  const auto trace = MakeTrace(options);
  const auto with = std::count_if(trace.begin(), trace.end(),
                                  [](const auto& request) { return request.prefix_tokens > 0; });
  EXPECT_NEAR(with, 500, 60);
  std::vector<int64_t> first = {-1, -1, -1};  // request of no prefix, and of both
  for (int64_t i = 0; i < 1000; ++i) {
    const TraceRequest& request = trace[i];
    const auto prompt = PromptOf(request, i, 1000);
    EXPECT_EQ(std::ssize(prompt), request.prompt_tokens);
    int64_t& other = first[request.prefix];
    if (other < 0) {
      other = i;
      continue;
    }
    const auto its = PromptOf(trace[other], other, 1000);
    const auto differs = std::mismatch(prompt.begin(), prompt.end(), its.begin(), its.end());
    const auto common = differs.first - prompt.begin();
    EXPECT_GE(common, request.prefix_tokens);
    EXPECT_LE(common, request.prefix_tokens + 3);
  }
}

TEST(Trace, RecordedOnesAreReadInOrderOfTime) {
  const auto trace =
      ReadTrace(R"({"at_s": 2, "prompt_tokens": 5, "output_tokens": 6})"
                "\n"
                R"({"at_s": 1.5, "prompt_tokens": 9, "output_tokens": 1, "prefix": "a",)"
                R"( "prefix_tokens": 4})"
                "\n")
          .value();
  ASSERT_EQ(trace.size(), 2u);
  EXPECT_EQ(trace[0].at_s, 1.5);
  EXPECT_EQ(trace[0].prefix_tokens, 4);
  EXPECT_EQ(trace[1].output_tokens, 6);
  std::string lines;
  for (const auto& request : trace) lines += TraceLine(request) + "\n";
  EXPECT_EQ(ReadTrace(lines).value()[0].prefix_tokens, 4);
  const auto says = [](const std::string& text, const char* part) {
    EXPECT_SAYS(ReadTrace(text).status().message(), part);
  };
  says("", "no request");
  says("{}", "line 1: \"at_s\"");
  says(R"({"at_s": -1})", "\"at_s\"");
  says(
      "\n"
      R"({"at_s": 0, "prompt_tokens": 0, "output_tokens": 1})",
      "line 2: \"prompt_tokens\"");
  says(R"({"at_s": 0, "prompt_tokens": 3, "output_tokens": 1, "prefix_tokens": 4})",
       "\"prefix_tokens\"");
}

}  // namespace
}  // namespace rose

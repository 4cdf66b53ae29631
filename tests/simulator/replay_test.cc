#include "simulator/replay.h"

#include <gtest/gtest.h>

#include "engine/stub_executor.h"

namespace rose {
namespace {

TEST(Replay, GivesARecordOfEveryRequest) {
  const auto engine =
      CreateEngine({.max_running = 2, .max_waiting = 2},
                   CreateStubExecutor({.vocab = 100, .end_id = 1}), CreatePlainDecoder());
  std::vector<TraceRequest> trace;
  for (int64_t i = 0; i < 20; ++i) {
    trace.push_back(
        {.at_s = 0.01 * static_cast<double>(i), .prompt_tokens = 5 + i, .output_tokens = 1 + i});
  }
  trace.push_back({.at_s = 0.2, .prompt_tokens = 1 << 20, .output_tokens = 1});
  const auto records = Replay(*engine, trace, [](int64_t) {});
  ASSERT_EQ(records.size(), 21u);
  for (int64_t i = 0; i < 20; ++i) {
    EXPECT_EQ(records[i].error, "");
    EXPECT_GE(records[i].sent_s, trace[i].at_s);
    EXPECT_EQ(records[i].prompt_tokens, 5 + i);
    EXPECT_EQ(records[i].completion_tokens, 1 + i);
    EXPECT_EQ(std::ssize(records[i].token_s), 1 + i);
    EXPECT_GE(records[i].done_s, records[i].token_s.back());
  }
  EXPECT_NE(records[20].error, "");
}

}  // namespace
}  // namespace rose

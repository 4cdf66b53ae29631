// rose bench serve against rose serve, as a user runs them.
#include <gtest/gtest.h>

#include <csignal>
#include <string>

#include "base/json.h"
#include "e2e/program.h"

namespace rose {
namespace {

TEST(BenchServe, MeasuresAServer) {
  Program serve({"serve", ROSE_SOURCE_DIR "/models/rosebud", "--port", "0"});
  ASSERT_TRUE(serve.WaitForError("/v1 (Ctrl-C stops)")) << serve.errors();
  const size_t at = serve.errors().find("http://127.0.0.1:");
  const std::string url = serve.errors().substr(at, serve.errors().find("/v1", at) - at);
  for (const char* endpoint : {"chat", "completions"}) {
    Program bench({"bench", "serve", url, "--concurrency", "2", "-n", "4", "--input", "5:20",
                   "--output", "8", "--endpoint", endpoint});
    EXPECT_EQ(bench.Wait(), 0) << bench.errors();
    const JsonValue result = ParseJson(bench.output()).value();
    EXPECT_EQ(*result.Find("model")->string(), "rosebud");
    EXPECT_EQ(result.Find("answered")->AsInteger(), 4) << bench.output();
    EXPECT_EQ(result.Find("completion_tokens")->AsInteger(), 32) << bench.output();
    EXPECT_NE(bench.errors().find("4 of 4 answered"), std::string::npos) << bench.errors();
  }
  Program open({"bench", "serve", url, "--rate", "1000", "-n", "3", "--output", "4"});
  EXPECT_EQ(open.Wait(), 0) << open.errors();
  EXPECT_NE(open.output().find("\"late_ms\""), std::string::npos) << open.output();
  serve.Signal(SIGTERM);
  EXPECT_EQ(serve.Wait(), 0);
}

TEST(BenchServe, SaysWhatIsWrong) {
  {
    Program bench({"bench", "serve", "http://127.0.0.1:1"});
    EXPECT_EQ(bench.Wait(), 1);
    EXPECT_NE(bench.errors().find("is the server running?"), std::string::npos) << bench.errors();
  }
  for (const char* url : {"https://a", "127.0.0.1"}) {
    Program bench({"bench", "serve", url});
    EXPECT_EQ(bench.Wait(), 2) << bench.errors();
  }
  Program both({"bench", "serve", "--rate", "3", "--concurrency", "3"});
  EXPECT_EQ(both.Wait(), 2);
}

}  // namespace
}  // namespace rose

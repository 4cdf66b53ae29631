// The load generator against a server that answers as the tests say.
#include "load/load_runner.h"

#include <gtest/gtest.h>

#include <atomic>
#include <mutex>

#include "load/load_report.h"
#include "server/http_server.h"

namespace rose {
namespace {

constexpr char kToken[] = "data: {\"choices\":[{\"delta\":{\"content\":\"a\"}}]}\n\n";
constexpr char kRole[] =
    "data: {\"choices\":[{\"delta\":{\"role\":\"assistant\",\"content\":\"\"}}]}\n\n";
constexpr char kUsage[] =
    "data: {\"choices\":[],\"usage\":{\"prompt_tokens\":7,\"completion_tokens\":5}}\n\n";
constexpr char kDone[] = "data: [DONE]\n\n";

// Streams a piece for each text, or as its path says: /v1/busy is 503, /v1/cut has no end.
class ScriptedServer {
 public:
  ScriptedServer()
      : server_({.port = 0}, [this](HttpRequest request, std::shared_ptr<ResponseWriter> writer) {
          Answer(request, *writer);
        }) {
    EXPECT_TRUE(server_.Start().ok());
  }

  LoadTarget Target() const {
    return ParseTarget(StrCat("http://localhost:", server_.port()), "sesame").value();
  }
  int64_t connections() const { return server_.connections(); }
  std::vector<HttpRequest> requests() {
    const std::lock_guard lock(mutex_);
    return requests_;
  }

 private:
  void Answer(const HttpRequest& request, ResponseWriter& writer) {
    {
      const std::lock_guard lock(mutex_);
      requests_.push_back(request);
    }
    if (request.path == "/v1/busy") return writer.Send({.status = 503, .body = "{\"no\":1}"});
    writer.BeginStream({.content_type = "text/event-stream; charset=utf-8"});
    writer.Write(kRole);
    writer.Write(std::string(kToken) + kToken);
    if (request.path == "/v1/error") writer.Write("data: {\"error\":{\"message\":\"broke\"}}\n\n");
    writer.Write(kToken);
    writer.Write(kUsage);
    if (request.path != "/v1/cut") writer.Write(kDone);
    writer.EndStream();
  }

  std::mutex mutex_;
  std::vector<HttpRequest> requests_;
  HttpServer server_;
};

std::vector<LoadRequest> Requests(int64_t n, const std::string& path = "/chat/completions") {
  return std::vector<LoadRequest>(n, {path, R"({"stream":true})"});
}

TEST(LoadRunner, AClosedLoopAsksOnAsManyConnectionsAsUsers) {
  ScriptedServer server;
  const LoadTarget target = server.Target();
  int64_t last = 0;
  const auto records = RunLoad(target, {.concurrency = 3}, Requests(20), [&](int64_t done) {
    EXPECT_GE(done, last);
    last = done;
    EXPECT_LE(server.connections(), 3);
    return true;
  });
  EXPECT_EQ(last, 20);
  ASSERT_EQ(records.size(), 20u);
  for (const LoadRecord& record : records) {
    EXPECT_EQ(record.error, "");
    ASSERT_EQ(record.token_s.size(), 3u);  // the role says nothing
    EXPECT_GE(record.token_s[0], record.sent_s);
    EXPECT_GE(record.done_s, record.token_s[2]);
    EXPECT_EQ(record.prompt_tokens, 7);
    EXPECT_EQ(record.completion_tokens, 5);
    EXPECT_LT(record.due_s, 0);
  }
  const HttpRequest request = server.requests().at(0);
  EXPECT_EQ(request.method, "POST");
  EXPECT_EQ(request.path, "/v1/chat/completions");
  EXPECT_EQ(FindHeader(request.headers, "Authorization"), "Bearer sesame");
  const LoadReport report = ReportOf(records);
  EXPECT_EQ(report.answered, 20);
  EXPECT_LE(report.most_running, 3);
  EXPECT_EQ(report.late_ms.count, 0);
}

TEST(LoadRunner, AnOpenLoopSendsAtItsTimes) {
  ScriptedServer server;
  const LoadTarget target = server.Target();
  LoadPlan plan{.concurrency = 0};
  for (int i = 0; i < 10; ++i) plan.arrivals.push_back(0.002 * i);
  const auto records = RunLoad(target, plan, Requests(10), [](int64_t) { return true; });
  ASSERT_EQ(records.size(), 10u);
  for (size_t i = 0; i < records.size(); ++i) {
    EXPECT_EQ(records[i].error, "");
    EXPECT_EQ(records[i].due_s, plan.arrivals[i]);
    EXPECT_GE(records[i].sent_s, records[i].due_s);
  }
  EXPECT_EQ(ReportOf(records).late_ms.count, 10);
}

TEST(LoadRunner, FailuresAreCountedByTheirReason) {
  ScriptedServer server;
  const LoadTarget target = server.Target();
  std::vector<LoadRequest> requests = Requests(2, "/busy");
  for (const char* path : {"/cut", "/error", "/chat/completions"}) {
    requests.push_back(Requests(1, path)[0]);
  }
  const auto records = RunLoad(target, {.concurrency = 2}, requests, [](int64_t) { return true; });
  EXPECT_EQ(records[0].error, "HTTP 503: {\"no\":1}");
  EXPECT_NE(records[2].error.find("without [DONE]"), std::string::npos);
  EXPECT_NE(records[3].error.find("broke"), std::string::npos);
  EXPECT_EQ(records[4].error, "");
  const LoadReport report = ReportOf(records);
  EXPECT_EQ(report.requests, 5);
  EXPECT_EQ(report.answered, 1);
  EXPECT_EQ(report.errors.at("HTTP 503: {\"no\":1}"), 2);
  EXPECT_EQ(report.first_token_ms.count, 1);
  EXPECT_NE(ReportJson(report).find("\"failed\": 4"), std::string::npos);
}

TEST(LoadRunner, AServerThatIsNotThereIsAFailureOfEachRequest) {
  LoadTarget target;
  {
    ScriptedServer server;
    target = server.Target();
  }
  const auto records =
      RunLoad(target, {.concurrency = 2}, Requests(4), [](int64_t) { return true; });
  for (const LoadRecord& record : records) EXPECT_NE(record.error, "");
  EXPECT_EQ(ReportOf(records).answered, 0);
}

TEST(LoadRunner, StopsWhenToldTo) {
  ScriptedServer server;
  const LoadTarget target = server.Target();
  const auto records =
      RunLoad(target, {.concurrency = 1}, Requests(1000), [](int64_t done) { return done < 5; });
  EXPECT_LT(records.size(), 1000u);
  EXPECT_GE(records.size(), 5u);
}

TEST(LoadRunner, PoissonArrivalsHaveTheirRate) {
  const auto times = PoissonArrivals(20000, 50, 3);
  EXPECT_EQ(times, PoissonArrivals(20000, 50, 3));
  EXPECT_NE(times, PoissonArrivals(20000, 50, 4));
  EXPECT_TRUE(std::is_sorted(times.begin(), times.end()));
  EXPECT_NEAR(times.back(), 400, 12);
  // Exponential gaps: their deviation is their mean.
  double squares = 0;
  for (size_t i = 1; i < times.size(); ++i) {
    squares += (times[i] - times[i - 1]) * (times[i] - times[i - 1]);
  }
  EXPECT_NEAR(squares / 20000, 2 * 0.02 * 0.02, 5e-5);
}

TEST(LoadReport, PercentilesAreNearestRanks) {
  std::vector<double> seconds;
  for (int i = 100; i >= 1; --i) seconds.push_back(i / 1000.0);
  const Spread spread = SpreadOf(seconds);
  EXPECT_EQ(spread.count, 100);
  EXPECT_DOUBLE_EQ(spread.p50, 50);
  EXPECT_DOUBLE_EQ(spread.p90, 90);
  EXPECT_DOUBLE_EQ(spread.p99, 99);
  EXPECT_DOUBLE_EQ(spread.max, 100);
  EXPECT_DOUBLE_EQ(spread.mean, 50.5);
  EXPECT_EQ(SpreadOf({0.004}).p99, 4);
  EXPECT_EQ(SpreadOf({}).count, 0);
}

TEST(LoadReport, TimesAreOfTheAnswers) {
  LoadRecord one{.due_s = 1, .sent_s = 1.5, .done_s = 4, .token_s = {2, 2.5, 3.5}};
  one.prompt_tokens = 10;
  one.completion_tokens = 4;
  const LoadReport report = ReportOf({one, {.due_s = 2, .sent_s = 2, .done_s = 3, .error = "x"}});
  EXPECT_DOUBLE_EQ(report.seconds, 2.5);
  EXPECT_DOUBLE_EQ(report.first_token_ms.max, 500);
  EXPECT_EQ(report.inter_token_ms.count, 2);
  EXPECT_DOUBLE_EQ(report.inter_token_ms.max, 1000);
  EXPECT_DOUBLE_EQ(report.per_token_ms.max, 500);  // 1.5 s for three further tokens
  EXPECT_DOUBLE_EQ(report.answer_ms.max, 2500);
  EXPECT_DOUBLE_EQ(report.late_ms.max, 500);
  EXPECT_EQ(report.most_running, 2);
}

}  // namespace
}  // namespace rose

#include "server/metrics.h"

#include <gtest/gtest.h>

#include <map>
#include <set>
#include <sstream>
#include <string>

namespace rose {
namespace {

// The samples of a page in Prometheus' text format, by name and labels; fails where it is none.
std::map<std::string, double> Samples(const std::string& page) {
  std::map<std::string, double> samples;
  std::set<std::string> declared;
  std::istringstream lines(page);
  for (std::string line; std::getline(lines, line);) {
    if (line.starts_with("# TYPE ")) {
      EXPECT_TRUE(declared.insert(line.substr(7, line.find(' ', 7) - 7)).second) << line;
      continue;
    }
    if (line.starts_with("# HELP ")) continue;
    const size_t space = line.rfind(' ');
    EXPECT_NE(space, std::string::npos) << line;
    const std::string key = line.substr(0, space);
    std::string name = key.substr(0, key.find('{'));
    for (const char* suffix : {"_bucket", "_sum", "_count"}) {
      if (name.ends_with(suffix) && !declared.contains(name)) {
        name.resize(name.size() - std::string(suffix).size());
      }
    }
    EXPECT_TRUE(declared.contains(name)) << line;
    EXPECT_TRUE(samples.emplace(key, std::stod(line.substr(space + 1))).second) << line;
  }
  return samples;
}

constexpr char kLabels[] = R"({model_name="m",engine="0"})";

TEST(Metrics, TellsWhatTheEngineDoes) {
  const EngineStats stats{.running = 3,
                          .waiting = 2,
                          .pages_total = 8,
                          .pages_used = 2,
                          .prefix_queries = 60,
                          .prefix_hits = 40,
                          .prefix_host_hits = 15,
                          .host_pages_total = 20,
                          .host_pages_used = 5,
                          .pages_swapped_out = 7,
                          .pages_swapped_in = 6,
                          .prompt_tokens = 70,
                          .generated_tokens = 50,
                          .preemptions = 1};
  auto samples = Samples(Metrics().Text("m", stats));
  const auto value = [&](const std::string& name) { return samples.at(name + kLabels); };
  EXPECT_EQ(value("vllm:num_requests_running"), 3);
  EXPECT_EQ(value("vllm:num_requests_waiting"), 2);
  EXPECT_EQ(value("vllm:kv_cache_usage_perc"), 0.25);
  EXPECT_EQ(value("vllm:prompt_tokens_total"), 70);
  EXPECT_EQ(value("vllm:generation_tokens_total"), 50);
  EXPECT_EQ(value("vllm:num_preemptions_total"), 1);
  EXPECT_EQ(value("vllm:prefix_cache_queries_total"), 60);
  EXPECT_EQ(value("vllm:prefix_cache_hits_total"), 40);
  EXPECT_EQ(value("vllm:external_prefix_cache_queries_total"), 35);
  EXPECT_EQ(value("vllm:external_prefix_cache_hits_total"), 15);
  EXPECT_EQ(value("vllm:cpu_cache_usage_perc"), 0.25);
  EXPECT_EQ(value("rose:host_cache_pages"), 20);
  EXPECT_EQ(value("rose:host_cache_pages_used"), 5);
  EXPECT_EQ(value("rose:host_cache_pages_out_total"), 7);
  EXPECT_EQ(value("rose:host_cache_pages_in_total"), 6);
  EXPECT_EQ(samples.at(R"(vllm:request_success_total{model_name="m",engine="0",)"
                       R"(finished_reason="stop"})"),
            0);
  EXPECT_GT(samples.at("process_resident_memory_bytes"), 0);
}

TEST(Metrics, CountsRequests) {
  Metrics metrics;
  AccessRecord record;
  record.method = "POST";
  record.route = "/v1/chat/completions";
  record.status = 200;
  record.total_ms = 900;
  record.stats = {.prompt_tokens = 7,
                  .completion_tokens = 5,
                  .finish = "stop",
                  .queued_ms = 10,
                  .first_token_ms = 50,
                  .last_token_ms = 850};
  metrics.ObserveRequest(record);
  record.stats.finish = "cancelled";
  record.client_left = true;
  metrics.ObserveRequest(record);
  metrics.ObserveRequest({.method = "BREW", .status = 404});
  metrics.ObserveTokens(0.06, 2);
  auto samples = Samples(metrics.Text("m", {}));
  const std::string chat = R"(handler="/v1/chat/completions",method="POST")";
  EXPECT_EQ(samples.at("http_requests_total{" + chat + R"(,status="2xx"})"), 2);
  EXPECT_EQ(samples.at(R"(http_requests_total{handler="none",method="other",status="4xx"})"), 1);
  EXPECT_EQ(samples.at("http_request_duration_seconds_bucket{" + chat + R"(,le="0.8"})"), 0);
  EXPECT_EQ(samples.at("http_request_duration_seconds_bucket{" + chat + R"(,le="1"})"), 2);
  EXPECT_EQ(samples.at("http_request_duration_seconds_bucket{" + chat + R"(,le="+Inf"})"), 2);
  const auto ours = [&](const std::string& name, const std::string& more) {
    return samples.at(name + R"({model_name="m",engine="0")" + more + "}");
  };
  EXPECT_EQ(ours("vllm:request_success_total", R"(,finished_reason="stop")"), 1);
  EXPECT_EQ(ours("vllm:request_success_total", R"(,finished_reason="abort")"), 1);
  EXPECT_EQ(ours("vllm:time_to_first_token_seconds_bucket", R"(,le="0.04")"), 0);
  EXPECT_EQ(ours("vllm:time_to_first_token_seconds_bucket", R"(,le="0.06")"), 2);
  EXPECT_EQ(ours("vllm:time_to_first_token_seconds_count", ""), 2);
  EXPECT_DOUBLE_EQ(ours("vllm:request_decode_time_seconds_sum", ""), 1.6);
  EXPECT_DOUBLE_EQ(ours("vllm:request_prefill_time_seconds_sum", ""), 0.08);
  // Two tokens of 30 ms each.
  EXPECT_EQ(ours("vllm:inter_token_latency_seconds_bucket", R"(,le="0.025")"), 0);
  EXPECT_EQ(ours("vllm:inter_token_latency_seconds_bucket", R"(,le="0.05")"), 2);
  EXPECT_EQ(samples.at("rose:clients_left_total"), 1);
}

TEST(Metrics, StaysReadableWhateverTheNameHolds) {
  const std::string page = Metrics().Text("a\"b\\c\nd", {});
  EXPECT_NE(page.find(R"(model_name="a\"b\\c\nd")"), std::string::npos);
  Samples(page);
}

}  // namespace
}  // namespace rose

// What /metrics tells, in Prometheus' text format, under the names that dashboards and routers of
// vLLM know (spec E.15).
//
// Of the HTTP server's thread alone, which counts and tells: no lock, and a scrape costs some
// microseconds.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "engine/engine.h"
#include "server/http_server.h"

namespace rose {

class Histogram {
 public:
  // `bounds` rise and outlive the histogram.
  explicit Histogram(std::span<const double> bounds)
      : bounds_(bounds), counts_(bounds.size() + 1) {}

  void Observe(double value, int64_t times = 1);
  // Its lines; `labels` without braces, such as R"(model_name="m")".
  void Write(std::string_view name, std::string_view labels, std::string& out) const;

 private:
  std::span<const double> bounds_;
  std::vector<int64_t> counts_;  // by bucket, the last one above all bounds
  double sum_ = 0;
};

class Metrics {
 public:
  Metrics();

  // `tokens` came `seconds` after the ones before them.
  void ObserveTokens(double seconds, int64_t tokens);
  // A request is over: the server's on_finished.
  void ObserveRequest(const AccessRecord& record);
  // A line of the access log could not be written.
  void ObserveLostLogLine() { ++log_lines_lost_; }

  // The answer to a scrape.
  std::string Text(std::string_view model, const EngineStats& engine) const;

 private:
  struct RouteFigures {
    RouteFigures();
    std::map<char, int64_t> by_status;  // '2' for 2xx
    Histogram seconds;
  };

  void ObserveGeneration(const AccessRecord& record);
  void WriteEngine(const EngineStats& engine, std::string_view labels, std::string& out) const;
  void WriteGenerations(std::string_view labels, std::string& out) const;
  void WriteHttp(std::string& out) const;

  // By route and method.
  std::map<std::pair<std::string, std::string>, RouteFigures> routes_;
  std::map<std::string, int64_t, std::less<>> finished_;  // requests by reason
  int64_t cached_tokens_ = 0;
  int64_t dropped_bytes_ = 0;
  int64_t clients_left_ = 0;
  int64_t log_lines_lost_ = 0;
  Histogram first_token_, token_gap_, token_mean_;           // seconds
  Histogram total_, queued_, inference_, prefill_, decode_;  // seconds
  Histogram prompt_tokens_, generated_tokens_;               // tokens of a request
};

}  // namespace rose

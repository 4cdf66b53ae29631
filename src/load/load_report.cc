#include "load/load_report.h"

#include <algorithm>
#include <cmath>
#include <cstdio>

#include "base/json.h"
#include "base/status.h"

namespace rose {
namespace {

std::string Fixed(double value) {
  char text[64];
  std::snprintf(text, sizeof text, "%.3f", value);
  return text;
}

std::string SpreadJson(const Spread& spread) {
  return StrCat("{\"count\": ", spread.count, ", \"mean\": ", Fixed(spread.mean),
                ", \"p50\": ", Fixed(spread.p50), ", \"p90\": ", Fixed(spread.p90),
                ", \"p99\": ", Fixed(spread.p99), ", \"max\": ", Fixed(spread.max), "}");
}

std::string SpreadLine(const char* name, const Spread& spread) {
  if (spread.count == 0) return "";
  char text[160];
  std::snprintf(text, sizeof text, "%-22s %10.2f %10.2f %10.2f %10.2f %10.2f\n", name, spread.mean,
                spread.p50, spread.p90, spread.p99, spread.max);
  return text;
}

// The most requests that ran at the same time.
int64_t MostRunning(const std::vector<LoadRecord>& records) {
  std::vector<std::pair<double, int>> changes;
  for (const LoadRecord& record : records) {
    changes.emplace_back(record.sent_s, 1);
    changes.emplace_back(record.done_s, -1);
  }
  std::sort(changes.begin(), changes.end());
  int64_t running = 0, most = 0;
  for (const auto& [time, change] : changes) most = std::max(most, running += change);
  return most;
}

}  // namespace

Spread SpreadOf(std::vector<double> seconds) {
  Spread spread;
  if (seconds.empty()) return spread;
  std::sort(seconds.begin(), seconds.end());
  const auto size = static_cast<double>(seconds.size());
  const auto at = [&](double share) {
    const auto rank = static_cast<size_t>(std::ceil(share * size));
    return 1000 * seconds[std::max<size_t>(rank, 1) - 1];
  };
  double sum = 0;
  for (double value : seconds) sum += value;
  spread.count = static_cast<int64_t>(seconds.size());
  spread.mean = 1000 * sum / size;
  spread.p10 = at(0.1);
  spread.p50 = at(0.5);
  spread.p90 = at(0.9);
  spread.p99 = at(0.99);
  spread.max = at(1);
  return spread;
}

LoadReport ReportOf(const std::vector<LoadRecord>& records) {
  LoadReport report;
  std::vector<double> first, between, per_token, whole, late;
  double begin = 0, end = 0;
  for (const LoadRecord& record : records) {
    if (report.requests++ == 0) begin = record.sent_s;
    begin = std::min(begin, record.sent_s);
    end = std::max(end, record.done_s);
    if (record.due_s >= 0) late.push_back(record.sent_s - record.due_s);
    if (!record.error.empty()) {
      ++report.errors[record.error];
      continue;
    }
    ++report.answered;
    report.prompt_tokens += record.prompt_tokens;
    report.completion_tokens += record.completion_tokens;
    whole.push_back(record.done_s - record.sent_s);
    const std::vector<double>& tokens = record.token_s;
    if (tokens.empty()) continue;
    first.push_back(tokens.front() - record.sent_s);
    for (size_t i = 1; i < tokens.size(); ++i) between.push_back(tokens[i] - tokens[i - 1]);
    if (record.completion_tokens > 1) {
      per_token.push_back((tokens.back() - tokens.front()) /
                          static_cast<double>(record.completion_tokens - 1));
    }
  }
  report.seconds = end - begin;
  report.most_running = MostRunning(records);
  report.first_token_ms = SpreadOf(std::move(first));
  report.inter_token_ms = SpreadOf(std::move(between));
  report.per_token_ms = SpreadOf(std::move(per_token));
  report.answer_ms = SpreadOf(std::move(whole));
  report.late_ms = SpreadOf(std::move(late));
  return report;
}

std::string ReportJson(const LoadReport& report) {
  const double seconds = std::max(report.seconds, 1e-9);
  std::string errors;
  for (const auto& [error, count] : report.errors) {
    if (!errors.empty()) errors += ", ";
    AppendJsonString(errors, error);
    errors += StrCat(": ", count);
  }
  std::string json =
      StrCat("\"requests\": ", report.requests, ", \"answered\": ", report.answered,
             ", \"failed\": ", report.requests - report.answered, ", \"errors\": {", errors,
             "}, \"seconds\": ", Fixed(report.seconds), ", \"most_running\": ", report.most_running,
             ", \"prompt_tokens\": ", report.prompt_tokens,
             ", \"completion_tokens\": ", report.completion_tokens,
             ", \"requests_per_s\": ", Fixed(static_cast<double>(report.answered) / seconds),
             ", \"completion_tokens_per_s\": ",
             Fixed(static_cast<double>(report.completion_tokens) / seconds), ", \"tokens_per_s\": ",
             Fixed(static_cast<double>(report.prompt_tokens + report.completion_tokens) / seconds));
  json += ", \"first_token_ms\": " + SpreadJson(report.first_token_ms);
  json += ", \"inter_token_ms\": " + SpreadJson(report.inter_token_ms);
  json += ", \"per_token_ms\": " + SpreadJson(report.per_token_ms);
  json += ", \"answer_ms\": " + SpreadJson(report.answer_ms);
  if (report.late_ms.count > 0) json += ", \"late_ms\": " + SpreadJson(report.late_ms);
  return json;
}

std::string ReportTable(const LoadReport& report) {
  const double seconds = std::max(report.seconds, 1e-9);
  char text[256];
  std::snprintf(text, sizeof text,
                "%lld of %lld answered in %.2f s: %.2f requests/s, %.1f tokens/s, at most %lld at "
                "a time\n",
                static_cast<long long>(report.answered), static_cast<long long>(report.requests),
                report.seconds, static_cast<double>(report.answered) / seconds,
                static_cast<double>(report.completion_tokens) / seconds,
                static_cast<long long>(report.most_running));
  std::string table = text;
  std::snprintf(text, sizeof text, "%-22s %10s %10s %10s %10s %10s\n", "milliseconds", "mean",
                "p50", "p90", "p99", "max");
  table += text;
  table += SpreadLine("first token", report.first_token_ms);
  table += SpreadLine("between events", report.inter_token_ms);
  table += SpreadLine("per further token", report.per_token_ms);
  table += SpreadLine("whole answer", report.answer_ms);
  table += SpreadLine("sent late", report.late_ms);
  for (const auto& [error, count] : report.errors) {
    table += StrCat(count, " failed: ", error, "\n");
  }
  return table;
}

}  // namespace rose

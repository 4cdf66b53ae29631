#include "server/metrics.h"

#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <ctime>

#include "base/check.h"

namespace rose {
namespace {

// The buckets that dashboards expect (spec E.15), in seconds and tokens.
constexpr double kFirstToken[] = {0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.25, 0.5, 0.75,
                                  1,     2.5,   5,    7.5,  10,   20,   40,   80,  160,  640, 2560};
constexpr double kTokenGap[] = {0.01, 0.025, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5,
                                0.75, 1,     2.5,  5,     7.5, 10,   20,  40,  80};
constexpr double kRequest[] = {0.3, 0.5, 0.8, 1,  1.5, 2,   2.5, 5,   10,   15,  20,
                               30,  40,  50,  60, 120, 240, 480, 960, 1920, 7680};
constexpr double kTokens[] = {1,    2,    5,    10,    20,    50,    100,    200,   500,
                              1000, 2000, 5000, 10000, 20000, 50000, 100000, 200000};

std::string Number(double value) {
  std::array<char, 40> text{};
  std::snprintf(text.data(), text.size(), "%.10g", value);
  return text.data();
}

std::string LabelText(std::string_view value) {
  std::string text;
  for (const char c : value) {
    if (c == '\\' || c == '"') text += '\\';
    if (c == '\n') {
      text += "\\n";
    } else {
      text += c;
    }
  }
  return text;
}

void Head(std::string_view name, std::string_view type, std::string_view help, std::string& out) {
  out += StrCat("# HELP ", name, " ", help, "\n# TYPE ", name, " ", type, "\n");
}

struct Metric {
  std::string_view name, type, help;
  double value;
};

void Write(const Metric& metric, std::string_view labels, std::string& out) {
  Head(metric.name, metric.type, metric.help, out);
  out.append(metric.name);
  if (!labels.empty()) out.append("{").append(labels).append("}");
  out.append(" ").append(Number(metric.value)).append("\n");
}

// Seconds of processor time, and bytes of memory, of this process.
void WriteProcess(std::string& out) {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  const auto seconds = [](const timeval& time) {
    return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_usec) * 1e-6;
  };
  long long virtual_pages = 0, resident_pages = 0;
  if (std::FILE* file = std::fopen("/proc/self/statm", "re")) {
    if (std::fscanf(file, "%lld %lld", &virtual_pages, &resident_pages) != 2) resident_pages = 0;
    std::fclose(file);
  }
  const auto page = static_cast<double>(sysconf(_SC_PAGESIZE));
  Write({"process_cpu_seconds_total", "counter", "User and system time.",
         seconds(usage.ru_utime) + seconds(usage.ru_stime)},
        "", out);
  Write({"process_resident_memory_bytes", "gauge", "Resident memory.",
         static_cast<double>(resident_pages) * page},
        "", out);
  Write({"process_virtual_memory_bytes", "gauge", "Virtual memory.",
         static_cast<double>(virtual_pages) * page},
        "", out);
}

// Methods are whatever clients send; figures are kept for the usual ones.
std::string MethodLabel(std::string_view method) {
  for (const std::string_view usual :
       {"GET", "HEAD", "POST", "DELETE", "OPTIONS", "PUT", "PATCH"}) {
    if (method == usual) return std::string(method);
  }
  return "other";
}

// vLLM's words for how requests end.
std::string_view ReasonLabel(std::string_view finish) {
  return finish == "cancelled" ? std::string_view("abort") : finish;
}

}  // namespace

void Histogram::Observe(double value, int64_t times) {
  const auto bucket = std::lower_bound(bounds_.begin(), bounds_.end(), value) - bounds_.begin();
  counts_[static_cast<size_t>(bucket)] += times;
  sum_ += value * static_cast<double>(times);
}

void Histogram::Write(std::string_view name, std::string_view labels, std::string& out) const {
  const std::string separator = labels.empty() ? "" : ",";
  int64_t below = 0;
  for (size_t i = 0; i < counts_.size(); ++i) {
    below += counts_[i];
    const std::string bound = i < bounds_.size() ? Number(bounds_[i]) : "+Inf";
    out += StrCat(name, "_bucket{", labels, separator, "le=\"", bound, "\"} ", below, "\n");
  }
  const std::string braced = labels.empty() ? "" : StrCat("{", labels, "}");
  out += StrCat(name, "_sum", braced, " ", Number(sum_), "\n");
  out += StrCat(name, "_count", braced, " ", below, "\n");
}

Metrics::RouteFigures::RouteFigures() : seconds(kRequest) {}

Metrics::Metrics()
    : first_token_(kFirstToken),
      token_gap_(kTokenGap),
      token_mean_(kTokenGap),
      total_(kRequest),
      queued_(kRequest),
      inference_(kRequest),
      prefill_(kRequest),
      decode_(kRequest),
      prompt_tokens_(kTokens),
      generated_tokens_(kTokens) {
  for (const char* reason : {"stop", "length", "abort", "error"}) finished_[reason] = 0;
}

void Metrics::ObserveTokens(double seconds, int64_t tokens) {
  if (tokens > 0) token_gap_.Observe(seconds / static_cast<double>(tokens), tokens);
}

void Metrics::ObserveRequest(const AccessRecord& record) {
  // Its request was counted when it was answered.
  if (record.background) return ObserveGeneration(record);
  const std::string_view route = record.route.empty() ? "none" : record.route;
  RouteFigures& figures = routes_[{std::string(route), MethodLabel(record.method)}];
  ++figures.by_status[static_cast<char>('0' + record.status / 100)];
  figures.seconds.Observe(record.total_ms / 1000);
  if (record.client_left) ++clients_left_;
  if (!record.stats.finish.empty()) ObserveGeneration(record);
}

void Metrics::ObserveGeneration(const AccessRecord& record) {
  const RequestStats& stats = record.stats;
  ++finished_[std::string(ReasonLabel(stats.finish))];
  cached_tokens_ += std::max<int64_t>(0, stats.cached_tokens);
  dropped_bytes_ += stats.dropped_bytes;
  total_.Observe(record.total_ms / 1000);
  if (stats.prompt_tokens >= 0) prompt_tokens_.Observe(static_cast<double>(stats.prompt_tokens));
  if (stats.completion_tokens >= 0) {
    generated_tokens_.Observe(static_cast<double>(stats.completion_tokens));
  }
  if (stats.queued_ms < 0) return;
  queued_.Observe(stats.queued_ms / 1000);
  if (stats.first_token_ms < 0) return;
  first_token_.Observe(stats.first_token_ms / 1000);
  prefill_.Observe(std::max(0.0, stats.first_token_ms - stats.queued_ms) / 1000);
  const double decode = (stats.last_token_ms - stats.first_token_ms) / 1000;
  decode_.Observe(decode);
  inference_.Observe(std::max(0.0, stats.last_token_ms - stats.queued_ms) / 1000);
  if (stats.completion_tokens > 1) {
    token_mean_.Observe(decode / static_cast<double>(stats.completion_tokens - 1));
  }
}

std::string Metrics::Text(std::string_view model, const EngineStats& engine) const {
  std::string out;
  out.reserve(32 << 10);
  const std::string labels = StrCat("model_name=\"", LabelText(model), "\",engine=\"0\"");
  WriteEngine(engine, labels, out);
  WriteGenerations(labels, out);
  WriteHttp(out);
  WriteProcess(out);
  return out;
}

void Metrics::WriteEngine(const EngineStats& engine, std::string_view labels,
                          std::string& out) const {
  const auto number = [](int64_t value) { return static_cast<double>(value); };
  const auto share = [&](int64_t part, int64_t of) {
    return of == 0 ? 0 : number(part) / number(of);
  };
  const double usage = share(engine.pages_used, engine.pages_total);
  const Metric metrics[] = {
      {"vllm:num_requests_running", "gauge", "Requests in the steps.", number(engine.running)},
      {"vllm:num_requests_waiting", "gauge", "Requests in the queue.", number(engine.waiting)},
      {"vllm:kv_cache_usage_perc", "gauge", "Share of KV pages in use, 0 to 1.", usage},
      {"vllm:gpu_cache_usage_perc", "gauge", "The same under its old name.", usage},
      {"vllm:num_preemptions_total", "counter", "Requests sent back to the queue.",
       number(engine.preemptions)},
      {"vllm:prompt_tokens_total", "counter", "Tokens of prompts that ran.",
       number(engine.prompt_tokens)},
      {"vllm:generation_tokens_total", "counter", "Tokens drawn.", number(engine.generated_tokens)},
      {"vllm:prompt_tokens_cached_total", "counter", "Tokens of prompts taken from the cache.",
       number(cached_tokens_)},
      {"vllm:prefix_cache_queries_total", "counter", "Tokens looked up in the prefix cache.",
       number(engine.prefix_queries)},
      {"vllm:prefix_cache_hits_total", "counter", "Tokens found in the prefix cache.",
       number(engine.prefix_hits)},
      {"vllm:gpu_prefix_cache_queries_total", "counter", "The same under their old names.",
       number(engine.prefix_queries)},
      {"vllm:gpu_prefix_cache_hits_total", "counter", "The same under their old names.",
       number(engine.prefix_hits)},
      {"vllm:external_prefix_cache_queries_total", "counter",
       "Tokens not found on the device and looked up in the host tier.",
       number(engine.prefix_queries - engine.prefix_hits + engine.prefix_host_hits)},
      {"vllm:external_prefix_cache_hits_total", "counter", "Tokens found in the host tier.",
       number(engine.prefix_host_hits)},
      {"vllm:cpu_cache_usage_perc", "gauge", "Share of the host tier's pages in use, 0 to 1.",
       share(engine.host_pages_used, engine.host_pages_total)},
      {"rose:host_cache_pages", "gauge", "KV pages of the host tier.",
       number(engine.host_pages_total)},
      {"rose:host_cache_pages_used", "gauge", "And those that hold something.",
       number(engine.host_pages_used)},
      {"rose:host_cache_pages_out_total", "counter", "KV pages copied to the host tier.",
       number(engine.pages_swapped_out)},
      {"rose:host_cache_pages_in_total", "counter", "KV pages copied back to the device.",
       number(engine.pages_swapped_in)},
      {"rose:engine_steps_total", "counter", "Steps of the engine.", number(engine.steps)},
  };
  for (const Metric& metric : metrics) Write(metric, labels, out);
}

void Metrics::WriteGenerations(std::string_view labels, std::string& out) const {
  constexpr std::string_view kFinished = "vllm:request_success_total";
  Head(kFinished, "counter", "Requests that are over, by reason.", out);
  for (const auto& [reason, count] : finished_) {
    out += StrCat(kFinished, "{", labels, ",finished_reason=\"", reason, "\"} ", count, "\n");
  }
  struct Named {
    std::string_view name, help;
    const Histogram& histogram;
  };
  const Named histograms[] = {
      {"vllm:time_to_first_token_seconds", "From the request to its first token.", first_token_},
      {"vllm:inter_token_latency_seconds", "Between tokens of a stream.", token_gap_},
      {"vllm:time_per_output_token_seconds", "The same under its old name.", token_gap_},
      {"vllm:request_time_per_output_token_seconds", "Mean of a request.", token_mean_},
      {"vllm:e2e_request_latency_seconds", "From the request to its last byte.", total_},
      {"vllm:request_queue_time_seconds", "In the queue.", queued_},
      {"vllm:request_inference_time_seconds", "From the queue to the last token.", inference_},
      {"vllm:request_prefill_time_seconds", "From the queue to the first token.", prefill_},
      {"vllm:request_decode_time_seconds", "From the first token to the last.", decode_},
      {"vllm:request_prompt_tokens", "Tokens of a prompt.", prompt_tokens_},
      {"vllm:request_generation_tokens", "Tokens of an answer.", generated_tokens_},
  };
  for (const Named& named : histograms) {
    Head(named.name, "histogram", named.help, out);
    named.histogram.Write(named.name, labels, out);
  }
}

void Metrics::WriteHttp(std::string& out) const {
  constexpr std::string_view kRequests = "http_requests_total";
  constexpr std::string_view kSeconds = "http_request_duration_seconds";
  Head(kRequests, "counter", "HTTP requests.", out);
  for (const auto& [key, figures] : routes_) {
    for (const auto& [status, count] : figures.by_status) {
      out += StrCat(kRequests, "{handler=\"", key.first, "\",method=\"", key.second, "\",status=\"",
                    std::string(1, status), "xx\"} ", count, "\n");
    }
  }
  Head(kSeconds, "histogram", "Until the last byte of the answer.", out);
  for (const auto& [key, figures] : routes_) {
    figures.seconds.Write(kSeconds,
                          StrCat("handler=\"", key.first, "\",method=\"", key.second, "\""), out);
  }
  const auto number = [](int64_t value) { return static_cast<double>(value); };
  Write({"rose:clients_left_total", "counter", "Clients that left before their answer's end.",
         number(clients_left_)},
        "", out);
  Write({"rose:dropped_bytes_total", "counter", "Bytes of output that no field could hold.",
         number(dropped_bytes_)},
        "", out);
  Write({"rose:access_log_lines_lost_total", "counter",
         "Lines of the access log that could not be written.", number(log_lines_lost_)},
        "", out);
}

}  // namespace rose

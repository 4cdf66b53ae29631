#include "simulator/trace.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdio>

#include "base/file.h"
#include "base/json.h"
#include "load/load_bodies.h"
#include "load/load_runner.h"
#include "simulator/virtual_executor.h"

namespace rose {
namespace {

constexpr int64_t kMostTokens = int64_t{1} << 24;
constexpr int64_t kMostFileBytes = int64_t{1} << 30;

// Of (0, 1), by hand: the library's distributions differ from one compiler to the next.
double Uniform(std::mt19937_64& random) {
  return (static_cast<double>(random() >> 11) + 0.5) * 0x1p-53;
}

double Normal(std::mt19937_64& random) {
  const double radius = std::sqrt(-2 * std::log(Uniform(random)));
  return radius * std::cos(2 * M_PI * Uniform(random));
}

bool ReadDouble(std::string_view text, double& out) {
  const auto read = std::from_chars(text.data(), text.data() + text.size(), out);
  return read.ec == std::errc() && read.ptr == text.data() + text.size();
}

Result<std::vector<int64_t>> ReadLengths(const std::string& path) {
  ROSE_ASSIGN_OR_RETURN(const std::string text, ReadFileOrPipe(path, kMostFileBytes));
  std::vector<int64_t> lengths;
  const char* at = text.data();
  const char* const end = at + text.size();
  while (true) {
    while (at != end && (*at == '\n' || *at == ' ' || *at == '\r')) ++at;
    if (at == end) break;
    int64_t length = 0;
    const auto read = std::from_chars(at, end, length);
    if (read.ec != std::errc() || length < 1 || length > kMostTokens) {
      return InvalidArgument(path, ": number ", lengths.size() + 1,
                             " is no length; write one whole number a line");
    }
    lengths.push_back(length);
    at = read.ptr;
  }
  if (lengths.empty()) return InvalidArgument(path, " holds no lengths; write one a line");
  return lengths;
}

Result<TraceRequest> ReadRequest(std::string_view text) {
  ROSE_ASSIGN_OR_RETURN(const JsonValue line, ParseJson(text));
  TraceRequest request;
  const JsonValue* at = line.Find("at_s");
  request.at_s = at == nullptr ? -1 : at->AsDouble().value_or(-1);
  if (!(request.at_s >= 0)) return InvalidArgument("\"at_s\" must be a number of seconds from 0");
  const auto number = [&](const char* key, int64_t missing) {
    const JsonValue* value = line.Find(key);
    const int64_t number = value == nullptr ? missing : value->AsInteger().value_or(-1);
    return number > kMostTokens ? -1 : number;
  };
  request.prompt_tokens = number("prompt_tokens", -1);
  request.output_tokens = number("output_tokens", -1);
  if (request.prompt_tokens < 1 || request.output_tokens < 1) {
    return InvalidArgument("\"prompt_tokens\" and \"output_tokens\" must be whole numbers from 1");
  }
  request.prefix_tokens = number("prefix_tokens", 0);
  if (request.prefix_tokens < 0 || request.prefix_tokens > request.prompt_tokens) {
    return InvalidArgument("\"prefix_tokens\" must be a whole number up to prompt_tokens");
  }
  if (const JsonValue* prefix = line.Find("prefix"); prefix != nullptr && !prefix->is_null()) {
    // A hash by hand, for the same reason as above.
    request.prefix = 14695981039346656037u;
    for (const char c : WriteJson(*prefix)) {
      request.prefix = (request.prefix ^ static_cast<uint8_t>(c)) * 1099511628211u;
    }
  }
  return request;
}

}  // namespace

Result<Lengths> Lengths::Parse(const std::string& text) {
  Lengths lengths;
  if (text.starts_with('@')) {
    ROSE_ASSIGN_OR_RETURN(lengths.list_, ReadLengths(text.substr(1)));
    return lengths;
  }
  if (const size_t tilde = text.find('~'); tilde != std::string::npos) {
    const std::string_view all = text;
    if (!ReadDouble(all.substr(0, tilde), lengths.median_) ||
        !ReadDouble(all.substr(tilde + 1), lengths.sigma_) || !(lengths.median_ >= 1) ||
        lengths.median_ > kMostTokens || !(lengths.sigma_ >= 0) || lengths.sigma_ > 10) {
      return InvalidArgument("'", text, "' is no MEDIAN~SIGMA such as 300~0.8");
    }
    return lengths;
  }
  const Result<Range> range = ParseRange(text);
  if (!range.ok() || range->most > kMostTokens) {
    return InvalidArgument("'", text, "' is no length such as 128, 100:500, 300~0.8 or @FILE");
  }
  lengths.least_ = range->least;
  lengths.most_ = range->most;
  return lengths;
}

int64_t Lengths::Draw(std::mt19937_64& random) const {
  if (!list_.empty()) return list_[random() % list_.size()];
  if (median_ > 0) {
    const double length = median_ * std::exp(sigma_ * Normal(random));
    return std::clamp<int64_t>(std::llround(std::min(length, 1e9)), 1, kMostTokens);
  }
  return least_ + static_cast<int64_t>(random() % static_cast<uint64_t>(most_ - least_ + 1));
}

std::vector<TraceRequest> MakeTrace(const TraceOptions& options) {
  std::mt19937_64 random(options.seed);
  const int64_t bursts = (options.requests + options.burst - 1) / options.burst;
  std::vector<double> times(bursts, 0);
  if (options.rate > 0) {
    times = PoissonArrivals(bursts, options.rate / static_cast<double>(options.burst), random());
  }
  std::vector<TraceRequest> trace;
  for (int64_t i = 0; i < options.requests; ++i) {
    TraceRequest request;
    request.at_s = times[i / options.burst];
    request.prompt_tokens = options.input.Draw(random);
    request.output_tokens = options.output.Draw(random);
    // Drawn in any case, so that a share changes nothing else.
    const bool has_prefix = Uniform(random) < options.prefix_share;
    const uint64_t prefix = random() % static_cast<uint64_t>(options.prefixes);
    if (has_prefix && options.prefix_tokens > 0) {
      request.prefix = prefix + 1;
      request.prefix_tokens = options.prefix_tokens;
      request.prompt_tokens += options.prefix_tokens;
    }
    trace.push_back(request);
  }
  return trace;
}

Result<std::vector<TraceRequest>> ReadTrace(std::string_view jsonl) {
  std::vector<TraceRequest> trace;
  for (int64_t number = 1; !jsonl.empty(); ++number) {
    const std::string_view text = jsonl.substr(0, jsonl.find('\n'));
    jsonl.remove_prefix(std::min(jsonl.size(), text.size() + 1));
    if (text.find_first_not_of(" \t\r") == text.npos) continue;
    const Result<TraceRequest> request = ReadRequest(text);
    if (!request.ok()) return InvalidArgument("line ", number, ": ", request.status().message());
    trace.push_back(*request);
  }
  if (trace.empty()) return InvalidArgument("the trace has no request");
  std::stable_sort(trace.begin(), trace.end(),
                   [](const auto& a, const auto& b) { return a.at_s < b.at_s; });
  return trace;
}

std::string TraceLine(const TraceRequest& request) {
  char at[32];
  std::snprintf(at, sizeof at, "%.6f", request.at_s);
  std::string line = StrCat("{\"at_s\": ", at, ", \"prompt_tokens\": ", request.prompt_tokens,
                            ", \"output_tokens\": ", request.output_tokens);
  if (request.prefix_tokens > 0) {
    line += StrCat(", \"prefix\": \"", request.prefix,
                   "\", \"prefix_tokens\": ", request.prefix_tokens);
  }
  return line + "}";
}

std::vector<int32_t> PromptOf(const TraceRequest& request, int64_t index, int64_t vocab) {
  std::vector<int32_t> prompt(request.prompt_tokens);
  for (int64_t i = 0; i < request.prompt_tokens; ++i) {
    const uint64_t text =
        i < request.prefix_tokens ? request.prefix * 2 : static_cast<uint64_t>(index) * 2 + 1;
    prompt[i] = MadeUpToken(text, i, vocab);
  }
  return prompt;
}

}  // namespace rose

#include "server/access_log.h"

#include <array>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <ctime>

#include "base/json.h"
#include "tokenizer/tokenizer.h"

namespace rose {
namespace {

std::string Timestamp(int64_t unix_ms) {
  const std::time_t seconds = unix_ms / 1000;
  std::tm utc{};
  gmtime_r(&seconds, &utc);
  std::array<char, 48> text{};
  const size_t size = std::strftime(text.data(), text.size(), "%Y-%m-%dT%H:%M:%S", &utc);
  std::array<char, 8> milliseconds{};
  std::snprintf(milliseconds.data(), milliseconds.size(), ".%03dZ",
                static_cast<int>(unix_ms % 1000));
  return std::string(text.data(), size) + milliseconds.data();
}

std::string Milliseconds(double ms) {
  std::array<char, 40> text{};
  std::snprintf(text.data(), text.size(), "%.3f", ms);
  return text.data();
}

// JSON whatever the bytes are.
std::string Quote(std::string_view bytes) {
  Utf8Stream valid;
  std::string text = valid.Push(bytes);
  text += valid.Finish();
  std::string quoted;
  AppendJsonString(quoted, text);
  return quoted;
}

}  // namespace

std::string FormatAccessLine(const AccessRecord& record, int64_t unix_ms) {
  // A path is whatever a client sent.
  constexpr size_t kMaxPath = 200;
  std::string line = StrCat(
      R"({"time":")", Timestamp(unix_ms), R"(","request_id":)", Quote(record.request_id),
      R"(,"remote":)", Quote(record.remote), R"(,"method":)", Quote(record.method), R"(,"path":)",
      Quote(std::string_view(record.path).substr(0, kMaxPath)), R"(,"status":)", record.status,
      R"(,"bytes_in":)", record.request_bytes, R"(,"bytes_out":)", record.response_bytes);
  if (record.first_byte_ms >= 0)
    line += R"(,"first_byte_ms":)" + Milliseconds(record.first_byte_ms);
  line += R"(,"total_ms":)" + Milliseconds(record.total_ms);
  if (record.background) line += R"(,"background":true)";
  if (record.client_left) line += R"(,"client_left":true)";
  if (!record.cut_off.empty()) line += R"(,"cut_off":)" + Quote(record.cut_off);
  const RequestStats& stats = record.stats;
  if (!stats.model.empty()) line += R"(,"model":)" + Quote(stats.model);
  if (stats.prompt_tokens >= 0) line += StrCat(R"(,"prompt_tokens":)", stats.prompt_tokens);
  if (stats.cached_tokens >= 0) line += StrCat(R"(,"cached_tokens":)", stats.cached_tokens);
  if (stats.completion_tokens >= 0) {
    line += StrCat(R"(,"completion_tokens":)", stats.completion_tokens);
  }
  if (stats.queued_ms >= 0) line += R"(,"queued_ms":)" + Milliseconds(stats.queued_ms);
  if (stats.first_token_ms >= 0) {
    line += R"(,"first_token_ms":)" + Milliseconds(stats.first_token_ms);
  }
  if (stats.dropped_bytes > 0) line += StrCat(R"(,"dropped_bytes":)", stats.dropped_bytes);
  if (!stats.finish.empty()) line += R"(,"finish":)" + Quote(stats.finish);
  return line + "}";
}

Result<AccessLog> AccessLog::Open(const std::string& path) {
  AccessLog log;
  if (path == "-") {
    log.file_.reset(stderr);
  } else if (path != "off") {
    log.file_.reset(std::fopen(path.c_str(), "ae"));
    if (!log.file_) {
      return IoError("cannot write the access log '", path, "': ", std::strerror(errno));
    }
  }
  return log;
}

void AccessLog::Write(const AccessRecord& record) {
  if (!file_) return;
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  const std::string line =
      FormatAccessLine(record, std::chrono::duration_cast<std::chrono::milliseconds>(now).count());
  std::fprintf(file_.get(), "%s\n", line.c_str());
  std::fflush(file_.get());
}

}  // namespace rose

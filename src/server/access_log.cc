#include "server/access_log.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <climits>
#include <cstdio>
#include <cstring>
#include <ctime>

#include "base/file.h"
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
  if (path == "off") return AccessLog(path, -1);
  if (path == "-") return AccessLog(path, STDERR_FILENO);
  const int fd = ::open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
  if (fd < 0) return IoError("cannot write the access log '", path, "': ", std::strerror(errno));
  return AccessLog(path, fd);
}

AccessLog::AccessLog(AccessLog&& other) noexcept
    : path_(std::move(other.path_)),
      fd_(std::exchange(other.fd_, -1)),
      lost_(other.lost_),
      is_torn_(other.is_torn_) {}

AccessLog::~AccessLog() {
  if (fd_ >= 0 && fd_ != STDERR_FILENO) ::close(fd_);
}

bool AccessLog::Write(const AccessRecord& record) {
  if (fd_ < 0) return true;
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  const int64_t unix_ms = std::chrono::duration_cast<std::chrono::milliseconds>(now).count();
  const std::string line = (is_torn_ ? "\n" : "") + FormatAccessLine(record, unix_ms) + "\n";
  if (!WriteAll(line)) {
    if (++lost_ == 1) {
      Say(StrCat("cannot be written: ", errno == EAGAIN ? "nobody reads it" : std::strerror(errno),
                 "; its lines are lost, as /metrics ",
                 "counts them, and requests are answered all the same"));
    }
    return false;
  }
  if (lost_ > 0) Say(StrCat("is written again; ", lost_, " lines were lost"));
  lost_ = 0;
  return true;
}

// Sets errno where it fails; EAGAIN if nobody reads. A reader that is a little late has some time,
// once: all connections wait meanwhile.
bool AccessLog::WriteAll(std::string_view bytes) {
  constexpr int kPatienceMs = 50;
  while (!bytes.empty()) {
    if (!TakesBytes(fd_, lost_ == 0 ? kPatienceMs : 0)) {
      errno = EAGAIN;
      return false;
    }
    const ssize_t done = ::write(fd_, bytes.data(), std::min<size_t>(bytes.size(), PIPE_BUF));
    if (done < 0 && errno == EINTR) continue;
    if (done < 0) return false;
    is_torn_ = done < std::ssize(bytes);
    bytes.remove_prefix(done);
  }
  return true;
}

// Where stderr is the log, there is nowhere to say it.
void AccessLog::Say(const std::string& what) const {
  if (fd_ != STDERR_FILENO && TakesBytes(STDERR_FILENO, /*milliseconds=*/0))
    std::fprintf(stderr, "rose: the access log '%s' %s\n", path_.c_str(), what.c_str());
}

}  // namespace rose

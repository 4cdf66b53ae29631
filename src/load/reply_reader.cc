#include "load/reply_reader.h"

#include <algorithm>
#include <cctype>
#include <charconv>

namespace rose {
namespace {

constexpr size_t kMaxLine = 64 << 10;
constexpr size_t kMaxBody = 1 << 20;  // kept: errors and small answers

std::string Lower(std::string_view text) {
  std::string out(text);
  std::transform(out.begin(), out.end(), out.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return out;
}

bool ParseNumber(std::string_view text, int base, int64_t& out) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), out, base);
  return error == std::errc() && end != text.data() && out >= 0;
}

}  // namespace

bool ReplyReader::Push(std::string_view bytes, const OnEvent& on_event) {
  while (!bytes.empty() && state_ != State::kDone) {
    if (state_ == State::kBody || state_ == State::kChunk) {
      const size_t size =
          left_ < 0 ? bytes.size() : std::min(bytes.size(), static_cast<size_t>(left_));
      Body(bytes.substr(0, size), on_event);
      bytes.remove_prefix(size);
      if (left_ >= 0) left_ -= static_cast<int64_t>(size);
      if (left_ == 0) state_ = state_ == State::kBody ? State::kDone : State::kChunkEnd;
      continue;
    }
    const size_t end = bytes.find('\n');
    held_ += bytes.substr(0, end);
    if (held_.size() > kMaxLine) return false;
    if (end == bytes.npos) return true;
    bytes.remove_prefix(end + 1);
    if (held_.ends_with('\r')) held_.pop_back();
    const std::string line = std::move(held_);
    held_.clear();
    if (!Line(line)) return false;
  }
  return true;
}

bool ReplyReader::Close() {
  if (state_ == State::kBody && left_ < 0) state_ = State::kDone;
  return done();
}

bool ReplyReader::Line(std::string_view line) {
  switch (state_) {
    case State::kStatus: {
      int64_t status = 0;
      if (!line.starts_with("HTTP/1.") || line.size() < 12 ||
          !ParseNumber(line.substr(9, 3), 10, status))
        return false;
      keeps_alive_ = line[7] != '0';
      status_ = static_cast<int>(status);
      state_ = State::kHeaders;
      return true;
    }
    case State::kHeaders:
      if (line.empty()) {
        EndOfHeaders();
        return true;
      }
      return Header(line);
    case State::kChunkSize:
      if (!ParseNumber(line, 16, left_)) return false;
      state_ = left_ == 0 ? State::kTrailers : State::kChunk;
      return true;
    case State::kChunkEnd:
      state_ = State::kChunkSize;
      return line.empty();
    case State::kTrailers:
      if (line.empty()) state_ = State::kDone;
      return true;
    case State::kBody:
    case State::kChunk:
    case State::kDone:
      break;
  }
  return false;
}

bool ReplyReader::Header(std::string_view line) {
  const size_t colon = line.find(':');
  if (colon == line.npos) return false;
  const std::string name = Lower(line.substr(0, colon));
  std::string_view text = line.substr(colon + 1);
  while (!text.empty() && text.front() == ' ') text.remove_prefix(1);
  const std::string value = Lower(text);
  if (name == "content-length") return ParseNumber(value, 10, left_);
  if (name == "transfer-encoding") is_chunked_ = value.find("chunked") != value.npos;
  if (name == "connection") keeps_alive_ = value.find("close") == value.npos;
  if (name == "retry-after") has_retry_after_ = true;
  if (name == "content-type") is_events_ = value.starts_with("text/event-stream");
  return true;
}

void ReplyReader::EndOfHeaders() {
  if (status_ >= 100 && status_ < 200) {  // "100 Continue": the reply is still to come
    state_ = State::kStatus;
  } else if (is_chunked_) {
    state_ = State::kChunkSize;
  } else if (left_ == 0 || status_ == 204) {
    state_ = State::kDone;
  } else {
    state_ = State::kBody;
    if (left_ < 0) keeps_alive_ = false;
  }
}

void ReplyReader::Body(std::string_view bytes, const OnEvent& on_event) {
  if (!is_events_) {
    body_ += bytes.substr(0, std::min(bytes.size(), kMaxBody - std::min(kMaxBody, body_.size())));
    return;
  }
  while (!bytes.empty()) {
    const size_t end = bytes.find('\n');
    event_line_ += bytes.substr(0, end);
    if (end == bytes.npos) return;
    bytes.remove_prefix(end + 1);
    if (event_line_.ends_with('\r')) event_line_.pop_back();
    if (event_line_.empty() && !event_data_.empty()) {
      on_event(event_data_);
      event_data_.clear();
    } else if (event_line_.starts_with("data:")) {
      const size_t start = event_line_.starts_with("data: ") ? 6 : 5;
      if (!event_data_.empty()) event_data_ += '\n';
      event_data_.append(event_line_, start);
    }
    event_line_.clear();
  }
}

}  // namespace rose

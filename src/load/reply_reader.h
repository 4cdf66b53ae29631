// Reads an HTTP/1.x reply from bytes cut anywhere, and the server-sent events in it.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

namespace rose {

class ReplyReader {
 public:
  // Gets the data of every event, if the reply is a stream of events.
  using OnEvent = std::function<void(std::string_view data)>;

  // More bytes of the connection. False if they are no HTTP; what follows the reply's end is
  // ignored, since this client asks one thing at a time.
  bool Push(std::string_view bytes, const OnEvent& on_event);
  // The connection has ended: true if that ends the reply as well.
  bool Close();

  bool done() const { return state_ == State::kDone; }
  int status() const { return status_; }
  bool keeps_alive() const { return keeps_alive_; }
  bool has_retry_after() const { return has_retry_after_; }
  // The body of a reply that is no stream of events.
  const std::string& body() const { return body_; }

 private:
  enum class State { kStatus, kHeaders, kBody, kChunkSize, kChunk, kChunkEnd, kTrailers, kDone };

  bool Line(std::string_view line);
  bool Header(std::string_view line);
  void EndOfHeaders();
  void Body(std::string_view bytes, const OnEvent& on_event);

  State state_ = State::kStatus;
  std::string held_;  // of an unfinished line
  int status_ = 0;
  bool keeps_alive_ = true;
  bool has_retry_after_ = false;
  bool is_chunked_ = false;
  bool is_events_ = false;
  int64_t left_ = -1;  // of the body or chunk; -1 = until the connection ends
  std::string body_;
  std::string event_line_;  // of an unfinished line of an event
  std::string event_data_;
};

}  // namespace rose

// The two files of a batch, in the form of OpenAI's: requests, one JSON object a line, and answers,
// likewise, in any order.
//
//   IN   {"custom_id", "method": "POST", "url": "/v1/chat/completions", "body": {...}}
//   OUT  {"id", "custom_id", "response": {"status_code", "request_id", "body"} | null,
//         "error": {"code", "message"} | null}
#pragma once

#include <cstdint>
#include <fstream>
#include <optional>
#include <string>
#include <unordered_set>

#include "base/status.h"

namespace rose {

// One request. What is wrong with its method, its url or within its body is a matter of its answer.
struct BatchRequest {
  std::string custom_id;
  std::string method, url;
  std::string body;  // a JSON object
};

class BatchInput {
 public:
  // Reads the file once. kInvalidArgument, with the line, if one is no JSON object, has no
  // custom_id or body, or repeats a custom_id. Empty lines are nothing.
  static Result<BatchInput> Open(const std::string& path);

  const std::string& path() const { return path_; }
  int64_t size() const { return static_cast<int64_t>(ids_.size()); }  // requests
  bool Asks(const std::string& custom_id) const { return ids_.contains(custom_id); }
  // The next request; none at the end.
  Result<std::optional<BatchRequest>> Next();

 private:
  std::string path_;
  std::ifstream file_;
  int64_t line_ = 0;
  std::unordered_set<std::string> ids_;
};

// The answers of this run and of those before it. Nobody else can write to the file meanwhile.
class BatchOutput {
 public:
  // Makes the file, or takes it up: whole lines stay and their requests count as answered, a torn
  // last line is cut off. kInvalidArgument if it holds anything else than answers to `input`,
  // kUnavailable while another run writes to it.
  static Result<BatchOutput> Open(const std::string& path, const BatchInput& input);
  BatchOutput(BatchOutput&& other) noexcept;
  BatchOutput& operator=(BatchOutput&&) = delete;
  ~BatchOutput();

  // Requests answered before this run.
  int64_t found() const { return static_cast<int64_t>(answered_.size()); }
  bool Answered(const std::string& custom_id) const { return answered_.contains(custom_id); }
  // Appends an answer, without its line end. A failed write leaves no torn line behind, if it can.
  Status Write(const std::string& line);

 private:
  BatchOutput(std::string path, int file) : path_(std::move(path)), file_(file) {}
  Status TakeUp(const BatchInput& input);

  std::string path_;
  int file_ = -1;
  int64_t size_ = 0;  // bytes of whole lines
  std::unordered_set<std::string> answered_;
};

}  // namespace rose

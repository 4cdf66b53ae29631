// Status and Result: how expected failures travel. A caller's fault (bad file, bad request) is a
// returned Status with a sentence that helps; our own bugs are ROSE_CHECK (check.h).
#pragma once

#include <string>
#include <utility>
#include <variant>

#include "base/check.h"

namespace rose {

enum class StatusCode {
  kOk,
  kInvalidArgument,  // the caller's input is wrong: HTTP 400, exit code 2
  kNotFound,         // a name that does not exist: HTTP 404, exit code 2
  kUnavailable,      // no room or not possible now: HTTP 429/503, exit code 1
  kUnsupported,      // well-formed, but not offered: HTTP 400, exit code 2
  kIo,               // the file system said no: exit code 1
  kInternal,         // the engine failed: HTTP 500, exit code 1
};

class [[nodiscard]] Status {
 public:
  Status() = default;
  Status(StatusCode code, std::string message) : code_(code), message_(std::move(message)) {}

  bool ok() const { return code_ == StatusCode::kOk; }
  StatusCode code() const { return code_; }
  const std::string& message() const { return message_; }

 private:
  StatusCode code_ = StatusCode::kOk;
  std::string message_;
};

template <typename... Args>
Status InvalidArgument(const Args&... args) {
  return Status(StatusCode::kInvalidArgument, StrCat(args...));
}
template <typename... Args>
Status NotFound(const Args&... args) {
  return Status(StatusCode::kNotFound, StrCat(args...));
}
template <typename... Args>
Status Unavailable(const Args&... args) {
  return Status(StatusCode::kUnavailable, StrCat(args...));
}
template <typename... Args>
Status Unsupported(const Args&... args) {
  return Status(StatusCode::kUnsupported, StrCat(args...));
}
template <typename... Args>
Status IoError(const Args&... args) {
  return Status(StatusCode::kIo, StrCat(args...));
}

// A value or the Status that says why there is none. value() on a failure is our bug and throws.
template <typename T>
class [[nodiscard]] Result {
 public:
  Result(T value) : state_(std::move(value)) {}  // NOLINT: implicit on purpose
  Result(Status status) : state_(std::move(status)) {
    ROSE_CHECK(!std::get<Status>(state_).ok(), "a Result without a value needs a failed Status");
  }

  bool ok() const { return std::holds_alternative<T>(state_); }
  Status status() const { return ok() ? Status() : std::get<Status>(state_); }
  T& value() & {
    ROSE_CHECK(ok(), std::get<Status>(state_).message());
    return std::get<T>(state_);
  }
  const T& value() const& {
    ROSE_CHECK(ok(), std::get<Status>(state_).message());
    return std::get<T>(state_);
  }
  T&& value() && {
    ROSE_CHECK(ok(), std::get<Status>(state_).message());
    return std::get<T>(std::move(state_));
  }
  T& operator*() & { return value(); }
  const T& operator*() const& { return value(); }
  T* operator->() { return &value(); }
  const T* operator->() const { return &value(); }

 private:
  std::variant<T, Status> state_;
};

#define ROSE_RETURN_IF_ERROR(expr)                                      \
  do {                                                                  \
    if (::rose::Status status_ = (expr); !status_.ok()) return status_; \
  } while (false)

// ROSE_ASSIGN_OR_RETURN(auto x, F()): declares x from a Result, or returns its Status.
#define ROSE_ASSIGN_OR_RETURN(decl, expr) \
  ROSE_ASSIGN_OR_RETURN_IMPL(ROSE_CONCAT(result_, __LINE__), decl, expr)
#define ROSE_ASSIGN_OR_RETURN_IMPL(result, decl, expr) \
  auto result = (expr);                                \
  if (!result.ok()) return result.status();            \
  decl = std::move(result).value()
#define ROSE_CONCAT_IMPL(a, b) a##b
#define ROSE_CONCAT(a, b) ROSE_CONCAT_IMPL(a, b)

}  // namespace rose

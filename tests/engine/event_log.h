// EventLog: collects a request's events and checks that they are lawful.
#pragma once

#include <gtest/gtest.h>

#include <condition_variable>
#include <functional>
#include <mutex>
#include <vector>

#include "request/request.h"

namespace rose {

class EventLog {
 public:
  std::function<void(const TokenEvent&)> Listener() {
    return [this](const TokenEvent& event) {
      std::lock_guard lock(mutex_);
      EXPECT_EQ(last_.finish, FinishReason::kNone) << "an event after the last one";
      for (const SampledToken& token : event.tokens) ids_.push_back(token.id);
      last_ = event;
      ++events_;
      changed_.notify_all();
    };
  }

  // Blocks until the last event is there.
  TokenEvent WaitForEnd() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return last_.finish != FinishReason::kNone; });
    return last_;
  }
  void WaitForTokens(size_t tokens) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return ids_.size() >= tokens; });
  }

  bool ended() const {
    std::lock_guard lock(mutex_);
    return last_.finish != FinishReason::kNone;
  }
  TokenEvent last() const {
    std::lock_guard lock(mutex_);
    return last_;
  }
  std::vector<int32_t> ids() const {
    std::lock_guard lock(mutex_);
    return ids_;
  }
  int64_t events() const {
    std::lock_guard lock(mutex_);
    return events_;
  }

 private:
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<int32_t> ids_;
  TokenEvent last_;
  int64_t events_ = 0;
};

}  // namespace rose

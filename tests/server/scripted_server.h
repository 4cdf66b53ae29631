// The whole way of a request over loopback, with a model that writes what a test says: HTTP, JSON,
// the chat format, the engine. Every byte is a token.
#pragma once

#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "server/stub_backend.h"

namespace rose {

class ScriptedServer {
 public:
  ScriptedServer() : backend_(MakeExecutor()) {}

  // What the model writes from now on, markers by their names; <|return|> follows.
  void Script(std::string_view answer) { Script(backend_.tokenizer.EncodeWithSpecials(answer)); }
  void Script(std::vector<int32_t> answer) {
    const std::lock_guard lock(mutex_);
    answer_ = std::move(answer);
  }
  HttpReply Post(std::string_view path, std::string_view body) {
    return backend_.Ask("POST", path, body);
  }
  // The prompt of the last request that reached the model.
  std::vector<int32_t> prompt() {
    const std::lock_guard lock(mutex_);
    return prompt_;
  }

 private:
  std::unique_ptr<Executor> MakeExecutor() {
    StubOptions options;
    options.answer = [this](std::span<const int32_t> prompt) {
      const std::lock_guard lock(mutex_);
      prompt_.assign(prompt.begin(), prompt.end());
      return answer_;
    };
    options.end_id = 200002;
    return CreateStubExecutor(std::move(options));
  }

  std::mutex mutex_;  // guards answer_, prompt_
  std::vector<int32_t> answer_, prompt_;
  StubBackend backend_;  // last: its engine asks for the answer
};

}  // namespace rose

// What the events of a streamed answer say to a measurement, for chat and completions.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace rose {

class AnswerEvents {
 public:
  // The data of one event. True if it says something: text, reasoning, or a part of a call.
  bool Push(std::string_view data);

  bool is_complete() const { return is_complete_; }  // [DONE] came
  const std::string& error() const { return error_; }
  // Of the usage, 0 if there was none.
  int64_t prompt_tokens() const { return prompt_tokens_; }
  int64_t completion_tokens() const { return completion_tokens_; }

 private:
  bool is_complete_ = false;
  std::string error_;
  int64_t prompt_tokens_ = 0;
  int64_t completion_tokens_ = 0;
};

}  // namespace rose

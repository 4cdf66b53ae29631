// Finds stop strings in text that comes in pieces, and holds back what may still become one.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace rose {

class StopMatcher {
 public:
  // None of `stops` is empty. With `include`, the stop string itself is passed on too.
  StopMatcher(std::vector<std::string> stops, bool include)
      : stops_(std::move(stops)), include_(include) {}

  // The text that became certain. After a match, everything is swallowed. The stop string that ends
  // first wins, so that the pieces do not matter.
  std::string Push(std::string_view text);
  // What is still held back; the next piece starts anew.
  std::string Flush();

  const std::optional<std::string>& matched() const { return matched_; }
  int64_t released_bytes() const { return released_bytes_; }

 private:
  std::string Release(size_t bytes);

  const std::vector<std::string> stops_;
  const bool include_;
  std::string held_;
  std::optional<std::string> matched_;
  int64_t released_bytes_ = 0;
};

}  // namespace rose

#include "api/stop_matcher.h"

#include <algorithm>

namespace rose {

std::string StopMatcher::Push(std::string_view text) {
  if (matched_) return "";
  held_ += text;

  size_t end = std::string::npos, begin = 0;
  for (const std::string& stop : stops_) {
    const size_t at = held_.find(stop);
    if (at == held_.npos) continue;
    const size_t stop_end = at + stop.size();
    if (end != std::string::npos && (stop_end > end || (stop_end == end && at >= begin))) continue;
    end = stop_end;
    begin = at;
    matched_ = stop;
  }
  if (matched_) {
    std::string out = Release(include_ ? end : begin);
    held_.clear();
    return out;
  }

  // The longest end of the text that begins a stop string.
  size_t keep = 0;
  for (const std::string& stop : stops_) {
    for (size_t k = std::min(stop.size() - 1, held_.size()); k > keep; --k)
      if (std::string_view(held_).ends_with(std::string_view(stop).substr(0, k))) keep = k;
  }
  return Release(held_.size() - keep);
}

std::string StopMatcher::Flush() {
  return Release(held_.size());
}

std::string StopMatcher::Release(size_t bytes) {
  std::string out = held_.substr(0, bytes);
  held_.erase(0, bytes);
  released_bytes_ += static_cast<int64_t>(out.size());
  return out;
}

}  // namespace rose

#include "base/progress.h"

#include <unistd.h>

#include <algorithm>

namespace rose {

std::string BytesText(int64_t bytes) {
  if (bytes < 1000) return std::to_string(bytes) + " B";
  const char* units[] = {"kB", "MB", "GB", "TB", "PB", "EB"};
  double value = static_cast<double>(bytes) / 1000;
  size_t unit = 0;
  for (; value >= 999.5 && unit + 1 < std::size(units); ++unit) value /= 1000;
  char text[32];
  std::snprintf(text, sizeof(text), "%.*f %s",
                value < 9.995   ? 2
                : value < 99.95 ? 1
                                : 0,
                value, units[unit]);
  return text;
}

std::string ProgressLine(const std::string& label, const ProgressState& state) {
  constexpr int kWidth = 24;
  const double share =
      state.total > 0 ? static_cast<double>(state.done) / static_cast<double>(state.total) : 1.0;
  const auto amount = [&state](int64_t n) {
    return state.unit.empty() ? BytesText(n) : std::to_string(n);
  };
  const int filled = std::clamp(static_cast<int>(share * kWidth), 0, kWidth);
  char percent[16];
  std::snprintf(percent, sizeof(percent), "%3d%%", static_cast<int>(share * 100));
  std::string line = label + " [" + std::string(filled, '#') + std::string(kWidth - filled, '-') +
                     "] " + percent + "  " + amount(state.done) + " of " + amount(state.total);
  if (!state.unit.empty()) line += " " + state.unit;
  if (state.seconds < 0.2 || state.done <= state.began_at) return line;
  const double rate = static_cast<double>(state.done - state.began_at) / state.seconds;
  char per_second[32];
  std::snprintf(per_second, sizeof(per_second), "%.*f", rate < 9.95 ? 1 : 0, rate);
  line += "  " + (state.unit.empty() ? BytesText(static_cast<int64_t>(rate)) : per_second) + "/s";
  if (state.done < state.total) {
    const double left = static_cast<double>(state.total - state.done) / rate;
    line += "  " + std::to_string(static_cast<int64_t>(left + 0.5)) + " s left";
  }
  return line;
}

ProgressBar::ProgressBar(std::string label, std::FILE* out, std::string unit)
    : label_(std::move(label)), out_(::isatty(::fileno(out)) ? out : nullptr) {
  state_.unit = std::move(unit);
}

ProgressBar::~ProgressBar() {
  if (out_ != nullptr && width_ > 0) std::fputs("\n", out_);
}

void ProgressBar::Update(int64_t done, int64_t total) {
  if (out_ == nullptr) return;
  const std::lock_guard lock(mutex_);
  const Clock::time_point now = Clock::now();
  if (!has_begun_) {
    has_begun_ = true;
    began_ = now;
    state_.began_at = done;
  } else if (now - drawn_ < std::chrono::milliseconds(100) && done < total) {
    return;
  }
  drawn_ = now;
  state_.done = std::max(state_.done, done);  // threads may report out of order
  state_.total = total;
  state_.seconds = std::chrono::duration<double>(now - began_).count();
  const std::string line = ProgressLine(label_, state_);
  const size_t blanks = width_ > line.size() ? width_ - line.size() : 0;
  std::fprintf(out_, "\r%s%s", line.c_str(), std::string(blanks, ' ').c_str());
  std::fflush(out_);
  width_ = line.size();
}

}  // namespace rose

// A progress bar with rate and time left on a terminal; silent elsewhere.
#pragma once

#include <chrono>
#include <cstdint>
#include <cstdio>
#include <mutex>
#include <string>

namespace rose {

// "512 B", "13.8 GB": decimal units, three digits.
std::string BytesText(int64_t bytes);

// One line of a bar: "loading [#####-----]  50%  6.9 GB of 13.8 GB  512 MB/s  13 s left". `seconds`
// have passed since the bar began, in which `done` grew from `began_at`.
struct ProgressState {
  int64_t began_at = 0;  // done when the bar began (work taken up again)
  int64_t done = 0;
  int64_t total = 0;
  double seconds = 0;
  std::string unit = {};  // what is counted, such as "requests"; empty = bytes
};
std::string ProgressLine(const std::string& label, const ProgressState& state);

class ProgressBar {
 public:
  // Writes to `out` if that is a terminal, else never. `unit` as in ProgressState.
  ProgressBar(std::string label, std::FILE* out, std::string unit = {});
  ~ProgressBar();  // leaves the last line standing, finished with a newline
  ProgressBar(const ProgressBar&) = delete;
  ProgressBar& operator=(const ProgressBar&) = delete;

  // From any thread. Draws at most ten times a second, and always at the end.
  void Update(int64_t done, int64_t total);

 private:
  using Clock = std::chrono::steady_clock;

  const std::string label_;
  std::FILE* const out_;  // null = silent
  std::mutex mutex_;      // guards all below
  Clock::time_point began_, drawn_;
  ProgressState state_;
  bool has_begun_ = false;
  size_t width_ = 0;  // of the line on the screen
};

}  // namespace rose

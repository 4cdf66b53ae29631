// QueueEstimate: how long one that joins the queue now will wait for its first step, from how fast
// the queue has moved of late. Not thread-safe.
#pragma once

#include <chrono>
#include <cstdint>

namespace rose {

class QueueEstimate {
 public:
  using TimePoint = std::chrono::steady_clock::time_point;

  // Told at every turn: how many wait, and how many have left the queue since start.
  void Observe(TimePoint now, int64_t waiting, int64_t left);
  // For one behind `waiting` others; 0 where nothing is known.
  std::chrono::duration<double> Wait(int64_t waiting) const;

 private:
  TimePoint last_;
  bool queued_ = false;  // somebody waited at the last turn: an idle engine tells nothing
  int64_t left_ = 0;
  double seconds_ = 0, moved_ = 0;  // of late: time with a queue, and how many left it
};

}  // namespace rose

#include "engine/queue_estimate.h"

#include <cmath>

namespace rose {
namespace {

constexpr double kMemorySeconds = 10;  // what is older counts for little

}  // namespace

void QueueEstimate::Observe(TimePoint now, int64_t waiting, int64_t left) {
  if (queued_) {
    const double passed = std::chrono::duration<double>(now - last_).count();
    const double keep = std::exp(-passed / kMemorySeconds);
    seconds_ = seconds_ * keep + passed;
    moved_ = moved_ * keep + static_cast<double>(left - left_);
  }
  last_ = now;
  left_ = left;
  queued_ = waiting > 0;
}

std::chrono::duration<double> QueueEstimate::Wait(int64_t waiting) const {
  // Below one there is no rate yet.
  if (moved_ < 1) return std::chrono::duration<double>(0);
  return std::chrono::duration<double>(seconds_ / moved_ * static_cast<double>(waiting));
}

}  // namespace rose

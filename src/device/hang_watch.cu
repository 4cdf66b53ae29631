#include <algorithm>
#include <utility>

#include "base/check.h"
#include "device/hang_watch.h"

namespace rose {
namespace {

constexpr int64_t kLooks = 20;  // within the limit

}  // namespace

bool StallCount::Look(const DevicePulse& pulse) {
  const bool is_new = !pulse.is_called || pulse != last_;
  unchanged_ = is_new ? 0 : unchanged_ + 1;
  last_ = pulse;
  return unchanged_ >= most_;
}

HangWatch::HangWatch(OpTrail& trail, std::chrono::milliseconds limit, OnHang on_hang)
    : trail_(trail), limit_(limit), on_hang_(std::move(on_hang)), thread_([this] { Run(); }) {}

HangWatch::~HangWatch() {
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
  }
  stopped_.notify_all();
  thread_.join();
}

void HangWatch::Run() {
  const auto pause = std::max(limit_ / kLooks, std::chrono::milliseconds(1));
  StallCount stall(kLooks);
  std::unique_lock lock(mutex_);
  do {
    if (stopped_.wait_for(lock, pause, [this] { return stop_; })) return;
  } while (!stall.Look(trail_.Pulse()));
  lock.unlock();
  const double seconds = std::chrono::duration<double>(limit_).count();
  const std::string report =
      StrCat("the GPU hangs: no sign of progress for ", seconds,
             " s (ROSE_HANG_SECONDS sets how long it may take)", trail_.DescribeHang());
  trail_.GiveUp(report);
  on_hang_(report);
}

}  // namespace rose

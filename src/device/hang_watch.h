// HangWatch: a kernel that never ends makes every wait for the device endless. This sees it, on a
// thread that asks the device for nothing.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <mutex>
#include <string>
#include <thread>

#include "device/op_trail.h"

namespace rose {

// Counts looks at a pulse. Looks and not time: a process that was stopped for an hour, or a machine
// that slept, has not waited for its device.
class StallCount {
 public:
  // `most` looks in a row are to find nothing new.
  explicit StallCount(int64_t most) : most_(most) {}

  // True if the device hangs: at this look and the `most` before it, a thread was in one and the
  // same call, and no kernel had left another mark.
  bool Look(const DevicePulse& pulse);

 private:
  const int64_t most_;
  int64_t unchanged_ = 0;
  DevicePulse last_;
};

// Looks at a trail until it is destroyed or the device hangs.
class HangWatch {
 public:
  using OnHang = std::function<void(const std::string& report)>;

  // After `limit` without a sign of progress in one call, makes the trail's waits throw and calls
  // `on_hang` once. `trail` outlives the watch.
  HangWatch(OpTrail& trail, std::chrono::milliseconds limit, OnHang on_hang);
  ~HangWatch();
  HangWatch(const HangWatch&) = delete;
  HangWatch& operator=(const HangWatch&) = delete;

 private:
  void Run();

  OpTrail& trail_;
  const std::chrono::milliseconds limit_;
  const OnHang on_hang_;
  std::mutex mutex_;  // guards stop_
  std::condition_variable stopped_;
  bool stop_ = false;
  std::thread thread_;  // last: it uses all of the above
};

}  // namespace rose

#include <algorithm>
#include <chrono>
#include <cstring>
#include <list>

#include "ops/op_meter.h"

namespace rose {
namespace {

using Clock = std::chrono::steady_clock;

constexpr int64_t kLeastSamples = 5;

class HostMeter : public OpMeter {
 public:
  Tensor Place(const Tensor& host) override {
    std::vector<uint8_t>& bytes = placed_.emplace_back(std::max<int64_t>(1, host.bytes()));
    std::memcpy(bytes.data(), host.raw(), host.bytes());
    return Tensor(bytes.data(), host.dtype(), host.shape());
  }

  std::vector<MeteredTimes> Time(std::span<const MeteredCalls> calls, int64_t ms) override {
    std::vector<MeteredTimes> times(calls.size());
    for (const MeteredCalls& one : calls) Round(one);  // warm-up
    const auto end =
        Clock::now() + std::chrono::milliseconds(ms * static_cast<int64_t>(calls.size()));
    do {
      for (size_t c = 0; c < calls.size(); ++c) times[c].us.push_back(Round(calls[c]));
    } while (Clock::now() < end || std::ssize(times.front().us) < kLeastSamples);
    return times;
  }

  Result<MeteredCalls> LibraryCalls(const LibraryProduct& /*product*/,
                                    std::string& /*name*/) override {
    return Unsupported("there is no library to compare with on a CPU");
  }
  Result<MeteredCalls> ReadCalls(double /*bytes*/) override {
    return Unsupported("caches of CPUs differ too much for a read to say something");
  }

 private:
  // Microseconds of a call.
  static double Round(const MeteredCalls& calls) {
    const auto begin = Clock::now();
    for (int64_t i = calls.count - 1; i >= 0; --i) calls.run(i);
    const std::chrono::duration<double, std::micro> took = Clock::now() - begin;
    calls.settle();
    return took.count() / static_cast<double>(calls.count);
  }

  std::list<std::vector<uint8_t>> placed_;
};

}  // namespace

std::unique_ptr<OpMeter> CreateHostMeter() {
  return std::make_unique<HostMeter>();
}

}  // namespace rose

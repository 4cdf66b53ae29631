// OpMeter: how long calls of ops take where they compute. For `rose bench ops`.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/gpu_clocks.h"
#include "base/status.h"
#include "ops/ops.h"

namespace rose {

// What is timed: a round of calls, each on weights of its own, so that no cache holds them.
struct MeteredCalls {
  int64_t count = 1;                 // of a round
  std::function<void(int64_t)> run;  // call number count - 1, .. 0, in this order
  // Whether a device may record a round and replay it: it is the same work at the same addresses,
  // and nothing of the host takes part.
  bool is_recordable = true;
  std::function<void()> settle = [] {};  // after every round that was not recorded; not timed
};

struct MeteredTimes {
  std::vector<double> us;  // of one call: each the mean over a sample of at least one round
  bool is_recorded = false;
};

// What a library multiplies: x [tokens, cols] . weight^T [rows, cols] + bias, to `out`.
struct LibraryProduct {
  Tensor x, out;
  std::vector<Weight> weights, biases;  // one call each, by turns; biases empty if there are none
};

class OpMeter {
 public:
  virtual ~OpMeter() = default;

  // A copy of `host` where ops compute; lives as long as this object.
  virtual Tensor Place(const Tensor& host) = 0;

  // Times all of `calls`, about `ms` milliseconds each, sample by sample in turn, so that clocks
  // and temperature are the same for all. Warms up before. The last round that ran of each is
  // complete when this returns.
  virtual std::vector<MeteredTimes> Time(std::span<const MeteredCalls> calls, int64_t ms) = 0;

  // The clocks near the end of the last Time, while work was running.
  virtual std::optional<GpuClocks> clocks() const { return std::nullopt; }

  // The product by the vendor's library, and its name; a sentence why not.
  virtual Result<MeteredCalls> LibraryCalls(const LibraryProduct& product, std::string& name) = 0;
  // Plain loads of `bytes` that no cache holds, and nothing else: how fast memory is.
  virtual Result<MeteredCalls> ReadCalls(double bytes) = 0;
};

// Times by the clock of the host what is computed before it returns.
std::unique_ptr<OpMeter> CreateHostMeter();

}  // namespace rose

// Products of experts at the sizes of gpt-oss, many launches one behind the other: all of them end,
// with the same bits. Small shapes give a CTA too few blocks for its warps to get far apart, so
// that a wait that takes one turn for another passes every test of small shapes.
#include <algorithm>
#include <chrono>
#include <cmath>
#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <mutex>
#include <thread>
#include <tuple>

#include "device/stream.h"
#include "gpu/gpu_case.h"
#include "kernels/experts/experts.h"
#include "tensor/random_weight.h"

namespace rose {
namespace {

constexpr int64_t kHidden = 2880, kInter = 2880, kTopK = 4, kMostTokens = 64;

// Ends the process if its life lasts too long, since a kernel that does not end can neither be
// stopped nor waited for.
class TimeLimit {
 public:
  TimeLimit(std::chrono::seconds limit, std::string what)
      : thread_([this, limit, what = std::move(what)] {
          std::unique_lock lock(mutex_);
          if (over_.wait_for(lock, limit, [this] { return is_over_; })) return;
          std::printf("FAILED: %s: launches did not end within %d s\n", what.c_str(),
                      static_cast<int>(limit.count()));
          std::fflush(stdout);
          std::_Exit(1);
        }) {}
  ~TimeLimit() {
    {
      const std::lock_guard lock(mutex_);
      is_over_ = true;
    }
    over_.notify_all();
    thread_.join();
  }

 private:
  std::mutex mutex_;  // guards is_over_
  std::condition_variable over_;
  bool is_over_ = false;
  std::thread thread_;  // last: it uses all of the above
};

enum class Load { kBalanced, kSameExperts, kSkewed };

constexpr const char* NameOf(Load load) {
  return load == Load::kBalanced ? "balanced" : load == Load::kSameExperts ? "same" : "skewed";
}

// [kMostTokens, kTopK], distinct in a row.
std::vector<int32_t> ExpertsOf(Load load, int experts) {
  std::vector<int32_t> chosen;
  for (int64_t token = 0; token < kMostTokens; ++token) {
    const size_t first = chosen.size();
    for (uint64_t word = 0; std::ssize(chosen) < (token + 1) * kTopK; ++word) {
      const int64_t entry = std::ssize(chosen);
      int64_t expert = load == Load::kBalanced ? entry % experts : entry % kTopK;
      if (load == Load::kSkewed) {
        // Zipf's law: the logarithm is uniform, so that expert e has 1 / (e + 1) of expert 0.
        const double u = static_cast<double>(RandomWord(token, word) >> 11) * 0x1p-53;
        expert = static_cast<int64_t>(std::pow(experts, u)) - 1;
      }
      const auto row = chosen.begin() + static_cast<std::ptrdiff_t>(first);
      if (std::find(row, chosen.end(), expert) == chosen.end())
        chosen.push_back(static_cast<int32_t>(expert));
    }
  }
  return chosen;
}

struct Bits {
  std::vector<uint16_t> inner, out;  // [tokens, kTopK, kInter], [tokens, kHidden]
};

// A layer's experts, made up on the device, and steps of up to kMostTokens through them.
class Layer {
 public:
  Layer(const WeightFormat& format, int experts)
      : experts_(experts), ops_(CreateCudaOps({}).value()) {
    const auto make = [&](const WeightFormat& f, std::vector<int64_t> shape, double deviation) {
      const uint64_t key = RandomKey(5, ShapeToString(shape));
      return ops_->Generate(MakeRandomRecipe(f, std::move(shape), key, 0, deviation)).value();
    };
    gate_up_ = make(format, {experts, 2 * kInter, kHidden}, 0.02);
    down_ = make(format, {experts, kHidden, kInter}, 0.02);
    gate_up_bias_ = make(kBf16Format, {experts, 2 * kInter}, 0.1);
    down_bias_ = make(kBf16Format, {experts, kHidden}, 0.1);
    x_ = make(kBf16Format, {kMostTokens, kHidden}, 1);
    weights_ = device_.F32(std::vector<float>(kMostTokens * kTopK, 0.25f), {kMostTokens, kTopK});
    CudaCheck(cudaDeviceSynchronize(), "making weights");
  }

  void Route(Load load) { routing_ = device_.I32(ExpertsOf(load, experts_), {kMostTokens, kTopK}); }

  // Both products of the first `tokens`, `pairs` times; what the last ones made.
  Bits Run(int64_t tokens, int pairs, ExpertsVariant variant) {
    CudaCheck(cudaMemsetAsync(inner_.get(), 0xff, kInnerBytes, stream_.get()), "filling with NaN");
    CudaCheck(cudaMemsetAsync(out_.get(), 0xff, kOutBytes, stream_.get()), "filling with NaN");
    for (int i = 0; i < pairs; ++i) {
      LaunchExpertsGateUp({.x = x_.data.data<Bf16>(),
                           .experts = routing_.data<int32_t>(),
                           .weight = PackedOf(gate_up_),
                           .bias = gate_up_bias_.data.data<Bf16>(),
                           .out = reinterpret_cast<Bf16*>(inner_.get()),
                           .tokens = tokens,
                           .experts_per_token = kTopK,
                           .scratch = {.workspace = workspace_.get()}},
                          stream_.get(), variant);
      LaunchExpertsDown({.x = reinterpret_cast<Bf16*>(inner_.get()),
                         .experts = routing_.data<int32_t>(),
                         .weights = weights_.data<float>(),
                         .weight = PackedOf(down_),
                         .bias = down_bias_.data.data<Bf16>(),
                         .out = reinterpret_cast<Bf16*>(out_.get()),
                         .tokens = tokens,
                         .experts_per_token = kTopK,
                         .scratch = {.workspace = workspace_.get()}},
                        stream_.get(), variant);
    }
    Bits bits{std::vector<uint16_t>(tokens * kTopK * kInter),
              std::vector<uint16_t>(tokens * kHidden)};
    Copy(inner_, bits.inner);
    Copy(out_, bits.out);
    return bits;
  }

 private:
  static constexpr int64_t kInnerBytes = kMostTokens * kTopK * kInter * 2;
  static constexpr int64_t kOutBytes = kMostTokens * kHidden * 2;

  static PackedExperts PackedOf(const Weight& weight) {
    return {.data = weight.data.data<uint8_t>(),
            .packing = weight.format.packing,
            .experts = static_cast<int>(weight.shape[0]),
            .rows = static_cast<int>(weight.shape[1]),
            .cols = static_cast<int>(weight.shape[2])};
  }
  void Copy(const DeviceMemory& from, std::vector<uint16_t>& to) {
    CudaCheck(cudaMemcpyAsync(to.data(), from.get(), to.size() * sizeof(uint16_t),
                              cudaMemcpyDeviceToHost, stream_.get()),
              "copying out");
    CudaCheck(cudaStreamSynchronize(stream_.get()), "waiting for experts");
  }

  const int experts_;
  const std::unique_ptr<OpSet> ops_;  // owns the weights
  Weight gate_up_, down_, gate_up_bias_, down_bias_, x_;
  DeviceInputs device_;
  Tensor weights_, routing_;
  DeviceMemory inner_ = AllocateDevice(kInnerBytes, "a test", "").value();
  DeviceMemory out_ = AllocateDevice(kOutBytes, "a test", "").value();
  DeviceMemory workspace_ =
      AllocateDevice(ExpertsWorkspaceBytes(kMostTokens, kTopK, experts_, 2 * kInter), "a test", "")
          .value();
  Stream stream_;
};

// How many differ, and where the first does.
std::string Difference(const std::vector<uint16_t>& got, const std::vector<uint16_t>& wanted,
                       int64_t cols) {
  int64_t count = 0, first = -1;
  for (int64_t i = 0; i < std::ssize(wanted); ++i) {
    if (got[i] == wanted[i]) continue;
    if (count++ == 0) first = i;
  }
  if (count == 0) return "";
  return StrCat(count, " of ", wanted.size(), " differ, first row ", first / cols, " col ",
                first % cols, ": ", got[first], " and not ", wanted[first]);
}

class GpuExpertsBackToBack : public testing::TestWithParam<std::tuple<WeightFormat, int>> {};

TEST_P(GpuExpertsBackToBack, EndWithTheSameBits) {
  if (!IsCudaThere()) GTEST_SKIP() << "no GPU";
  const auto& [format, experts] = GetParam();
  Layer layer(format, experts);
  const int pairs = experts > 32 ? 40 : 80;  // of both products, back to back: 3 to 5 kernels each
  for (const Load load : {Load::kBalanced, Load::kSameExperts, Load::kSkewed}) {
    layer.Route(load);
    for (const int64_t tokens :
         {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 24, 32, 33, 64}) {
      const std::string what =
          StrCat(format.ToString(), ", ", experts, " experts, ", tokens, " tokens, ", NameOf(load));
      SCOPED_TRACE(what);
      const TimeLimit limit(std::chrono::seconds(10), what);
      const Bits wanted = layer.Run(tokens, 1, ExpertsVariant::kGrouped);
      for (int run = 0; run < 2; ++run) {
        const Bits got = layer.Run(tokens, pairs, ExpertsVariant::kAuto);
        ASSERT_EQ(Difference(got.inner, wanted.inner, kInter), "") << "gate_up, run " << run;
        ASSERT_EQ(Difference(got.out, wanted.out, kHidden), "") << "down, run " << run;
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(GptOss, GpuExpertsBackToBack,
                         testing::Combine(testing::Values(kMxfp4Format, kFp8BlockFormat),
                                          testing::Values(32, 128)));

}  // namespace
}  // namespace rose

#include "ops/cuda/cuda_meter.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "device/cuda_check.h"
#include "device/memory.h"
#include "kernels/read/read.h"
#include "ops/cuda/cublaslt.h"
#include "ops/cuda/cuda_op_set.h"
#include "ops/cuda/step_graphs.h"

namespace rose {
namespace {

constexpr double kSampleUs = 400;  // that a sample takes at least: events have microseconds
constexpr double kWarmUpUs = 2e4;  // of each, before the first sample: clocks rise
constexpr int64_t kLeastSamples = 20;
constexpr double kPastCache = 2e8;  // bytes after which nothing of the first is in L2 (60 MB)
constexpr const char* kAdvice = "measure fewer tokens, or a smaller model";

class Event {
 public:
  Event() { CudaCheck(cudaEventCreate(&event_), "creating an event"); }
  ~Event() { (void)cudaEventDestroy(event_); }
  Event(const Event&) = delete;
  Event& operator=(const Event&) = delete;

  void Record(cudaStream_t stream) { CudaCheck(cudaEventRecord(event_, stream), "marking time"); }
  double MicrosecondsSince(const Event& begin) const {
    CudaCheck(cudaEventSynchronize(event_), "waiting for a measurement");
    float ms = 0;
    CudaCheck(cudaEventElapsedTime(&ms, begin.event_, event_), "reading a time");
    return 1000.0 * ms;
  }

 private:
  cudaEvent_t event_ = nullptr;
};

std::string PciAddress() {
  std::array<char, 32> text{};
  CudaCheck(cudaDeviceGetPCIBusId(text.data(), static_cast<int>(text.size()), /*device=*/0),
            "asking for the GPU's address");
  return text.data();
}

class CudaMeter : public OpMeter {
 public:
  explicit CudaMeter(CudaOps& ops)
      : stream_(ops.stream()), trail_(ops.trail()), pci_address_(PciAddress()) {}
  ~CudaMeter() override { (void)cudaStreamSynchronize(stream_); }

  Tensor Place(const Tensor& host) override;
  std::vector<MeteredTimes> Time(std::span<const MeteredCalls> calls, int64_t ms) override;
  std::optional<GpuClocks> clocks() const override { return clocks_; }
  Result<MeteredCalls> LibraryCalls(const LibraryProduct& product, std::string& name) override;
  Result<MeteredCalls> ReadCalls(double bytes) override;

 private:
  // Enqueues a round: of a recordable one, its graph (plainly at first).
  void Enqueue(StepGraphs& graphs, size_t which, const MeteredCalls& calls);
  // Microseconds of `rounds` rounds.
  double Sample(StepGraphs& graphs, size_t which, const MeteredCalls& calls, int64_t rounds,
                bool reads_clocks = false);
  void Spend();

  cudaStream_t stream_;
  OpTrail& trail_;
  const std::string pci_address_;
  std::optional<GpuClocks> clocks_;
  std::vector<DeviceMemory> placed_;
  DeviceMemory spent_;
  std::shared_ptr<CublasLt> lt_;
  Event begin_, end_;
};

Tensor CudaMeter::Place(const Tensor& host) {
  placed_.push_back(ValueOrThrow(AllocateDevice(host.bytes(), "inputs", kAdvice)));
  CudaCheck(cudaMemcpy(placed_.back().get(), host.raw(), host.bytes(), cudaMemcpyHostToDevice),
            "copying inputs");
  CudaCheck(cudaDeviceSynchronize(), "copying inputs");  // the stream is not ordered with this
  return Tensor(placed_.back().get(), host.dtype(), host.shape());
}

void CudaMeter::Enqueue(StepGraphs& graphs, size_t which, const MeteredCalls& calls) {
  const auto round = [&] {
    for (int64_t i = calls.count - 1; i >= 0; --i) calls.run(i);
    return Tensor();
  };
  if (calls.is_recordable) {
    graphs.Run(static_cast<int64_t>(which), round);
  } else {
    round();
  }
}

// Some hundred microseconds of work that touches little memory: what is enqueued meanwhile runs
// without waiting for the host.
void CudaMeter::Spend() {
  constexpr int64_t kBytes = int64_t{8} << 20;
  constexpr int kTimes = 60;
  if (spent_ == nullptr) spent_ = ValueOrThrow(AllocateDevice(kBytes, "a spacer", kAdvice));
  for (int i = 0; i < kTimes; ++i) {
    CudaCheck(cudaMemsetAsync(spent_.get(), i, kBytes, stream_), "passing time");
  }
}

double CudaMeter::Sample(StepGraphs& graphs, size_t which, const MeteredCalls& calls,
                         int64_t rounds, bool reads_clocks) {
  if (!calls.is_recordable) Spend();
  begin_.Record(stream_);
  for (int64_t i = 0; i < rounds; ++i) Enqueue(graphs, which, calls);
  end_.Record(stream_);
  if (reads_clocks) clocks_ = ReadGpuClocks(pci_address_);  // while it runs
  const DeviceCall call(trail_);
  const double us = end_.MicrosecondsSince(begin_);
  if (!calls.is_recordable) calls.settle();
  return us;
}

std::vector<MeteredTimes> CudaMeter::Time(std::span<const MeteredCalls> calls, int64_t ms) {
  StepGraphs graphs(stream_, trail_);
  std::vector<MeteredTimes> times(calls.size());
  std::vector<int64_t> rounds(calls.size(), 1);  // of a sample
  double longest = 0;                            // sample
  for (size_t c = 0; c < calls.size(); ++c) {
    times[c].is_recorded = calls[c].is_recordable;
    // Plainly, since memory may grow; then recorded; then for the time of one.
    for (int i = 0; i < 2; ++i) (void)Sample(graphs, c, calls[c], 1);
    const double us = std::max(0.5, Sample(graphs, c, calls[c], 1));
    if (calls[c].is_recordable) rounds[c] = static_cast<int64_t>(std::ceil(kSampleUs / us));
    longest = std::max(longest, us * static_cast<double>(rounds[c]));
  }
  const auto warm_up = static_cast<int64_t>(std::ceil(kWarmUpUs / longest));
  const auto samples =
      std::max(kLeastSamples, static_cast<int64_t>(1000 * static_cast<double>(ms) / longest));
  for (int64_t s = -warm_up; s < samples; ++s) {
    for (size_t c = 0; c < calls.size(); ++c) {
      const bool is_last = s + 1 == samples && c == 0;
      const double us = Sample(graphs, c, calls[c], rounds[c], is_last);
      if (s >= 0) times[c].us.push_back(us / static_cast<double>(rounds[c] * calls[c].count));
    }
  }
  return times;
}

Result<MeteredCalls> CudaMeter::LibraryCalls(const LibraryProduct& product, std::string& name) {
  for (const Weight& weight : product.weights) {
    if (weight.format.packing != Packing::kBf16)
      return Unsupported("cuBLASLt multiplies no ", weight.format.ToString(), " by bf16");
  }
  if (lt_ == nullptr) {
    ROSE_ASSIGN_OR_RETURN(lt_, CublasLt::Open());
  }
  const bool has_bias = !product.biases.empty() && !product.biases.front().empty();
  ROSE_ASSIGN_OR_RETURN(const std::shared_ptr<CublasLt::Plan> plan,
                        lt_->MakePlan({.tokens = product.x.dim(0),
                                       .n = product.out.dim(1),
                                       .k = product.x.dim(1),
                                       .has_bias = has_bias,
                                       .out_type = product.out.dtype()}));
  name = lt_->name();
  return MeteredCalls{.count = std::ssize(product.weights),
                      .run = [this, lt = lt_, plan, product, has_bias](int64_t i) {
                        lt->Multiply(*plan, product.x.raw(), product.weights[i].data.raw(),
                                     has_bias ? product.biases[i].data.raw() : nullptr,
                                     product.out.raw(), stream_);
                      }};
}

Result<MeteredCalls> CudaMeter::ReadCalls(double bytes) {
  constexpr int64_t kAlign = 256;
  constexpr int64_t kMostCalls = 1024;
  const int64_t each = std::max(kAlign, static_cast<int64_t>(bytes) / kAlign * kAlign);
  // Few bytes are read in places far apart.
  const int64_t stride =
      std::max(each, static_cast<int64_t>(kPastCache) / kMostCalls / kAlign * kAlign);
  const auto count = std::max<int64_t>(
      2, static_cast<int64_t>(std::ceil(kPastCache / static_cast<double>(stride))));
  ROSE_ASSIGN_OR_RETURN(DeviceMemory memory,
                        AllocateDevice(stride * count + kAlign, "reads to compare with", kAdvice));
  constexpr int kBits = 0x5a;
  CudaCheck(cudaMemsetAsync(memory.get(), kBits, stride * count + kAlign, stream_), "filling");
  const std::shared_ptr<std::byte> shared(std::move(memory));
  return MeteredCalls{.count = count, .run = [this, shared, each, stride, count](int64_t i) {
                        LaunchRead({.data = shared.get() + stride * i,
                                    .bytes = each,
                                    .sink = shared.get() + stride * count},
                                   stream_);
                      }};
}

}  // namespace

std::unique_ptr<OpMeter> CreateCudaMeter(OpSet& ops) {
  return std::make_unique<CudaMeter>(dynamic_cast<CudaOps&>(ops));
}

}  // namespace rose

#include "ops/cuda/cuda_ops.h"

#include <algorithm>

#include "device/cuda_check.h"
#include "ops/cuda/cuda_op_set.h"

namespace rose {
namespace {

constexpr int64_t kMostRecorded = 64;  // sequences of a step that is recorded
constexpr int kCapability = 90;        // kernels are built for sm_90a, which no later GPU runs

struct Memory {
  int64_t free = 0, total = 0;
};

Memory AskMemory() {
  if (!IsCudaThere()) return {};
  size_t free = 0, total = 0;
  CudaCheck(cudaMemGetInfo(&free, &total), "asking for free memory");
  return {.free = static_cast<int64_t>(free), .total = static_cast<int64_t>(total)};
}

}  // namespace

bool IsCudaThere() {
  return CudaDevices() > 0;
}

Result<std::unique_ptr<OpSet>> CreateCudaOps(const CudaConfig& config) {
  int devices = 0;
  if (const cudaError_t error = cudaGetDeviceCount(&devices); error != cudaSuccess) {
    (void)cudaGetLastError();
    return Unsupported("no GPU can be used: ", cudaGetErrorString(error),
                       "; is an NVIDIA driver of version 580 or later installed? --device cpu "
                       "needs none");
  }
  if (devices == 0) {
    return Unsupported(
        "no GPU is visible (is CUDA_VISIBLE_DEVICES empty?); --device cpu needs none");
  }
  cudaDeviceProp properties{};
  CudaCheck(cudaGetDeviceProperties(&properties, 0), "asking for the GPU's properties");
  const int capability = properties.major * 10 + properties.minor;
  if (capability != kCapability) {
    return Unsupported("the GPU is a ", properties.name, " of compute capability ",
                       properties.major, ".", properties.minor,
                       "; the kernels are for 9.0 (H100, H200, GH200); use --device cpu");
  }
  CudaCheck(cudaSetDevice(0), "choosing the GPU");
  return std::unique_ptr<OpSet>(std::make_unique<CudaOps>(config));
}

int64_t FreeCudaBytes() {
  return AskMemory().free;
}

int64_t UsedCudaBytes() {
  const Memory memory = AskMemory();
  return memory.total - memory.free;
}

void TimeCudaOps(OpSet& ops, OpTiming timing) {
  dynamic_cast<CudaOps&>(ops).SetTiming(timing);
}

std::vector<TimedOp> TakeCudaTimes(OpSet& ops) {
  return dynamic_cast<CudaOps&>(ops).TakeTimes();
}

CudaOps::CudaOps(const CudaConfig& config)
    : upload_config_(config.upload),
      progress_(ValueOrThrow(AllocatePinned(sizeof(int32_t), "marks of progress", "free some"))),
      trail_(stream_.get(), {.is_sync = config.is_sync,
                             .progress = reinterpret_cast<int32_t*>(progress_.get()),
                             .fault_at = config.fault_at}),
      step_(stream_.get(), config.is_checked),
      layers_{DeviceArena(stream_.get(), config.is_checked),
              DeviceArena(stream_.get(), config.is_checked)},
      inputs_(stream_.get()),
      draws_(stream_.get(), trail_),
      graphs_(stream_.get(), trail_) {
  CudaCheck(cudaDeviceGetAttribute(&sms_, cudaDevAttrMultiProcessorCount, /*device=*/0),
            "asking for the GPU's multiprocessors");
  if (config.on_hang && config.hang_limit.count() > 0) {
    watch_ = std::make_unique<HangWatch>(trail_, config.hang_limit, config.on_hang);
  }
}

CudaOps::~CudaOps() {
  // Kernels in flight use the memory that goes now.
  const DeviceCall call(trail_);
  (void)cudaStreamSynchronize(stream_.get());
}

void CudaOps::BeginStep(const Step& step) {
  step_.Reset();
  for (DeviceArena& arena : layers_) arena.Reset();
  layer_ = 0;  // equal steps find their activations at equal addresses: graphs need that
  if (to_host_.size() > 1) to_host_.erase(to_host_.begin(), to_host_.end() - 1);
  to_host_used_ = 0;
  for (AttentionWorkspace& workspace : attention_) workspace.is_planned = false;
  trail_.BeginStep();
  {
    const OpScope op(trail_, "upload",
                     {{"tokens", std::ssize(step.tokens)}, {"seqs", std::ssize(step.seqs)}});
    inputs_.Upload(step);
  }
  draws_.Feed(step.fed, const_cast<int32_t*>(inputs_.on_device().tokens));
}

void CudaOps::BeginLayer() {
  layer_ = 1 - layer_;
  layer().Reset();
  trail_.BeginLayer();
}

// Records steps that only decode: a prompt's chunk takes the device longer than the host needs to
// enqueue it, and there are too many shapes of them.
Tensor CudaOps::Replayed(const Step& step, const std::function<Tensor()>& ops) {
  trail_.BeginForward();
  Tensor result = MayRecord(step) ? graphs_.Run(std::ssize(step.seqs), ops) : ops();
  trail_.EndForward();
  return result;
}

bool CudaOps::Record(const Step& step, const std::function<Tensor()>& ops) {
  if (!MayRecord(step)) return false;
  trail_.BeginForward();
  graphs_.Record(std::ssize(step.seqs), ops);
  trail_.EndForward();
  return true;
}

bool CudaOps::MayRecord(const Step& step) {
  const int64_t seqs = std::ssize(step.seqs);
  if (trail_.is_sync() || seqs > kMostRecorded || std::ssize(step.tokens) != seqs ||
      std::ssize(step.logit_rows) != seqs) {
    return false;
  }
  std::array<const void*, kMaxKvGroups + 1> addresses = {inputs_.on_device().tokens};
  for (size_t i = 0; i < attention_.size(); ++i) addresses[i + 1] = attention_[i].memory.get();
  if (addresses != recorded_at_) graphs_.Clear();
  recorded_at_ = addresses;
  return true;
}

void CudaOps::SetTiming(OpTiming timing) {
  graphs_.Clear();
  trail_.SetTiming(timing);
}

Tensor CudaOps::ToHost(const Tensor& x) {
  constexpr int64_t kAlign = 64;
  const int64_t bytes = (x.bytes() + kAlign - 1) / kAlign * kAlign;
  if (to_host_.empty() || to_host_used_ + bytes > to_host_bytes_) {
    to_host_bytes_ = std::max(bytes, 2 * to_host_bytes_);
    to_host_.push_back(ValueOrThrow(
        AllocatePinned(to_host_bytes_, "logits", "lower --max-running or --max-step-tokens")));
    to_host_used_ = 0;
  }
  std::byte* data = to_host_.back().get() + to_host_used_;
  to_host_used_ += bytes;
  CudaCheck(cudaMemcpyAsync(data, x.raw(), x.bytes(), cudaMemcpyDeviceToHost, stream_.get()),
            "copying to the host");
  trail_.WaitForAll("waiting for a step");
  trail_.Finished(trail_.position());
  return Tensor(data, x.dtype(), x.shape());
}

}  // namespace rose

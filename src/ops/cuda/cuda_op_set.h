// CudaOps: checks shapes, takes outputs from the arenas, fills parameters, calls launchers. All
// work goes to one stream, so that memory can be handed on without waiting.
#pragma once

#include <cuda_runtime_api.h>

#include <array>
#include <deque>
#include <memory>
#include <string_view>
#include <vector>

#include "device/arena.h"
#include "device/hang_watch.h"
#include "device/memory.h"
#include "device/op_trail.h"
#include "device/stream.h"
#include "kernels/attention/attention.h"
#include "kernels/experts/experts.h"
#include "ops/cuda/cuda_draws.h"
#include "ops/cuda/cuda_ops.h"
#include "ops/cuda/step_graphs.h"
#include "ops/cuda/step_upload.h"
#include "ops/cuda/weight_upload.h"
#include "ops/ops.h"

namespace rose {

// Which option makes a step need less memory.
inline constexpr std::string_view kStepAdvice = "lower --max-step-tokens, or give --kv-memory less";

class CudaOps : public OpSet {
 public:
  explicit CudaOps(const CudaConfig& config);
  ~CudaOps() override;

  std::string_view name() const override { return "cuda"; }
  DType kv_dtype() const override { return DType::kBf16; }
  // Where all work goes, and what was asked of it. For measurements, which put events and graphs of
  // their own there.
  cudaStream_t stream() const { return stream_.get(); }
  OpTrail& trail() { return trail_; }

  // cuda_memory.cc
  Result<Weight> Adopt(const Weight& host) override;
  bool fetches() const override { return true; }
  Result<std::vector<Weight>> StartFetch(const std::vector<std::unique_ptr<WeightSource>>& sources,
                                         std::function<void(int64_t)> progress) override;
  Status FinishFetch() override;
  Result<Weight> Generate(const RandomRecipe& recipe) override;
  Result<KvCache> AllocateKv(const KvLayout& layout, const std::vector<int64_t>& pages) override;
  Result<KvCache> AllocateHostKv(const KvLayout& layout,
                                 const std::vector<int64_t>& pages) override;
  void CopyPages(KvCache& cache, KvCache& host, const PageCopies& copies) override;

  // cuda_ops.cc
  void BeginStep(const Step& step) override;
  void BeginLayer() override;
  Tensor Replayed(const Step& step, const std::function<Tensor()>& ops) override;
  bool Record(const Step& step, const std::function<Tensor()>& ops) override;
  DrawQueue* draws() override { return &draws_; }
  Tensor ToHost(const Tensor& x) override;

  // Of TimeCudaOps and TakeCudaTimes.
  void SetTiming(OpTiming timing);
  std::vector<TimedOp> TakeTimes() { return trail_.TakeTimes(); }

  // rows.cc
  Tensor Embed(const Step& step, const Weight& table) override;
  Tensor RmsNorm(const Tensor& x, const Weight& weight, float eps) override;
  Tensor AddRmsNorm(Tensor& residual, const Tensor& delta, const Weight& weight,
                    float eps) override;
  Tensor GatherLogitRows(const Tensor& x, const Step& step) override;

  // gemm.cc
  Tensor Gemm(const Tensor& x, const Weight& weight, const Weight& bias) override;
  Tensor Logits(const Tensor& x, const Weight& weight) override;

  // attention.cc
  void RopeAppendKv(Tensor& qkv, const AttentionShape& shape, const HeadNorms& norms,
                    const Rope& rope, KvLayer& kv, const Step& step) override;
  Tensor PagedAttention(const Tensor& qkv, const AttentionShape& shape, const Weight& sinks,
                        const KvLayer& kv, const Step& step) override;

  // experts.cc
  Routing Route(const Tensor& x, const Weight& weight, const Weight& bias, int top_k) override;
  Tensor ExpertsGateUp(const Tensor& x, const Routing& routing, const Weight& weight,
                       const Weight& bias, const SwiGlu& activation) override;
  Tensor ExpertsDown(const Tensor& x, const Routing& routing, const Weight& weight,
                     const Weight& bias) override;

 private:
  // cuda_memory.cc
  Result<DeviceMemory> AllocateWeight(int64_t bytes);
  Result<Tensor> ToDevice(const Tensor& host);
  void CopyAll(KvCache& from, KvCache& to, const std::vector<PageCopy>& copies);
  // cuda_ops.cc
  bool MayRecord(const Step& step);
  // attention.cc
  const float* InvFreq(const Rope& rope);
  void CheckStep(const Step& step) const;
  AttentionParams InWorkspace(AttentionParams params);
  // experts.cc
  Result<Weight> Pack(const Weight& stack, size_t raw);
  ExpertsScratch Scratch(const Routing& routing, const PackedExperts& weight);

  // Activations of a layer, by turns: those of the layer before stay valid.
  DeviceArena& layer() { return layers_[layer_]; }

  // What attention over a KV group works with; stays, for the address is part of graphs.
  struct AttentionWorkspace {
    AttentionLimits limits;
    DeviceMemory memory;
    bool is_planned = false;  // for this step
  };
  struct UploadedRope {
    std::vector<float> inv_freq;
    DeviceMemory on_device;
  };

  const UploadConfig upload_config_;
  Stream stream_;
  PinnedMemory progress_;  // a word: how far the stream has come
  OpTrail trail_;
  DeviceArena step_;  // what stays valid for the whole step
  std::array<DeviceArena, 2> layers_;
  int layer_ = 0;
  StepUpload inputs_;
  CudaDraws draws_;
  StepGraphs graphs_;
  std::array<const void*, kMaxKvGroups + 1> recorded_at_{};  // addresses that the graphs hold
  std::vector<DeviceMemory> weights_;
  std::unique_ptr<WeightUpload> upload_;  // null: none is under way
  std::deque<UploadedRope> ropes_;
  std::array<AttentionWorkspace, kMaxKvGroups> attention_;
  int sms_ = 0;
  // What ToHost returned in this step: the last block is the largest, and is being handed out.
  std::vector<PinnedMemory> to_host_;
  int64_t to_host_bytes_ = 0;
  int64_t to_host_used_ = 0;
  std::unique_ptr<HangWatch> watch_;  // last: it looks at the trail
};

}  // namespace rose

// CpuFastOps: the op set for real work on a CPU. Threads and vector instructions chosen at run
// time; weights stay as the checkpoint has them and are decoded in registers.
//
// All is f32, but at Precision::kFast the KV cache, which is bf16 there.
#pragma once

#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "base/cpu.h"
#include "base/thread_pool.h"
#include "ops/cpu_fast/kernels.h"
#include "ops/host_arena.h"
#include "ops/host_kv.h"
#include "ops/host_random.h"
#include "ops/ops.h"

namespace rose {

struct CpuFastConfig {
  int threads = 0;  // 0 = all processors of the process
  Precision precision = Precision::kExact;
  CpuIsa isa = DetectCpuIsa();  // a level that the machine has
};

class CpuFastOps : public OpSet {
 public:
  explicit CpuFastOps(const CpuFastConfig& config);

  std::string_view name() const override { return "cpu-fast"; }
  DType kv_dtype() const override { return kv_dtype_; }
  CpuIsa isa() const { return kernels_->isa; }
  int threads() const { return pool_.threads(); }

  // cpu_fast_ops.cc
  Result<Weight> Adopt(const Weight& host) override;
  Result<Weight> Generate(const RandomRecipe& recipe) override {
    return random_.Make(recipe, pool_.threads());
  }
  Result<KvCache> AllocateKv(const KvLayout& layout, const std::vector<int64_t>& pages) override;
  Result<KvCache> AllocateHostKv(const KvLayout& layout,
                                 const std::vector<int64_t>& pages) override {
    return AllocateKv(layout, pages);
  }
  void CopyPages(KvCache& cache, KvCache& host, const PageCopies& copies) override {
    CopyHostPages(cache, host, copies);
  }
  void BeginStep(const Step& step) override;

  // rows.cc
  Tensor Embed(const Step& step, const Weight& table) override;
  Tensor RmsNorm(const Tensor& x, const Weight& weight, float eps) override;
  Tensor AddRmsNorm(Tensor& residual, const Tensor& delta, const Weight& weight,
                    float eps) override;
  Tensor GatherLogitRows(const Tensor& x, const Step& step) override;
  Tensor Logits(const Tensor& x, const Weight& weight) override;
  Tensor ToHost(const Tensor& x) override { return x; }

  // gemm.cc
  Tensor Gemm(const Tensor& x, const Weight& weight, const Weight& bias) override;

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
  // Part of one expert's work: some rows of its matrix for some of its uses.
  struct ExpertPart {
    int64_t expert = 0;
    int64_t row_begin = 0;
    int64_t row_end = 0;
    int64_t use_begin = 0;  // in uses_
    int64_t use_end = 0;
  };

  // experts.cc
  void PlanExperts(const Routing& routing, int64_t experts, int64_t rows);

  ThreadPool pool_;
  const KernelTable* kernels_;
  DType kv_dtype_;
  HostArena arena_;
  HostRandomWeights random_;
  std::vector<ExpertPart> parts_;  // of the op that runs
  std::vector<int32_t> uses_;      // token * top_k + slot, grouped by expert
};

}  // namespace rose

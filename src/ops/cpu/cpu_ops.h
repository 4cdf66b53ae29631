// CpuOps: the reference op set. Plain loops in f32, one file for each op family, meant to be
// checked by eye. Weights stay as the checkpoint has them; rows are decoded when they are needed.
#pragma once

#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "ops/host_arena.h"
#include "ops/host_kv.h"
#include "ops/host_random.h"
#include "ops/ops.h"

namespace rose {

class CpuOps : public OpSet {
 public:
  std::string_view name() const override { return "cpu"; }
  DType kv_dtype() const override { return DType::kF32; }

  // cpu_ops.cc
  Result<Weight> Adopt(const Weight& host) override;
  Result<Weight> Generate(const RandomRecipe& recipe) override {
    return random_.Make(recipe, /*threads=*/1);
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
  HostArena arena_;
  HostRandomWeights random_;
};

}  // namespace rose

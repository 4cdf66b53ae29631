// TimedOps: another op set, which computes on the host, and a watch beside it.
#pragma once

#include <string_view>
#include <vector>

#include "device/op_record.h"
#include "ops/ops.h"

namespace rose {

// `ops` outlives it and has no DrawQueue: its ops are done when they return.
class TimedOps : public OpSet {
 public:
  explicit TimedOps(OpSet& ops) : ops_(ops) {}

  // As TakeCudaTimes: what was done since the last call, in order. A step begins with "upload".
  std::vector<TimedOp> Take();

  std::string_view name() const override { return ops_.name(); }
  DType kv_dtype() const override { return ops_.kv_dtype(); }
  Result<Weight> Adopt(const Weight& host) override { return ops_.Adopt(host); }
  Result<Weight> Generate(const RandomRecipe& recipe) override { return ops_.Generate(recipe); }
  Result<KvCache> AllocateKv(const KvLayout& layout, const std::vector<int64_t>& pages) override {
    return ops_.AllocateKv(layout, pages);
  }
  Result<KvCache> AllocateHostKv(const KvLayout& layout,
                                 const std::vector<int64_t>& pages) override {
    return ops_.AllocateHostKv(layout, pages);
  }
  void CopyPages(KvCache& cache, KvCache& host, const PageCopies& copies) override {
    ops_.CopyPages(cache, host, copies);
  }
  Tensor ToHost(const Tensor& x) override { return ops_.ToHost(x); }

  void BeginStep(const Step& step) override;
  void BeginLayer() override;
  Tensor Embed(const Step& step, const Weight& table) override;
  Tensor RmsNorm(const Tensor& x, const Weight& weight, float eps) override;
  Tensor AddRmsNorm(Tensor& residual, const Tensor& delta, const Weight& weight,
                    float eps) override;
  Tensor Gemm(const Tensor& x, const Weight& weight, const Weight& bias) override;
  void RopeAppendKv(Tensor& qkv, const AttentionShape& shape, const HeadNorms& norms,
                    const Rope& rope, KvLayer& kv, const Step& step) override;
  Tensor PagedAttention(const Tensor& qkv, const AttentionShape& shape, const Weight& sinks,
                        const KvLayer& kv, const Step& step) override;
  Routing Route(const Tensor& x, const Weight& weight, const Weight& bias, int top_k) override;
  Tensor ExpertsGateUp(const Tensor& x, const Routing& routing, const Weight& weight,
                       const Weight& bias, const SwiGlu& activation) override;
  Tensor ExpertsDown(const Tensor& x, const Routing& routing, const Weight& weight,
                     const Weight& bias) override;
  Tensor GatherLogitRows(const Tensor& x, const Step& step) override;
  Tensor Logits(const Tensor& x, const Weight& weight) override;

 private:
  OpSet& ops_;
  std::vector<TimedOp> times_;
};

}  // namespace rose

#include "profile/timed_ops.h"

#include <algorithm>
#include <chrono>
#include <initializer_list>
#include <utility>

namespace rose {
namespace {

using Clock = std::chrono::steady_clock;

// Adds the time of its life to a list.
class Watch {
 public:
  Watch(std::vector<TimedOp>& times, const char* name, std::initializer_list<OpSize> sizes)
      : times_(times) {
    op_.name = name;
    op_.size_count = static_cast<int32_t>(sizes.size());
    std::copy(sizes.begin(), sizes.end(), op_.sizes);
  }
  ~Watch() {
    times_.push_back(
        {op_, std::chrono::duration<double, std::micro>(Clock::now() - begin_).count()});
  }
  Watch(const Watch&) = delete;
  Watch& operator=(const Watch&) = delete;

 private:
  std::vector<TimedOp>& times_;
  OpRecord op_;
  const Clock::time_point begin_ = Clock::now();
};

}  // namespace

std::vector<TimedOp> TimedOps::Take() {
  return std::exchange(times_, {});
}

void TimedOps::BeginStep(const Step& step) {
  const Watch watch(times_, "upload", {{"tokens", std::ssize(step.tokens)}});
  ops_.BeginStep(step);
}

void TimedOps::BeginLayer() {
  ops_.BeginLayer();
}

Tensor TimedOps::Embed(const Step& step, const Weight& table) {
  const Watch watch(times_, "embed", {{"tokens", std::ssize(step.tokens)}});
  return ops_.Embed(step, table);
}

Tensor TimedOps::RmsNorm(const Tensor& x, const Weight& weight, float eps) {
  const Watch watch(times_, "rms_norm", {{"tokens", x.dim(0)}});
  return ops_.RmsNorm(x, weight, eps);
}

Tensor TimedOps::AddRmsNorm(Tensor& residual, const Tensor& delta, const Weight& weight,
                            float eps) {
  const Watch watch(times_, "add_rms_norm", {{"tokens", delta.dim(0)}});
  return ops_.AddRmsNorm(residual, delta, weight, eps);
}

Tensor TimedOps::Gemm(const Tensor& x, const Weight& weight, const Weight& bias) {
  const Watch watch(times_, "gemm",
                    {{"tokens", x.dim(0)}, {"rows", weight.shape[0]}, {"cols", weight.shape[1]}});
  return ops_.Gemm(x, weight, bias);
}

void TimedOps::RopeAppendKv(Tensor& qkv, const AttentionShape& shape, const HeadNorms& norms,
                            const Rope& rope, KvLayer& kv, const Step& step) {
  const Watch watch(times_, "rope_append_kv", {{"tokens", qkv.dim(0)}});
  ops_.RopeAppendKv(qkv, shape, norms, rope, kv, step);
}

Tensor TimedOps::PagedAttention(const Tensor& qkv, const AttentionShape& shape, const Weight& sinks,
                                const KvLayer& kv, const Step& step) {
  const Watch watch(times_, "attention",
                    {{"tokens", qkv.dim(0)}, {"heads", shape.heads}, {"window", kv.window}});
  return ops_.PagedAttention(qkv, shape, sinks, kv, step);
}

Routing TimedOps::Route(const Tensor& x, const Weight& weight, const Weight& bias, int top_k) {
  const Watch watch(
      times_, "route",
      {{"tokens", x.dim(0)}, {"hidden", weight.shape[1]}, {"experts", weight.shape[0]}});
  return ops_.Route(x, weight, bias, top_k);
}

Tensor TimedOps::ExpertsGateUp(const Tensor& x, const Routing& routing, const Weight& weight,
                               const Weight& bias, const SwiGlu& activation) {
  const Watch watch(times_, "experts_gate_up",
                    {{"tokens", x.dim(0)},
                     {"top_k", routing.experts.dim(1)},
                     {"experts", weight.shape[0]},
                     {"rows", weight.shape[1]},
                     {"hidden", weight.shape[2]}});
  return ops_.ExpertsGateUp(x, routing, weight, bias, activation);
}

Tensor TimedOps::ExpertsDown(const Tensor& x, const Routing& routing, const Weight& weight,
                             const Weight& bias) {
  const Watch watch(times_, "experts_down",
                    {{"tokens", x.dim(0)},
                     {"top_k", routing.experts.dim(1)},
                     {"experts", weight.shape[0]},
                     {"hidden", weight.shape[1]},
                     {"inter", weight.shape[2]}});
  return ops_.ExpertsDown(x, routing, weight, bias);
}

Tensor TimedOps::GatherLogitRows(const Tensor& x, const Step& step) {
  const Watch watch(times_, "gather_logit_rows", {{"rows", std::ssize(step.logit_rows)}});
  return ops_.GatherLogitRows(x, step);
}

Tensor TimedOps::Logits(const Tensor& x, const Weight& weight) {
  const Watch watch(
      times_, "logits",
      {{"tokens", x.dim(0)}, {"vocab", weight.shape[0]}, {"hidden", weight.shape[1]}});
  return ops_.Logits(x, weight);
}

}  // namespace rose

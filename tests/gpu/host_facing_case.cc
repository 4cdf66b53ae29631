// Lets the tests of ops and models that were written for the CPU's op sets meet the GPU's as well
// (op_sets.h), where there is one.
#include "gpu/gpu_case.h"

namespace rose {
namespace {

// An op set whose tensors are F32 in host memory, over one of a device: inputs are rounded and
// uploaded, outputs copied back. Weights are adopted at each use. For small tensors.
class HostFacingOps : public OpSet {
 public:
  HostFacingOps() : ops_(CreateCudaOps({.is_checked = true}).value()) { ops_->BeginStep({}); }
  ~HostFacingOps() override { ops_->BeginStep({}); }  // looks at the stripes

  std::string_view name() const override { return ops_->name(); }
  DType kv_dtype() const override { return ops_->kv_dtype(); }
  Result<Weight> Adopt(const Weight& host) override { return host; }
  Result<Weight> Generate(const RandomRecipe& recipe) override { return ops_->Generate(recipe); }
  Result<KvCache> AllocateKv(const KvLayout& layout, const std::vector<int64_t>& pages) override {
    return ops_->AllocateKv(layout, pages);
  }
  Result<KvCache> AllocateHostKv(const KvLayout& layout,
                                 const std::vector<int64_t>& pages) override {
    return ops_->AllocateHostKv(layout, pages);
  }
  void CopyPages(KvCache& cache, KvCache& host, const PageCopies& copies) override {
    ops_->CopyPages(cache, host, copies);
    CudaCheck(cudaDeviceSynchronize(), "waiting");  // tests look into the host's pages
  }
  void BeginStep(const Step& step) override {
    ops_->BeginStep(step);
    inputs_ = {};
    outputs_.clear();
  }

  Tensor Gemm(const Tensor& x, const Weight& weight, const Weight& bias) override {
    return Back(ops_->Gemm(Up(x), Up(weight), Up(bias)));
  }
  Tensor Logits(const Tensor& x, const Weight& weight) override {
    return Back(ops_->Logits(Up(x), Up(weight)));
  }
  void RopeAppendKv(Tensor& qkv, const AttentionShape& shape, const HeadNorms& norms,
                    const Rope& rope, KvLayer& kv, const Step& step) override {
    Tensor x = Up(qkv);
    ops_->RopeAppendKv(x, shape, {Up(norms.q), Up(norms.k), norms.eps}, rope, kv, step);
    const std::vector<float> turned = Floats(*ops_, x);
    std::copy(turned.begin(), turned.end(), qkv.data<float>());
  }
  Tensor PagedAttention(const Tensor& qkv, const AttentionShape& shape, const Weight& sinks,
                        const KvLayer& kv, const Step& step) override {
    return Back(ops_->PagedAttention(Up(qkv), shape, Up(sinks), kv, step));
  }
  Routing Route(const Tensor& x, const Weight& weight, const Weight& bias, int top_k) override {
    const Routing routing = ops_->Route(Up(x), Up(weight), Up(bias), top_k);
    return {ops_->ToHost(routing.experts), ops_->ToHost(routing.weights)};
  }
  Tensor ExpertsGateUp(const Tensor& x, const Routing& routing, const Weight& weight,
                       const Weight& bias, const SwiGlu& activation) override {
    return Back(ops_->ExpertsGateUp(Up(x), Up(routing), Up(weight), Up(bias), activation));
  }
  Tensor ExpertsDown(const Tensor& x, const Routing& routing, const Weight& weight,
                     const Weight& bias) override {
    return Back(ops_->ExpertsDown(Up(x), Up(routing), Up(weight), Up(bias)));
  }
  Tensor ToHost(const Tensor& x) override { return x; }

  // No test reads these of a device.
  Tensor Embed(const Step&, const Weight&) override { return Missing(); }
  Tensor RmsNorm(const Tensor&, const Weight&, float) override { return Missing(); }
  Tensor AddRmsNorm(Tensor&, const Tensor&, const Weight&, float) override { return Missing(); }
  Tensor GatherLogitRows(const Tensor&, const Step&) override { return Missing(); }

 private:
  static Tensor Missing() {
    ROSE_CHECK(false, "not needed by a test so far");
    return {};
  }
  Tensor Up(const Tensor& host) {
    const std::vector<float> values = ToVector(host);
    return host.rank() == 2 ? inputs_.Bf16s(values, {host.dim(0), host.dim(1)})
                            : inputs_.Bf16s(values, {host.dim(0), host.dim(1), host.dim(2)});
  }
  Weight Up(const Weight& host) {
    if (host.empty()) return {};
    Weight weight = ops_->Adopt(host).value();
    CudaCheck(cudaDeviceSynchronize(), "waiting");  // the test's bytes may go now
    return weight;
  }
  Routing Up(const Routing& host) {
    const int64_t rows = host.experts.dim(0), slots = host.experts.dim(1);
    return {inputs_.I32({host.experts.data<int32_t>(), static_cast<size_t>(rows * slots)},
                        {rows, slots}),
            inputs_.F32(ToVector(host.weights), {rows, slots})};
  }
  Tensor Back(const Tensor& x) {
    std::vector<float>& values = outputs_.emplace_back(Floats(*ops_, x));
    values.reserve(1);
    return Tensor(values.data(), DType::kF32, x.shape());
  }

  std::unique_ptr<OpSet> ops_;
  DeviceInputs inputs_;
  std::deque<std::vector<float>> outputs_;
};

template <typename Make>
std::vector<OpSetCase> Cuda(Make make) {
  std::vector<OpSetCase> sets;
  if (IsCudaThere()) sets.push_back({"cuda", Precision::kExact, make(), 1.0f / 256});
  return sets;
}

[[maybe_unused]] const bool kIsRegistered = [] {
  RegisteredOpSets() = {
      .as_they_are =
          [] { return Cuda([] { return CreateCudaOps({.is_checked = true}).value(); }); },
      .of_host_memory = [] { return Cuda([] { return std::make_unique<HostFacingOps>(); }); }};
  return true;
}();

}  // namespace
}  // namespace rose

#include "bench/ops_cases.h"

#include <algorithm>

#include "bench/ops_check.h"
#include "bench/ops_experts.h"
#include "engine/sampler.h"
#include "ops/cpu/cpu_ops.h"

namespace rose {
namespace {

constexpr float kEps = 1e-5f;
constexpr int64_t kMostLogitRows = 256;  // of a step, as an engine has them

Result<OpCase> NormCase(OpInputs& in, int64_t tokens) {
  const WeightCopies norms = in.weights().Of("mlp_norm");
  ROSE_ASSIGN_OR_RETURN(const Tensor delta, in.Activations("delta", tokens, in.info().hidden));
  ROSE_ASSIGN_OR_RETURN(const Tensor residual, in.Residual(tokens));
  OpCase op{.op = "add_rms_norm", .tokens = tokens};
  const auto elements = tokens * in.info().hidden;
  op.work.bytes = 2 * BytesOf(residual) + BytesOf(delta) + in.OutBytes(elements);
  op.begin = [&in] { in.ops().BeginStep({}); };
  op.calls = {.count = in.CallsFor(std::ssize(norms.adopted)),
              .run = [&in, norms, delta, residual](int64_t copy) {
                in.NextCall();
                Tensor stream = residual;
                in.ops().AddRmsNorm(stream, delta, norms.at(copy), kEps);
              }};
  // The stream has changed with every call: once more, between two looks at it.
  op.check = [&in, norms, delta, residual, tokens]() -> Result<OpChecked> {
    const std::vector<int64_t> rows = SampleRows(tokens);
    in.ops().BeginStep({});
    HostRows before(in.ops(), residual, rows), added(in.ops(), delta, rows);
    Tensor stream = residual;
    const HostRows out(in.ops(), in.ops().AddRmsNorm(stream, delta, norms.at(0), kEps), rows);
    ROSE_ASSIGN_OR_RETURN(const Weight norm, in.weights().Host(norms));
    CpuOps reference;
    Tensor expected_stream = before.tensor();
    const Tensor expected = reference.AddRmsNorm(expected_stream, added.tensor(), norm, kEps);
    OpChecked checked = CompareRows(out.values(), expected, in.bound(false));
    const HostRows after(in.ops(), residual, rows);
    if (WorstOneMinusCosine(after.values(), expected_stream) > in.bound(true))
      checked.one_minus_cos = kWrong;
    return checked;
  };
  return op;
}

struct ProductNames {
  const char *op, *weight, *bias;
  bool is_logits = false;
};

Result<OpCase> ProductCase(OpInputs& in, const ProductNames& names, int64_t tokens) {
  const std::string head =
      in.weights().loaded().weights.contains("lm_head") ? "lm_head" : "embedding";
  ROSE_ASSIGN_OR_RETURN(const WeightCopies weights,
                        in.weights().Matrices(names.is_logits ? head : names.weight));
  const WeightCopies biases =
      names.is_logits ? WeightCopies{"", {Weight()}} : in.weights().Of(names.bias);
  const Weight& first = weights.adopted.front();
  const int64_t n = first.shape[0], k = first.shape[1];
  ROSE_ASSIGN_OR_RETURN(const Tensor x, in.Activations(names.op, tokens, k));
  OpCase op{.op = names.op, .tokens = tokens, .format = first.format.ToString()};
  op.work.bytes = static_cast<double>(first.bytes()) + BytesOf(x) +
                  in.OutBytes(tokens * n) * (names.is_logits && in.is_on_gpu() ? 2 : 1);
  op.work.flops =
      2.0 * static_cast<double>(tokens) * static_cast<double>(n) * static_cast<double>(k);
  auto last = std::make_shared<Tensor>();
  const bool is_logits = names.is_logits;
  op.calls = {.count = in.CallsFor(std::ssize(weights.adopted)),
              .run = [&in, x, weights, biases, is_logits, last](int64_t copy) {
                in.NextCall();
                *last = is_logits ? in.ops().Logits(x, weights.at(copy))
                                  : in.ops().Gemm(x, weights.at(copy), biases.at(copy));
              }};
  op.begin = [&in, run = op.calls.run, count = op.calls.count, is_logits] {
    in.ops().BeginStep({});
    if (!is_logits || !in.is_on_gpu()) return;
    // Logits stay for the whole step; while a round is recorded their memory cannot grow.
    for (int64_t i = 0; i < 3 * count; ++i) run(0);
    in.ops().BeginStep({});
  };
  const auto check = [&in, x, weights, biases, is_logits,
                      tokens](const Tensor& result) -> Result<OpChecked> {
    const std::vector<int64_t> rows = SampleRows(tokens);
    const HostRows out(in.ops(), result, rows);
    HostRows sample(in.ops(), x, rows);
    ROSE_ASSIGN_OR_RETURN(const Weight weight, in.weights().Host(weights));
    ROSE_ASSIGN_OR_RETURN(const Weight bias, in.weights().Host(biases));
    std::vector<float> expected = ReferenceProduct(sample.tensor(), weight, bias);
    const Tensor shaped(expected.data(), DType::kF32, {std::ssize(rows), weight.shape[0]});
    return CompareRows(out.values(), shaped, in.bound(is_logits));
  };
  op.check = [check, last] { return check(*last); };
  if (!in.is_on_gpu()) return op;
  LibraryProduct product{.x = x, .weights = {}, .biases = {}};
  for (int64_t i = 0; i < op.calls.count; ++i) {
    product.weights.push_back(weights.at(i));
    product.biases.push_back(biases.at(i));
  }
  const DType type = is_logits ? DType::kF32 : DType::kBf16;
  std::vector<uint8_t> zeros(tokens * n * ElementBytes(type));
  product.out = in.meter().Place(Tensor(zeros.data(), type, {tokens, n}));
  op.check_product = [check, out = product.out] { return check(out); };
  op.product = std::move(product);
  return op;
}

struct DrawKind {
  const char* op;
  float temperature;
  int64_t top_k;
  float top_p;
};

SamplingParams ParamsOf(const DrawKind& kind) {
  SamplingParams params;
  params.temperature = kind.temperature;
  params.top_k = kind.top_k;
  params.top_p = kind.top_p;
  return params;
}

uint64_t SeedOf(int64_t row) {
  return 1000 + static_cast<uint64_t>(row);
}

// Draws from the logits of random rows. Two draws are in flight, as an engine has them; their
// uploads and the copies of tokens to the host are part of the time.
Result<OpCase> DrawCase(OpInputs& in, const DrawKind& kind, int64_t tokens) {
  const std::string head =
      in.weights().loaded().weights.contains("lm_head") ? "lm_head" : "embedding";
  const Weight weight = in.weights().Of(head).adopted.front();
  ROSE_ASSIGN_OR_RETURN(const Tensor x, in.Activations("lm_head", tokens, weight.shape[1]));
  const SamplingParams params = ParamsOf(kind);
  auto specs = std::make_shared<std::vector<DrawSpec>>();
  for (int64_t row = 0; row < tokens; ++row)
    specs->push_back({.row = row, .rule = DrawRuleOf(params, SeedOf(row), /*position=*/1)});
  auto logits = std::make_shared<Tensor>();
  auto drawn = std::make_shared<std::vector<int32_t>>();
  OpCase op{.op = kind.op, .tokens = tokens};
  op.work.bytes = 4.0 * static_cast<double>(tokens * weight.shape[0]);
  op.begin = [&in, x, weight, logits] {
    in.ops().BeginStep({});
    *logits = in.ops().Logits(x, weight);
  };
  op.calls = {.count = 2,
              .run = [&in, specs, logits](int64_t) { in.ops().draws()->Draw(*logits, *specs); },
              .is_recordable = false,
              .settle =
                  [&in, drawn] {
                    for (int i = 0; i < 2; ++i) {
                      const std::span<const int32_t> tokens = in.ops().draws()->Wait();
                      drawn->assign(tokens.begin(), tokens.end());
                    }
                  }};
  op.check = [&in, params, logits, drawn, tokens]() -> Result<OpChecked> {
    OpChecked checked;
    Sampler sampler;
    for (int64_t row : SampleRows(tokens)) {
      const HostRows host(in.ops(), *logits, {row});
      const int32_t history = 0;
      ROSE_ASSIGN_OR_RETURN(const SampledToken token, sampler.Draw({.logits = host.values(),
                                                                    .params = &params,
                                                                    .seed = SeedOf(row),
                                                                    .history = {&history, 1},
                                                                    .prompt_tokens = 1}));
      ++checked.rows;
      if (token.id != (*drawn)[row]) checked.one_minus_cos = kWrong;
    }
    return checked;
  };
  return op;
}

}  // namespace

std::vector<PlannedCase> LayerCases(OpInputs& in, int64_t tokens) {
  constexpr ProductNames kQkv{"qkv", "qkv", "qkv_bias"}, kO{"o", "o", "o_bias"},
      kHead{"lm_head", "", "", true};
  constexpr DrawKind kDraws[] = {
      {"draw_greedy", 0, 0, 1}, {"draw_random", 1, 0, 1}, {"draw_top_p", 1, 40, 0.9f}};
  std::vector<PlannedCase> cases = {
      {"add_rms_norm", [&in, tokens] { return NormCase(in, tokens); }},
      {"qkv", [&in, tokens, kQkv] { return ProductCase(in, kQkv, tokens); }},
      {"o", [&in, tokens, kO] { return ProductCase(in, kO, tokens); }}};
  if (in.info().experts_per_token > 0) {
    cases.push_back({"route", [&in, tokens] { return RouteCase(in, tokens); }});
    for (const bool is_down : {false, true}) {
      cases.push_back({is_down ? "experts_down" : "experts_gate_up",
                       [&in, tokens, is_down] { return ExpertsCase(in, is_down, tokens); }});
    }
  }
  if (tokens > kMostLogitRows) return cases;
  cases.push_back({"lm_head", [&in, tokens, kHead] { return ProductCase(in, kHead, tokens); }});
  if (in.ops().draws() == nullptr) return cases;
  for (const DrawKind& kind : kDraws)
    cases.push_back({kind.op, [&in, tokens, kind] { return DrawCase(in, kind, tokens); }});
  return cases;
}

}  // namespace rose

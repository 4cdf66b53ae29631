#include "bench_ops_cases.h"

#include <algorithm>

#include "base/cpu.h"
#include "base/parallel_for.h"
#include "bench_ops_check.h"
#include "engine/sampler.h"
#include "ops/cpu/cpu_ops.h"

namespace rose {
namespace {

constexpr float kEps = 1e-5f;
constexpr int64_t kMostLogitRows = 256;  // of a step, as an engine has them

double Bytes(const Tensor& tensor) {
  return static_cast<double>(tensor.bytes());
}

// Of results of the op set's activation type.
double OutBytes(const OpInputs& inputs, int64_t elements) {
  return static_cast<double>(elements) * (inputs.is_on_gpu() ? 2 : 4);
}

OpChecked Compare(const std::vector<float>& actual, const Tensor& expected, double bound) {
  return {expected.dim(0), WorstOneMinusCosine(actual, expected), bound};
}

// Where calls leave their result; calls and check share it.
struct LastResult {
  Tensor tensor;
};

Result<OpCase> NormCase(OpInputs& in, int64_t tokens) {
  const WeightCopies norms = in.weights().Of("mlp_norm");
  ROSE_ASSIGN_OR_RETURN(const Tensor delta, in.Activations("delta", tokens, in.info().hidden));
  ROSE_ASSIGN_OR_RETURN(const Tensor residual, in.Residual(tokens));
  OpCase op{.op = "add_rms_norm", .tokens = tokens};
  const auto elements = tokens * in.info().hidden;
  op.work.bytes = 2 * Bytes(residual) + Bytes(delta) + OutBytes(in, elements);
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
    OpChecked checked = Compare(out.values(), expected, in.bound(false));
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
  op.work.bytes = static_cast<double>(first.bytes()) + Bytes(x) +
                  OutBytes(in, tokens * n) * (names.is_logits && in.is_on_gpu() ? 2 : 1);
  op.work.flops =
      2.0 * static_cast<double>(tokens) * static_cast<double>(n) * static_cast<double>(k);
  auto last = std::make_shared<LastResult>();
  const bool is_logits = names.is_logits;
  op.calls = {.count = in.CallsFor(std::ssize(weights.adopted)),
              .run = [&in, x, weights, biases, is_logits, last](int64_t copy) {
                in.NextCall();
                last->tensor = is_logits ? in.ops().Logits(x, weights.at(copy))
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
    return Compare(out.values(), shaped, in.bound(is_logits));
  };
  op.check = [check, last] { return check(last->tensor); };
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

// Choices of every copy of the router, where ops compute and on the host.
struct Choices {
  std::vector<Routing> placed, host;
  std::vector<std::vector<int32_t>> experts;
  std::vector<std::vector<float>> weights;
  double distinct = 0;  // experts, on average
};

Result<std::shared_ptr<Choices>> Choose(OpInputs& in, int64_t tokens, int64_t copies) {
  const WeightCopies routers = in.weights().Of("router"), biases = in.weights().Of("router_bias");
  const auto top_k = in.info().experts_per_token;
  ROSE_ASSIGN_OR_RETURN(const Tensor x, in.Activations("route", tokens, in.info().hidden));
  auto choices = std::make_shared<Choices>();
  for (int64_t i = 0; i < copies; ++i) {
    in.ops().BeginStep({});
    const Routing routing = in.ops().Route(x, routers.at(i), biases.at(i), static_cast<int>(top_k));
    const Tensor experts = in.ops().ToHost(routing.experts);
    const Tensor weights = in.ops().ToHost(routing.weights);
    choices->experts.emplace_back(experts.data<int32_t>(),
                                  experts.data<int32_t>() + experts.elements());
    choices->weights.emplace_back(weights.data<float>(),
                                  weights.data<float>() + weights.elements());
    choices->host.push_back({Tensor(choices->experts.back().data(), DType::kI32, {tokens, top_k}),
                             Tensor(choices->weights.back().data(), DType::kF32, {tokens, top_k})});
    choices->placed.push_back({in.meter().Place(choices->host.back().experts),
                               in.meter().Place(choices->host.back().weights)});
    const std::vector<int32_t>& chosen = choices->experts.back();
    choices->distinct +=
        static_cast<double>(std::set<int32_t>(chosen.begin(), chosen.end()).size()) /
        static_cast<double>(copies);
  }
  return choices;
}

// The choices of some rows of copy 0.
struct RowChoices {
  std::vector<int32_t> experts;
  std::vector<float> weights;
  Routing routing;
};

std::unique_ptr<RowChoices> ChoicesOf(const Choices& choices, const std::vector<int64_t>& rows) {
  auto some = std::make_unique<RowChoices>();
  const int64_t top_k = choices.host.front().experts.dim(1);
  for (int64_t row : rows) {
    for (int64_t i = row * top_k; i < (row + 1) * top_k; ++i) {
      some->experts.push_back(choices.experts.front()[i]);
      some->weights.push_back(choices.weights.front()[i]);
    }
  }
  some->routing = {Tensor(some->experts.data(), DType::kI32, {std::ssize(rows), top_k}),
                   Tensor(some->weights.data(), DType::kF32, {std::ssize(rows), top_k})};
  return some;
}

Result<OpCase> RouteCase(OpInputs& in, int64_t tokens) {
  ROSE_ASSIGN_OR_RETURN(const WeightCopies routers, in.weights().Matrices("router"));
  const WeightCopies biases = in.weights().Of("router_bias");
  const auto top_k = static_cast<int>(in.info().experts_per_token);
  ROSE_ASSIGN_OR_RETURN(const Tensor x, in.Activations("route", tokens, in.info().hidden));
  const Weight& first = routers.adopted.front();
  OpCase op{.op = "route", .tokens = tokens, .format = first.format.ToString()};
  op.work.bytes =
      static_cast<double>(first.bytes()) + Bytes(x) + 8.0 * static_cast<double>(tokens) * top_k;
  op.work.flops = 2.0 * static_cast<double>(x.elements()) * static_cast<double>(first.shape[0]);
  auto last = std::make_shared<Routing>();
  op.begin = [&in] { in.ops().BeginStep({}); };
  op.calls = {.count = in.CallsFor(std::ssize(routers.adopted)),
              .run = [&in, x, routers, biases, top_k, last](int64_t copy) {
                in.NextCall();
                *last = in.ops().Route(x, routers.at(copy), biases.at(copy), top_k);
              }};
  op.check = [&in, x, routers, biases, top_k, last, tokens]() -> Result<OpChecked> {
    const std::vector<int64_t> rows = SampleRows(tokens);
    HostRows sample(in.ops(), x, rows);
    const HostRows weights(in.ops(), last->weights, rows);
    const Tensor experts = in.ops().ToHost(last->experts);
    ROSE_ASSIGN_OR_RETURN(const Weight router, in.weights().Host(routers));
    ROSE_ASSIGN_OR_RETURN(const Weight bias, in.weights().Host(biases));
    CpuOps reference;
    const Routing expected = reference.Route(sample.tensor(), router, bias, top_k);
    OpChecked checked = Compare(weights.values(), expected.weights, in.bound(true));
    for (size_t r = 0; r < rows.size(); ++r) {
      const int32_t* const chosen = experts.data<int32_t>() + rows[r] * top_k;
      if (!std::equal(chosen, chosen + top_k,
                      expected.experts.data<int32_t>() + static_cast<int64_t>(r) * top_k))
        checked.one_minus_cos = kWrong;
    }
    return checked;
  };
  return op;
}

// gpt-oss has biases of experts, limits and an offset; Qwen has neither.
SwiGlu ActivationOf(const Weight& bias) {
  return bias.empty() ? SwiGlu() : SwiGlu{7.0f, 1.702f, 1.0f};
}

Result<OpCase> ExpertsCase(OpInputs& in, bool is_down, int64_t tokens) {
  const std::string name = is_down ? "down" : "gate_up";
  const WeightCopies stacks = in.weights().Of(name), biases = in.weights().Of(name + "_bias");
  const Weight& first = stacks.adopted.front();
  const int64_t top_k = in.info().experts_per_token, outputs = first.shape[1];
  ROSE_ASSIGN_OR_RETURN(const std::shared_ptr<Choices> choices,
                        Choose(in, tokens, std::ssize(stacks.adopted)));
  ROSE_ASSIGN_OR_RETURN(const Tensor flat,
                        in.Activations(name, is_down ? tokens * top_k : tokens, first.shape[2]));
  const Tensor x =
      is_down ? Tensor(flat.raw(), flat.dtype(), {tokens, top_k, first.shape[2]}) : flat;
  OpCase op{.op = "experts_" + name, .tokens = tokens, .format = first.format.ToString()};
  const auto experts = static_cast<double>(first.shape[0]);
  op.work.experts = choices->distinct;
  op.work.bytes = static_cast<double>(first.bytes()) * choices->distinct / experts + Bytes(x) +
                  OutBytes(in, is_down ? tokens * outputs : tokens * top_k * outputs / 2);
  op.work.flops = 2.0 * static_cast<double>(tokens * top_k) * static_cast<double>(outputs) *
                  static_cast<double>(first.shape[2]);
  auto last = std::make_shared<LastResult>();
  op.begin = [&in] { in.ops().BeginStep({}); };
  op.calls = {.count = in.CallsFor(std::ssize(stacks.adopted)),
              .run = [&in, x, stacks, biases, choices, is_down, last](int64_t copy) {
                in.NextCall();
                const Weight &stack = stacks.at(copy), &bias = biases.at(copy);
                const Routing& routing = choices->placed[copy % std::ssize(choices->placed)];
                last->tensor =
                    is_down ? in.ops().ExpertsDown(x, routing, stack, bias)
                            : in.ops().ExpertsGateUp(x, routing, stack, bias, ActivationOf(bias));
              }};
  op.check = [&in, x, stacks, biases, choices, is_down, last, tokens]() -> Result<OpChecked> {
    const std::vector<int64_t> rows = SampleRows(tokens);
    const HostRows out(in.ops(), last->tensor, rows);
    HostRows sample(in.ops(), x, rows);
    const std::unique_ptr<RowChoices> some = ChoicesOf(*choices, rows);
    ROSE_ASSIGN_OR_RETURN(const Weight stack, in.weights().Host(stacks, some->experts));
    ROSE_ASSIGN_OR_RETURN(const Weight bias, in.weights().Host(biases));
    // Row by row on as many processors.
    const int64_t width = std::ssize(out.values()) / std::ssize(rows);
    std::vector<float> values(out.values().size());
    ParallelFor(AvailableCpus(), std::ssize(rows), [&](int64_t r) {
      CpuOps reference;
      const Routing routing{RowOf(some->routing.experts, r), RowOf(some->routing.weights, r)};
      const Tensor row = RowOf(sample.tensor(), r);
      const Tensor one =
          is_down ? reference.ExpertsDown(row, routing, stack, bias)
                  : reference.ExpertsGateUp(row, routing, stack, bias, ActivationOf(bias));
      std::copy_n(one.data<float>(), width, values.data() + r * width);
    });
    const Tensor expected(values.data(), DType::kF32, {std::ssize(rows), width});
    return Compare(out.values(), expected, in.bound(false));
  };
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
  auto logits = std::make_shared<LastResult>();
  auto drawn = std::make_shared<std::vector<int32_t>>();
  OpCase op{.op = kind.op, .tokens = tokens};
  op.work.bytes = 4.0 * static_cast<double>(tokens * weight.shape[0]);
  op.begin = [&in, x, weight, logits] {
    in.ops().BeginStep({});
    logits->tensor = in.ops().Logits(x, weight);
  };
  op.calls = {
      .count = 2,
      .run = [&in, specs, logits](int64_t) { in.ops().draws()->Draw(logits->tensor, *specs); },
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
      const HostRows host(in.ops(), logits->tensor, {row});
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

Result<Tensor> OpInputs::Activations(const std::string& name, int64_t rows, int64_t cols) {
  Tensor& all = activations_[name];
  if (all.empty()) {
    // As many as the longest case will ask for; inputs of experts that have a row of each token's.
    const int64_t each = name == "down" ? info().experts_per_token : 1;
    const int64_t made = std::max(rows, most_tokens_ * each);
    const RandomRecipe recipe = BenchWeights::Activations(name, made, cols);
    if (is_on_gpu()) {
      ROSE_ASSIGN_OR_RETURN(const Weight values, ops().Generate(recipe));
      all = values.data;
    } else {
      HostRandomWeights memory;
      ROSE_ASSIGN_OR_RETURN(const Weight values, memory.Make(recipe, /*threads=*/1));
      std::vector<float>& floats = floats_.emplace_back(made * cols);
      for (size_t i = 0; i < floats.size(); ++i) floats[i] = ToFloat(values.data.data<Bf16>()[i]);
      all = Tensor(floats.data(), DType::kF32, {made, cols});
    }
  }
  ROSE_CHECK(rows <= all.dim(0) && cols == all.dim(1), name, ": ", rows, " of ", all.ToString());
  return Tensor(all.raw(), all.dtype(), {rows, cols});
}

Result<Tensor> OpInputs::Residual(int64_t rows) {
  const int64_t hidden = info().hidden;
  if (residual_.empty()) {
    HostRandomWeights memory;
    ROSE_ASSIGN_OR_RETURN(
        const Weight values,
        memory.Make(BenchWeights::Activations("residual", most_tokens_, hidden), /*threads=*/1));
    std::vector<float> floats(most_tokens_ * hidden);
    for (size_t i = 0; i < floats.size(); ++i) floats[i] = ToFloat(values.data.data<Bf16>()[i]);
    residual_ = meter_.Place(Tensor(floats.data(), DType::kF32, {most_tokens_, hidden}));
  }
  return Tensor(residual_.raw(), DType::kF32, {rows, hidden});
}

int64_t OpInputs::CallsFor(int64_t copies) const {
  constexpr int64_t kLeast = 8;
  if (!is_on_gpu()) return 1;
  return (std::max(kLeast, copies) + copies - 1) / copies * copies;
}

void OpInputs::NextCall(const Step& step) const {
  if (is_on_gpu()) {
    ops().BeginLayer();
  } else {
    ops().BeginStep(step);
  }
}

// style.md's bounds are those of tests/gpu: by what the result is rounded to. `fast` rounds
// operands.
double OpInputs::bound(bool is_f32) const {
  if (ops().kv_dtype() == DType::kBf16 && !is_on_gpu()) return 1e-4;
  return is_f32 || !is_on_gpu() ? 1e-6 : 1e-5;
}

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

#include "bench/ops_experts.h"

#include <algorithm>
#include <set>

#include "base/cpu.h"
#include "base/parallel_for.h"
#include "bench/ops_check.h"
#include "ops/cpu/cpu_ops.h"

namespace rose {
namespace {

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

// gpt-oss has biases of experts, limits and an offset; Qwen has neither.
SwiGlu ActivationOf(const Weight& bias) {
  return bias.empty() ? SwiGlu() : SwiGlu{7.0f, 1.702f, 1.0f};
}

}  // namespace

Result<OpCase> RouteCase(OpInputs& in, int64_t tokens) {
  ROSE_ASSIGN_OR_RETURN(const WeightCopies routers, in.weights().Matrices("router"));
  const WeightCopies biases = in.weights().Of("router_bias");
  const auto top_k = static_cast<int>(in.info().experts_per_token);
  ROSE_ASSIGN_OR_RETURN(const Tensor x, in.Activations("route", tokens, in.info().hidden));
  const Weight& first = routers.adopted.front();
  OpCase op{.op = "route", .tokens = tokens, .format = first.format.ToString()};
  op.work.bytes =
      static_cast<double>(first.bytes()) + BytesOf(x) + 8.0 * static_cast<double>(tokens) * top_k;
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
    OpChecked checked = CompareRows(weights.values(), expected.weights, in.bound(true));
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
  op.work.bytes = static_cast<double>(first.bytes()) * choices->distinct / experts + BytesOf(x) +
                  in.OutBytes(is_down ? tokens * outputs : tokens * top_k * outputs / 2);
  op.work.flops = 2.0 * static_cast<double>(tokens * top_k) * static_cast<double>(outputs) *
                  static_cast<double>(first.shape[2]);
  auto last = std::make_shared<Tensor>();
  op.begin = [&in] { in.ops().BeginStep({}); };
  op.calls = {.count = in.CallsFor(std::ssize(stacks.adopted)),
              .run = [&in, x, stacks, biases, choices, is_down, last](int64_t copy) {
                in.NextCall();
                const Weight &stack = stacks.at(copy), &bias = biases.at(copy);
                const Routing& routing = choices->placed[copy % std::ssize(choices->placed)];
                *last = is_down
                            ? in.ops().ExpertsDown(x, routing, stack, bias)
                            : in.ops().ExpertsGateUp(x, routing, stack, bias, ActivationOf(bias));
              }};
  op.check = [&in, x, stacks, biases, choices, is_down, last, tokens]() -> Result<OpChecked> {
    const std::vector<int64_t> rows = SampleRows(tokens);
    const HostRows out(in.ops(), *last, rows);
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
    return CompareRows(out.values(), expected, in.bound(false));
  };
  return op;
}

}  // namespace rose

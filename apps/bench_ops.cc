// rose bench ops: the time of every op on the weights of one layer, and what it moves and
// multiplies.
#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <functional>
#include <list>
#include <numeric>
#include <random>

#include "bench.h"
#include "commands.h"

namespace rose {
namespace {

using Clock = std::chrono::steady_clock;

struct OpsOptions {
  ModelOptions model;
  std::vector<int64_t> rows = {1, 16, 512};
  int64_t context = 3000;  // keys before the rows
  int64_t ms = 200;        // time spent on every op
};

struct OpCase {
  const char* name;
  double bytes = 0;  // of weights or cache that must be read
  double flops = 0;
  std::function<void()> run;
};

double MedianUs(const std::function<void()>& run, int64_t ms) {
  std::vector<double> times;
  const auto end = Clock::now() + std::chrono::milliseconds(ms);
  do {
    const auto begin = Clock::now();
    run();
    times.push_back(std::chrono::duration<double, std::micro>(Clock::now() - begin).count());
  } while (Clock::now() < end || times.size() < 5);
  std::nth_element(times.begin(), times.begin() + std::ssize(times) / 2, times.end());
  return times[times.size() / 2];
}

// Inputs of all ops for a number of rows, on the weights of layer 1 (a full one in gpt-oss).
class LayerOps {
 public:
  LayerOps(const LoadedModel& loaded, int64_t rows, int64_t context)
      : loaded_(loaded), ops_(*loaded.ops), rows_(rows), context_(context) {
    const KvLayout& kv = loaded.model->info().kv;
    const int64_t qkv = W("qkv").shape[0];
    shape_ = {qkv / kv.head_dim - 2 * kv.kv_heads, kv.kv_heads, kv.head_dim};
    norms_ = {W("q_norm"), W("k_norm"), 1e-5f};
    top_k_ = loaded.model->info().experts_per_token;
    x_ = Random({rows, loaded.model->info().hidden});
    qkv_ = Random({rows, qkv});
    attended_ = Random({rows, shape_.heads * shape_.head_dim});
    rope_ = {std::vector<float>(shape_.head_dim / 2, 0.01f), 1.0f};
    pages_.resize((context + rows) / KvLayout::kPageSize + 1);
    std::iota(pages_.begin(), pages_.end(), 0);
    const KvLayout layout{
        .groups = {{.window = 0, .layers = {0}}}, .kv_heads = kv.kv_heads, .head_dim = kv.head_dim};
    cache_ = ops_.AllocateKv(layout, {std::ssize(pages_)}).value();
    tokens_.assign(rows, 0);
    positions_.resize(rows);
    std::iota(positions_.begin(), positions_.end(), static_cast<int32_t>(context));
    seqs_ = {{.first_row = 0, .rows = rows, .start = context, .pages = {pages_}}};
  }
  LayerOps(const LayerOps&) = delete;

  void BeginStep() { ops_.BeginStep({tokens_, positions_, seqs_, {}}); }

  std::vector<OpCase> Cases() {
    const Weight& up = W("gate_up");
    const Weight& down = W("down");
    const Step step{tokens_, positions_, seqs_, {}};
    ops_.BeginStep(step);
    const Routing routing = ops_.Route(x_, W("router"), W("router_bias"), static_cast<int>(top_k_));
    const double experts = static_cast<double>(up.shape[0]);
    // Of the experts, those that at least one of the rows chose, if choices were even.
    const double used =
        experts *
        (1 - std::pow(1 - static_cast<double>(top_k_) / experts, static_cast<double>(rows_))) /
        experts;
    const double keys = static_cast<double>(context_) + static_cast<double>(rows_ + 1) / 2;
    const double r = static_cast<double>(rows_);
    const auto gemm = [&](const char* name, const Tensor& x, const Weight& w) {
      return OpCase{name, static_cast<double>(w.bytes()), 2 * r * Elements(w),
                    [this, &x, &w] { ops_.Gemm(x, w, {}); }};
    };
    // The routing must outlive the op set's arena, which every run clears.
    chosen_ = Copy<int32_t>(routing.experts);
    weights_ = Copy<float>(routing.weights);
    routing_ = {Tensor(chosen_.data(), DType::kI32, {rows_, top_k_}),
                Tensor(weights_.data(), DType::kF32, {rows_, top_k_})};
    inner_ = Random({rows_, top_k_, down.shape[2]});
    const auto all = [&](const Weight& w) { return static_cast<double>(w.bytes()) * used; };
    return {
        {"rms_norm", 0, 0, [&] { ops_.RmsNorm(x_, W("attn_norm"), 1e-5f); }},
        gemm("qkv", x_, W("qkv")),
        {"rope_append_kv", 0, 0,
         [this, step] { ops_.RopeAppendKv(qkv_, shape_, norms_, rope_, cache_.layers[0], step); }},
        {"attention",
         2 * keys *
             static_cast<double>(shape_.kv_heads * shape_.head_dim * ElementBytes(ops_.kv_dtype())),
         4 * r * keys * static_cast<double>(shape_.heads * shape_.head_dim),
         [this, step] { ops_.PagedAttention(qkv_, shape_, W("sinks"), cache_.layers[0], step); }},
        gemm("o", attended_, W("o")),
        {"route", 0, 2 * r * Elements(W("router")),
         [&] { ops_.Route(x_, W("router"), W("router_bias"), static_cast<int>(top_k_)); }},
        {"experts_gate_up", all(up), 2 * r * static_cast<double>(top_k_) * Elements(up) / experts,
         [&] { ops_.ExpertsGateUp(x_, routing_, up, W("gate_up_bias"), {}); }},
        {"experts_down", all(down), 2 * r * static_cast<double>(top_k_) * Elements(down) / experts,
         [&] { ops_.ExpertsDown(inner_, routing_, down, W("down_bias")); }},
        gemm("lm_head", x_, Head()),
    };
  }

 private:
  // Empty if the model has no such weight: a bias, sinks, norms of heads.
  const Weight& W(const char* name) const {
    static const Weight none;
    const int layer = loaded_.model->info().layers > 1 ? 1 : 0;
    const auto weight = loaded_.weights.find(StrCat("layers.", layer, ".", name));
    return weight == loaded_.weights.end() ? none : weight->second;
  }
  const Weight& Head() const {
    const auto head = loaded_.weights.find("lm_head");
    return head == loaded_.weights.end() ? loaded_.weights.find("embedding")->second : head->second;
  }
  static double Elements(const Weight& w) {
    double n = 1;
    for (int64_t size : w.shape) n *= static_cast<double>(size);
    return n;
  }
  template <typename T>
  static std::vector<T> Copy(const Tensor& tensor) {
    return {tensor.data<T>(), tensor.data<T>() + tensor.elements()};
  }
  Tensor Random(std::initializer_list<int64_t> shape) {
    int64_t n = 1;
    for (int64_t size : shape) n *= size;
    std::vector<float>& values = memory_.emplace_back(n);
    for (float& value : values) value = normal_(random_);
    return Tensor(values.data(), DType::kF32, shape);
  }

  const LoadedModel& loaded_;
  OpSet& ops_;
  const int64_t rows_, context_;
  AttentionShape shape_;
  HeadNorms norms_;
  int64_t top_k_ = 0;
  std::mt19937 random_{1};
  std::normal_distribution<float> normal_;
  std::list<std::vector<float>> memory_;
  Tensor x_, qkv_, attended_, inner_;
  std::vector<int32_t> chosen_;
  std::vector<float> weights_;
  Routing routing_;
  Rope rope_;
  std::vector<int32_t> pages_, tokens_, positions_;
  KvCache cache_;
  std::vector<StepSeq> seqs_;
};

Status RunOps(const OpsOptions& options) {
  ROSE_ASSIGN_OR_RETURN(const LoadedModel loaded, LoadModelWithBar(options.model));
  if (loaded.ops->draws() != nullptr) {
    return Unsupported("rose bench ops times ops in host memory; use --device cpu");
  }
  const std::string machine = MachineJson(loaded, options.model);
  for (int64_t rows : options.rows) {
    LayerOps layer(loaded, rows, options.context);
    for (const OpCase& op : layer.Cases()) {
      const double us = MedianUs(
          [&] {
            layer.BeginStep();
            op.run();
          },
          options.ms);
      std::printf(
          "{\"bench\": \"ops\", %s, \"op\": \"%s\", \"rows\": %lld, \"us\": %.1f, "
          "\"gb_per_s\": %.2f, \"gflop_per_s\": %.1f}\n",
          machine.c_str(), op.name, static_cast<long long>(rows), us, op.bytes / us * 1e-3,
          op.flops / us * 1e-3);
      std::fflush(stdout);
    }
  }
  return {};
}

}  // namespace

void AddBenchOps(CLI::App& bench, int& exit_code) {
  auto options = std::make_shared<OpsOptions>();  // shared with the callback
  CLI::App* command = bench.add_subcommand("ops", "Time of every op on one layer's weights");
  AddModelOptions(*command, options->model);
  command->add_option("--rows", options->rows, "Numbers of rows, each measured")
      ->delimiter(',')
      ->check(CLI::Range(1, 1 << 16))
      ->capture_default_str();
  command->add_option("--context", options->context, "Keys before the rows, for attention")
      ->check(CLI::Range(0, 1 << 20))
      ->capture_default_str();
  command->add_option("--ms", options->ms, "Milliseconds spent on every op")
      ->check(CLI::Range(1, 60000))
      ->capture_default_str();
  command->callback([options, &exit_code] {
    if (const Status status = RunOps(*options); !status.ok()) exit_code = ReportFailure(status);
  });
}

}  // namespace rose

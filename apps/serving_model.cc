#include "serving_model.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <filesystem>
#include <future>
#include <system_error>
#include <utility>

#include "base/file.h"
#include "base/json.h"
#include "engine/engine_limits.h"
#include "engine/model_executor.h"
#include "engine/validate.h"
#include "json_lines.h"
#include "models/gpu_budget.h"
#include "models/warm_up.h"
#include "ops/cuda/cuda_ops.h"

namespace rose {
namespace {

constexpr int64_t kDefaultKvBytes = int64_t{2} << 30;

// CUDA's own memory for a process is less. What is in use beyond it is others'.
constexpr int64_t kMostContextBytes = int64_t{1} << 30;

// Memory of the GPU before the model was loaded.
struct GpuBefore {
  int64_t free = 0;
  int64_t context = 0;  // that the process had by then
};

GpuBefore AskGpu() {
  return {.free = FreeCudaBytes(), .context = std::min(UsedCudaBytes(), kMostContextBytes)};
}

// Memory for the KV cache, after all else is there.
Result<int64_t> KvBytes(const ServingOptions& options, const OpSet& ops, const GpuBefore& before) {
  const int64_t asked = static_cast<int64_t>(options.kv_bytes);
  if (!IsOnGpu(ops)) {
    const int64_t free_bytes =
        static_cast<int64_t>(sysconf(_SC_AVPHYS_PAGES)) * sysconf(_SC_PAGESIZE);
    return asked > 0 ? asked : std::min(kDefaultKvBytes, free_bytes / 4);
  }
  const int64_t free_bytes = FreeCudaBytes();
  return GpuKvBytes({.used = before.free - free_bytes + before.context,
                     .free = free_bytes,
                     .allowed = static_cast<int64_t>(options.gpu_bytes),
                     .kv_asked = asked});
}

// Takes a GPU's memory for the largest steps that `config` allows.
Status WarmUpGpu(const Model& model, OpSet& ops, const EngineConfig& config) {
  const int64_t context = config.max_context > 0 ? config.max_context : model.info().max_positions;
  return WarmUp(model, ops,
                {.rows = config.max_step_tokens,
                 .sequences = std::min(config.max_running, config.max_step_tokens),
                 .context = std::min(context, model.info().max_positions),
                 .logit_rows = std::min(config.max_running, config.max_step_tokens)});
}

// One number of generation_config.json, within a range; an absent or null key changes nothing.
template <typename T>
Status ReadNumber(const JsonValue& config, std::string_view key, double low, double high, T& out) {
  const JsonValue* value = config.Find(key);
  if (value == nullptr || value->is_null()) return Status();
  const auto number = value->AsDouble();
  if (!number || *number < low || *number > high) {
    return InvalidArgument("generation_config.json: ", key, " is ", WriteJson(*value),
                           "; expected a number from ", low, " to ", high);
  }
  out = static_cast<T>(*number);
  return Status();
}

// What the model's makers recommend where a request says nothing.
Result<SamplingParams> ReadDefaults(const std::string& folder) {
  SamplingParams defaults;
  const std::string path = folder + "/generation_config.json";
  std::error_code error;
  if (!std::filesystem::exists(path, error)) return defaults;
  ROSE_ASSIGN_OR_RETURN(const std::string text, ReadFile(path, /*max_bytes=*/1'000'000));
  const auto config = ParseJson(text);
  if (!config.ok()) return InvalidArgument(path, ": ", config.status().message());
  ROSE_RETURN_IF_ERROR(ReadNumber(*config, "temperature", 0, 2, defaults.temperature));
  ROSE_RETURN_IF_ERROR(ReadNumber(*config, "top_p", 1e-9, 1, defaults.top_p));
  ROSE_RETURN_IF_ERROR(ReadNumber(*config, "top_k", 0, 1e6, defaults.top_k));
  ROSE_RETURN_IF_ERROR(ReadNumber(*config, "min_p", 0, 1, defaults.min_p));
  ROSE_RETURN_IF_ERROR(
      ReadNumber(*config, "repetition_penalty", 1e-9, 2, defaults.repetition_penalty));
  return defaults;
}

// `tokenizer` as FindTokenizer gives it.
Status NotItsTokenizer(const std::string& tokenizer, std::string_view why) {
  return InvalidArgument(tokenizer, ": the tokenizer is not this model's, whose tokenizer.json ",
                         "belongs beside its config.json: ", why);
}

// A context that was asked for and cannot be had is refused, not made smaller.
Status CheckContext(const ServingOptions& options, const ModelInfo& info,
                    const std::vector<int64_t>& pages) {
  const int64_t wanted = options.engine.max_context;
  if (wanted > info.max_positions) {
    return InvalidArgument("--max-context ", wanted, ": the model has ", info.max_positions,
                           " positions");
  }
  std::vector<PageGroup> groups;
  for (size_t g = 0; g < pages.size(); ++g)
    groups.push_back({.window = info.kv.groups[g].window, .pages = pages[g]});
  const RequestLimits limits{
      .vocab = info.vocab, .page_size = KvLayout::kPageSize, .groups = groups};
  const int64_t largest = LargestContext(limits, info.max_positions);
  if (wanted <= largest) return Status();
  return InvalidArgument("--max-context ", wanted, ": the KV cache has room for ", largest,
                         " tokens; give it more --kv-memory");
}

std::string Megabytes(int64_t bytes) {
  std::array<char, 40> text{};
  std::snprintf(text.data(), text.size(), "%.1f MB", static_cast<double>(bytes) / 1e6);
  return text.data();
}

std::string Summary(const ServingModel& model, const ServingOptions& options,
                    const EngineConfig& config, int64_t kv_bytes) {
  const ModelInfo& info = model.loaded.model->info();
  int64_t weight_bytes = 0;
  for (const auto& [name, weight] : model.loaded.weights) weight_bytes += weight.bytes();
  const EngineStats stats = model.engine->stats();
  const int64_t longest = PeakBytes(GroupCosts(info.kv, model.loaded.ops->kv_dtype()),
                                    KvLayout::kPageSize, model.engine->max_context(), /*chunk=*/1);
  const std::string host =
      stats.host_pages_total == 0
          ? ""
          : StrCat(" and ", stats.host_pages_total, " of its host tier within ",
                   Megabytes(static_cast<int64_t>(options.host_cache_bytes)));
  return StrCat(model.name, ": ", info.architecture, ", ", info.layers, " layers, vocabulary of ",
                info.vocab, ", weights of ", Megabytes(weight_bytes), ", ", options.model.precision,
                IsOnGpu(*model.loaded.ops) ? " on the GPU" : " on the CPU", "\ncontext of ",
                model.engine->max_context(), " tokens (", Megabytes(longest), "), KV cache of ",
                stats.pages_total, " pages within ", Megabytes(kv_bytes), host, ", up to ",
                config.max_running, " answers at a time");
}

}  // namespace

void AddServingOptions(CLI::App& command, ServingOptions& options) {
  AddModelOptions(command, options.model);
  command
      .add_option("--max-context", options.engine.max_context,
                  "Tokens of prompt and answer together (default: what model and memory allow)")
      ->check(CLI::Range(int64_t{1}, int64_t{1} << 31));
  command
      .add_option("--kv-memory", options.kv_bytes,
                  "Memory of the KV cache, such as 512M or 4G (default: on the CPU 2G, or a "
                  "quarter of what is free; on a GPU all that is left)")
      ->transform(CLI::AsSizeValue(/*kb_is_1000=*/false))
      ->check(CLI::Range(uint64_t{1}, uint64_t{1} << 50));
  command
      .add_option("--gpu-memory", options.gpu_bytes,
                  "Memory of the GPU that the process may take in all, such as 80G "
                  "(default: what is free); refused on a CPU")
      ->transform(CLI::AsSizeValue(/*kb_is_1000=*/false))
      ->check(CLI::Range(uint64_t{1}, uint64_t{1} << 50));
  command
      .add_option("--max-step-tokens", options.step_tokens,
                  "Tokens computed in one step, of prompts and answers together (default: 512 on "
                  "the CPU, 8192 on a GPU)")
      ->check(CLI::Range(int64_t{1}, int64_t{1} << 20));
}

Result<ServingModel> LoadServingModel(const ServingOptions& options) {
  ROSE_ASSIGN_OR_RETURN(const std::string folder, FindTokenizer(options.model));
  // A GPU takes about as long to begin with as a tokenizer.
  auto creating_ops =
      std::async(std::launch::async, [&options] { return CreateOps(options.model); });
  std::unique_ptr<ProgressBar> bar;  // outlives the loading
  ServingModel model;
  ROSE_ASSIGN_OR_RETURN(model.tokenizer, OpenTokenizer(folder));
  ROSE_ASSIGN_OR_RETURN(model.defaults, ReadDefaults(folder));
  ROSE_ASSIGN_OR_RETURN(std::unique_ptr<OpSet> ops, creating_ops.get());
  if (options.gpu_bytes > 0 && !IsOnGpu(*ops)) {
    // Who bounds a GPU's memory expects one. A server on the CPU would only seem to work.
    return InvalidArgument("--gpu-memory: this computes on the CPU; leave it out, or use --device ",
                           "cuda, which says why if there is no GPU");
  }
  const GpuBefore before = AskGpu();
  // On a GPU what follows goes on while the weights are uploaded.
  ROSE_ASSIGN_OR_RETURN(model.loaded, StartLoadingWithBar(options.model, std::move(ops), bar));
  model.name = model.loaded.name;
  const Model& weights = *model.loaded.model;
  const bool is_on_gpu = IsOnGpu(*model.loaded.ops);
  EngineConfig config = options.engine;
  config.max_step_tokens =
      options.step_tokens > 0 ? options.step_tokens : DefaultStepTokens(*model.loaded.ops);
  ROSE_ASSIGN_OR_RETURN(const std::string format, ChatFormatOf(weights.info().architecture));
  auto chat_format = CreateChatFormat(format, *model.tokenizer);
  if (!chat_format.ok()) return NotItsTokenizer(folder, chat_format.status().message());
  model.format = std::move(chat_format).value();
  for (int32_t id : model.format->stop_ids()) {
    if (id >= weights.info().vocab) {
      return NotItsTokenizer(folder, StrCat("it ends an answer with id ", id, ", the model has ",
                                            weights.info().vocab, " ids"));
    }
  }
  if (is_on_gpu) ROSE_RETURN_IF_ERROR(WarmUpGpu(weights, *model.loaded.ops, config));
  ROSE_ASSIGN_OR_RETURN(const int64_t kv_bytes, KvBytes(options, *model.loaded.ops, before));
  ROSE_ASSIGN_OR_RETURN(const std::vector<int64_t> pages,
                        PlanKvPages(weights, *model.loaded.ops, config, kv_bytes));
  ROSE_RETURN_IF_ERROR(CheckContext(options, weights.info(), pages));
  std::vector<int64_t> host_pages;
  if (options.host_cache_bytes > 0) {
    if (!options.engine.prefix_cache) {
      return InvalidArgument(
          "--host-cache keeps pages of the prefix cache; leave --no-prefix-cache out");
    }
    ROSE_ASSIGN_OR_RETURN(host_pages,
                          PlanHostPages(weights.info().kv, model.loaded.ops->kv_dtype(),
                                        static_cast<int64_t>(options.host_cache_bytes)));
  }
  ROSE_ASSIGN_OR_RETURN(auto executor,
                        CreateExecutor(weights, *model.loaded.ops, pages, host_pages));
  executor->Prepare(std::min(config.max_running, config.max_step_tokens));
  ROSE_RETURN_IF_ERROR(FinishLoading(model.loaded));
  bar.reset();
  model.max_requests = options.engine.max_running + options.engine.max_waiting;
  model.engine = CreateEngine(config, std::move(executor), CreatePlainDecoder());
  model.summary = Summary(model, options, config, kv_bytes);
  return model;
}

Result<ApiContext> MakeApiContext(ServingModel& model, const std::vector<std::string>& names) {
  if (HasGrammars()) {
    ROSE_ASSIGN_OR_RETURN(model.grammars, GrammarCompiler::Create(*model.tokenizer));
  }
  ApiContext context;
  context.models = names.empty() ? std::vector{model.name} : names;
  context.format = model.format.get();
  context.tokenizer = model.tokenizer.get();
  context.max_context = model.engine->max_context();
  context.vocab = model.engine->vocab();
  context.max_requests = model.max_requests;
  context.grammars = model.grammars.get();
  context.defaults = model.defaults;
  return context;
}

}  // namespace rose

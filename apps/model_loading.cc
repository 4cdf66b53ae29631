#include "model_loading.h"

#include <charconv>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <system_error>
#include <thread>

#include "base/cpu.h"
#include "base/env.h"
#include "base/file.h"
#include "base/utf8.h"
#include "engine/engine.h"
#include "models/model.h"
#include "not_empty.h"
#include "ops/cpu_fast/cpu_fast_ops.h"
#include "ops/cuda/cuda_ops.h"

namespace rose {
namespace {

constexpr const char* kShippedModel = "rosebud";

// Of ROSE_HANG_SECONDS.
Result<std::chrono::milliseconds> HangLimitOf(const std::string& text) {
  constexpr int64_t kMost = 1'000'000;
  if (text.empty()) return std::chrono::milliseconds(CudaConfig().hang_limit);
  int64_t seconds = -1;
  const char* end = text.data() + text.size();
  const auto [parsed, error] = std::from_chars(text.data(), end, seconds);
  if (error != std::errc() || parsed != end || seconds < 0 || seconds > kMost) {
    return InvalidArgument("ROSE_HANG_SECONDS is '", text, "'; give seconds, 0 to ", kMost,
                           "; 0 = wait for ever");
  }
  return std::chrono::milliseconds(std::chrono::seconds(seconds));
}

// NOTE: nothing is destroyed and no buffer written: what frees memory of a GPU that hangs waits for
// ever, and so might whoever holds the lock of a stream. In the second before the end the engine,
// whose wait has thrown, sends its requests their error. It ends also if nobody reads the report.
void EndHung(const std::string& report) {
  std::thread end([] {
    std::this_thread::sleep_for(std::chrono::seconds(1));
    std::_Exit(1);
  });
  std::fprintf(stderr, "rose: %s\n", Printable(report, "\n\t").c_str());
  end.join();
}

// Whether its tokenizer is the built-in one: OpenAI's folder `original` has none, nor has
// make-checkpoint's.
bool IsPublishedGptOss(const std::string& folder) {
  constexpr int64_t kMaxBytes = 1'000'000, kVocabulary = 201'088;
  for (const char* name : {"/config.json", "/original/config.json"}) {
    const Result<std::string> config = ReadFile(folder + name, kMaxBytes);
    if (!config.ok()) continue;
    const Result<std::unique_ptr<Model>> model = CreateModel(*config);
    return model.ok() && (*model)->info().architecture == "GptOssForCausalLM" &&
           (*model)->info().vocab == kVocabulary;
  }
  return false;
}

}  // namespace

void AddModelOptions(CLI::App& command, ModelOptions& options) {
  command
      .add_option("DIR", options.folder,
                  "Folder of the checkpoint (default: the shipped model, rosebud)")
      ->check(NotEmptyModel());
  command
      .add_option("--precision", options.precision,
                  "exact: f32 throughout on a CPU, bf16 with f32 sums on a GPU. fast: the KV cache "
                  "is bf16 (CPU)")
      ->check(CLI::IsMember({"exact", "fast"}))
      ->capture_default_str();
  command
      .add_option("--device", options.device, "Where to compute; auto: on a GPU if there is one")
      ->check(CLI::IsMember({"cpu", "cuda", "auto"}))
      ->capture_default_str();
  command.add_option("--threads", options.threads, "Threads on a CPU (default: all processors)")
      ->check(CLI::Range(1, 1024));
  command
      .add_option("--load-format", options.load_format,
                  "auto: what the folder has. random: weights are made up; DIR needs a config.json "
                  "alone")
      ->check(CLI::IsMember({"auto", "random"}))
      ->capture_default_str();
  command
      .add_option("--like", options.random.like,
                  "Make up weights of the size of a model, instead of DIR: 20b, 120b, a "
                  "config.json, or a folder that has one")
      ->check(NotEmpty("a model is needed"));
  AddRandomOptions(command, "--weights-seed", options.random);
}

Result<std::string> FindTokenizer(const ModelOptions& options) {
  namespace fs = std::filesystem;
  constexpr const char* kBuiltIn = "o200k_harmony";
  std::string folder = options.random.like;
  if (folder.empty()) {
    ROSE_ASSIGN_OR_RETURN(folder, FindModelFolder(options.folder));
  }
  std::error_code error;
  if (fs::is_regular_file(folder, error)) folder = fs::path(folder).parent_path() / ".";
  for (fs::directory_iterator entry(folder, error), end; !error && entry != end;
       entry.increment(error)) {
    const fs::path& path = entry->path();
    if (path.filename() == "tokenizer.json" || path.extension() == ".tiktoken") return folder;
  }
  return options.is_random() || IsPublishedGptOss(folder) ? kBuiltIn : folder;
}

Result<std::string> FindModelFolder(const std::string& given) {
  namespace fs = std::filesystem;
  std::error_code error;
  if (!given.empty()) {
    if (!fs::exists(given, error)) return NotFound(given, ": no such folder");
    if (!fs::is_directory(given, error)) {
      return InvalidArgument(given, ": expected the folder of a checkpoint, this is a file");
    }
    return given;
  }
  const fs::path program = fs::read_symlink("/proc/self/exe", error).parent_path();
  const fs::path places[] = {program / ".." / "models" / kShippedModel,
                             program / ".." / "share" / "rose" / "models" / kShippedModel,
                             fs::path(ROSE_SOURCE_DIR) / "models" / kShippedModel};
  std::string looked;
  for (const fs::path& place : places) {
    const fs::path folder = place.lexically_normal();
    if (fs::exists(folder / "config.json", error)) return folder.string();
    looked += StrCat(looked.empty() ? "" : ", ", folder.string());
  }
  return NotFound("the shipped model is not there (looked in ", looked,
                  "); name the folder of a checkpoint");
}

Result<std::unique_ptr<OpSet>> CreateOps(const ModelOptions& options) {
  if (options.device == "cuda" || (options.device == "auto" && IsCudaThere())) {
    if (options.precision == "fast") {
      return Unsupported("--precision fast: there is none on a GPU; use exact, or --device cpu");
    }
    if (options.threads > 0)
      std::fprintf(stderr, "rose: --threads is for a CPU; here the GPU computes\n");
    const Environment environment = ReadEnvironment();
    ROSE_ASSIGN_OR_RETURN(const auto hang_limit, HangLimitOf(environment.hang_seconds));
    return CreateCudaOps({.is_sync = environment.sync_ops,
                          .fault_at = environment.fault_at,
                          .hang_limit = hang_limit,
                          .on_hang = EndHung});
  }
  ROSE_ASSIGN_OR_RETURN(const CpuIsa isa, ChooseCpuIsa(ReadEnvironment().cpu_isa));
  const Precision precision = options.precision == "fast" ? Precision::kFast : Precision::kExact;
  return std::unique_ptr<OpSet>(std::make_unique<CpuFastOps>(
      CpuFastConfig{.threads = options.threads, .precision = precision, .isa = isa}));
}

namespace {

Result<LoadedModel> MakeModelWithBar(const ModelOptions& options, std::unique_ptr<OpSet> ops) {
  if (!options.folder.empty() && !options.random.like.empty())
    return InvalidArgument("give either DIR or --like, not both: each names a model");
  std::string like = options.random.like;
  if (like.empty()) {
    ROSE_ASSIGN_OR_RETURN(like, FindModelFolder(options.folder));
  }
  ROSE_ASSIGN_OR_RETURN(const LikeConfig config, FindLikeConfig(like));
  ProgressBar bar("making weights", stderr);
  return LoadRandomModel(StrCat(config.name, "-random"), config.json,
                         ToRandomOptions(options.random), std::move(ops),
                         [&](const LoadProgress& p) { bar.Update(p.done_bytes, p.total_bytes); });
}

}  // namespace

bool IsOnGpu(const OpSet& ops) {
  return ops.name() == "cuda";
}

int64_t DefaultStepTokens(const OpSet& ops) {
  constexpr int64_t kOnGpu = 8192;  // a GPU wants many at a time
  return IsOnGpu(ops) ? kOnGpu : EngineConfig().max_step_tokens;
}

Result<LoadedModel> LoadModelWithBar(const ModelOptions& options) {
  std::unique_ptr<ProgressBar> bar;
  ROSE_ASSIGN_OR_RETURN(std::unique_ptr<OpSet> ops, CreateOps(options));
  ROSE_ASSIGN_OR_RETURN(LoadedModel loaded, StartLoadingWithBar(options, std::move(ops), bar));
  ROSE_RETURN_IF_ERROR(FinishLoading(loaded));
  return loaded;
}

Result<LoadedModel> StartLoadingWithBar(const ModelOptions& options, std::unique_ptr<OpSet> ops,
                                        std::unique_ptr<ProgressBar>& bar) {
  if (options.is_random()) return MakeModelWithBar(options, std::move(ops));
  if (options.random != RandomChoice()) {
    return InvalidArgument(
        "--weights-seed, --routing and --experts say how weights are made up, "
        "and those of DIR are not: add --load-format random, or leave them out");
  }
  ROSE_ASSIGN_OR_RETURN(const std::string folder, FindModelFolder(options.folder));
  bar = std::make_unique<ProgressBar>("loading", stderr);
  return StartLoading(
      folder, std::move(ops), AvailableCpus(),
      [bar = bar.get()](const LoadProgress& p) { bar->Update(p.done_bytes, p.total_bytes); });
}

}  // namespace rose

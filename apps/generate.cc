// rose generate: continues a text or a list of token ids, without any chat format.
#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <deque>
#include <filesystem>
#include <limits>
#include <memory>
#include <mutex>
#include <system_error>

#include "commands.h"
#include "engine/model_executor.h"
#include "json_lines.h"
#include "model_loading.h"
#include "number_options.h"
#include "tokenizer/tokenizer.h"

namespace rose {
namespace {

struct GenerateOptions {
  ModelOptions model;
  std::string text;
  std::vector<int32_t> token_ids;
  int64_t max_tokens = 256;
  int64_t min_tokens = 0;
  std::vector<int32_t> stop_ids;
  SamplingParams sampling;
  std::optional<uint64_t> seed;
  bool json = false;
};

// Events from the engine's thread to this one.
class EventQueue {
 public:
  void Push(const TokenEvent& event) {
    std::lock_guard lock(mutex_);
    events_.push_back(event);
    filled_.notify_one();
  }
  TokenEvent Pop() {
    std::unique_lock lock(mutex_);
    filled_.wait(lock, [this] { return !events_.empty(); });
    TokenEvent event = std::move(events_.front());
    events_.pop_front();
    return event;
  }

 private:
  std::mutex mutex_;  // guards events_
  std::condition_variable filled_;
  std::deque<TokenEvent> events_;
};

// One positional argument alone is the text, unless token ids are given or it is a folder.
Status SortArguments(GenerateOptions& options) {
  std::error_code error;
  const bool only_one = !options.model.folder.empty() && options.text.empty();
  if (only_one && options.token_ids.empty() &&
      !std::filesystem::is_directory(options.model.folder, error)) {
    std::swap(options.text, options.model.folder);
  }
  if (options.text.empty() == options.token_ids.empty()) {
    return InvalidArgument("give either a text or --token-ids to continue");
  }
  return Status();
}

// The tokens at which a text ends, as far as the tokenizer has them.
std::vector<int32_t> EndTokens(const Tokenizer& tokenizer) {
  std::vector<int32_t> ids;
  for (const char* name : {"<|return|>", "<|call|>", "<|im_end|>", "<|endoftext|>"}) {
    if (const auto id = tokenizer.SpecialId(name)) ids.push_back(*id);
  }
  return ids;
}

Result<std::unique_ptr<Engine>> StartEngine(const LoadedModel& loaded, const Request& request) {
  const int64_t context = std::ssize(request.prompt) + std::max<int64_t>(1, request.max_tokens);
  EngineConfig config;
  config.max_running = 1;
  config.max_context = std::min(context, loaded.model->info().max_positions);
  ROSE_ASSIGN_OR_RETURN(
      const std::vector<int64_t> pages,
      PlanKvPages(*loaded.model, *loaded.ops, config, std::numeric_limits<int64_t>::max()));
  ROSE_ASSIGN_OR_RETURN(auto executor, CreateExecutor(*loaded.model, *loaded.ops, pages));
  return CreateEngine(config, std::move(executor), CreatePlainDecoder());
}

void PrintJson(const std::vector<int32_t>& ids) {
  std::string out;
  for (int32_t id : ids) out += StrCat(out.empty() ? "" : ", ", id);
  std::printf("{\"token_ids\": [%s]}\n", out.c_str());
}

// Prints what comes as it comes: text where there is a tokenizer, else ids.
Status PrintAnswer(EventQueue& events, const Tokenizer* tokenizer, bool json) {
  const auto start = std::chrono::steady_clock::now();
  std::vector<int32_t> ids;
  Utf8Stream utf8;
  TokenEvent event;
  do {
    event = events.Pop();
    for (const SampledToken& token : event.tokens) {
      ids.push_back(token.id);
      if (json) continue;
      if (tokenizer == nullptr) {
        std::printf("%s%d", ids.size() == 1 ? "" : " ", token.id);
      } else if (event.stop_id != token.id) {
        std::fputs(utf8.Push(tokenizer->Bytes(token.id)).c_str(), stdout);
      }
    }
    std::fflush(stdout);
  } while (event.finish == FinishReason::kNone);
  if (event.finish == FinishReason::kError) return Status(StatusCode::kInternal, event.error);
  if (json) {
    PrintJson(ids);
    return Status();
  }
  std::printf("%s\n", utf8.Finish().c_str());
  const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
  std::fprintf(stderr, "%zu tokens (%s), %.1f tokens/s\n", ids.size(),
               event.finish == FinishReason::kStop ? "stop" : "length",
               static_cast<double>(ids.size()) / seconds.count());
  return Status();
}

Status RunGenerate(GenerateOptions options) {
  ROSE_RETURN_IF_ERROR(SortArguments(options));
  std::unique_ptr<Tokenizer> tokenizer;
  Request request;
  request.prompt = options.token_ids;
  request.stop_ids = options.stop_ids;
  if (!options.text.empty()) {
    ROSE_ASSIGN_OR_RETURN(const std::string folder, FindTokenizer(options.model));
    ROSE_ASSIGN_OR_RETURN(tokenizer, OpenTokenizer(folder));
    request.prompt = tokenizer->Encode(options.text);
    if (request.stop_ids.empty()) request.stop_ids = EndTokens(*tokenizer);
  }
  ROSE_ASSIGN_OR_RETURN(const LoadedModel loaded, LoadModelWithBar(options.model));
  request.max_tokens = options.max_tokens;
  request.min_tokens = options.min_tokens;
  request.sampling = options.sampling;
  request.sampling.seed = options.seed;
  EventQueue events;
  request.on_event = [&events](const TokenEvent& event) { events.Push(event); };
  ROSE_ASSIGN_OR_RETURN(const std::unique_ptr<Engine> engine, StartEngine(loaded, request));
  ROSE_ASSIGN_OR_RETURN(const RequestId id, engine->Submit(std::move(request)));
  (void)id;
  return PrintAnswer(events, tokenizer.get(), options.json);
}

void AddSamplingOptions(CLI::App& command, GenerateOptions& options) {
  SamplingParams& p = options.sampling;
  command.add_option("--temperature", p.temperature, "0 = always the most likely token")
      ->capture_default_str();
  command.add_option("--top-p", p.top_p, "Share of probability to draw from")
      ->capture_default_str();
  command.add_option("--top-k", p.top_k, "Number of tokens to draw from; 0 = all")
      ->capture_default_str();
  command.add_option("--min-p", p.min_p, "Least probability, as a share of the largest")
      ->capture_default_str();
  command.add_option("--presence-penalty", p.presence_penalty)->capture_default_str();
  command.add_option("--frequency-penalty", p.frequency_penalty)->capture_default_str();
  command.add_option("--repetition-penalty", p.repetition_penalty)->capture_default_str();
  AddSeed(command, options.seed);
}

}  // namespace

void AddGenerate(CLI::App& app, int& exit_code) {
  auto options = std::make_shared<GenerateOptions>();  // shared with the callback
  CLI::App* command = app.add_subcommand("generate", "Continue a text or a list of token ids");
  AddModelOptions(*command, options->model);
  command->add_option("TEXT", options->text, "The text to continue, as plain text");
  AddNumberList(*command, "--token-ids", options->token_ids,
                "Token ids to continue, instead of a text");
  command->add_option("--max-tokens", options->max_tokens, "Most tokens to generate")
      ->capture_default_str();
  command->add_option("--min-tokens", options->min_tokens, "No stop id before this many tokens")
      ->capture_default_str();
  AddNumberList(
      *command, "--stop-ids", options->stop_ids,
      "Token ids that end the answer (default: the tokenizer's end tokens for a text, none "
      "for token ids)");
  AddSamplingOptions(*command, *options);
  command->add_flag("--json", options->json, "Write {\"token_ids\": [...]} on standard output");
  command->footer(
      "Examples:\n"
      "  rose generate \"Once upon a time\" --max-tokens 50\n"
      "  rose generate models/rosebud \"2 + 2 =\" --temperature 0\n"
      "  rose generate models/rosebud --token-ids 1,2,3 --max-tokens 8 --temperature 0 --json");
  command->callback([options, &exit_code] {
    if (const Status status = RunGenerate(*options); !status.ok()) {
      exit_code = ReportFailure(status);
    }
  });
}

}  // namespace rose

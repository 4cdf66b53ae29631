// rose render: what a request becomes before the model reads it, as token ids and as text.
#include <chrono>
#include <ctime>
#include <memory>
#include <variant>

#include "api/chat_completions.h"
#include "chat/harmony_json.h"
#include "commands.h"
#include "grammar/compiler.h"
#include "json_lines.h"
#include "not_empty.h"

namespace rose {
namespace {

struct RenderOptions {
  std::string model = "o200k_harmony";
  std::string date;
  bool messages = false;
};

std::string Rendered(const std::vector<int32_t>& ids, const Tokenizer& tokenizer) {
  std::string out = "{\"token_ids\": " + TokenIdsToJson(ids) + ", \"text\": ";
  AppendJsonString(out, DecodeValid(tokenizer, ids));
  return out + "}";
}

Result<std::string> RenderMessages(std::string_view line, const Tokenizer& tokenizer) {
  ROSE_ASSIGN_OR_RETURN(const HarmonyIds ids, FindHarmonyIds(tokenizer));
  ROSE_ASSIGN_OR_RETURN(const JsonValue json, ParseJson(line));
  ROSE_ASSIGN_OR_RETURN(const HarmonyRendering job, HarmonyRenderingFromJson(json));
  ROSE_ASSIGN_OR_RETURN(const std::vector<int32_t> tokens,
                        RenderHarmony(job.messages, job.options, ids, tokenizer));
  return Rendered(tokens, tokenizer);
}

// A server's view without its limits: of the prompt alone.
ApiContext ContextOf(const RenderOptions& options, const ChatFormat& format,
                     const Tokenizer& tokenizer) {
  constexpr int64_t kNoLimit = int64_t{1} << 40;
  return {.format = &format,
          .tokenizer = &tokenizer,
          .max_context = kNoLimit,
          .vocab = tokenizer.vocab(),
          .fixed_date = options.date,
          .max_prompt_total = kNoLimit};
}

// The prompts that the chat endpoint reads bodies as; any model's name will do.
class RequestRenderer {
 public:
  // Both outlive it.
  RequestRenderer(const ApiContext& context, const Tokenizer& tokenizer)
      : context_(context), tokenizer_(tokenizer) {}

  Result<std::string> Render(std::string_view line) {
    ROSE_ASSIGN_OR_RETURN(const JsonValue json, ParseJson(line));
    const JsonValue* model = json.Find("model");
    context_.models = {model && model->string() ? *model->string() : "rose"};
    if (MayAskForAForm(line)) PrepareGrammars();
    const auto parsed = ParseChatRequest(json, context_, std::time(nullptr));
    if (const auto* error = std::get_if<ApiError>(&parsed)) return InvalidArgument(error->message);
    return Rendered(std::get<ChatCall>(parsed).request.prompt, tokenizer_);
  }

 private:
  // Whether the endpoint may have to compile a grammar, and so refuse one.
  static bool MayAskForAForm(std::string_view line) {
    for (const char* name :
         {"response_format", "structured_outputs", "guided_", "tool_choice", "strict"})
      if (line.find(name) != line.npos) return true;
    return false;
  }
  // Only once it is needed: making its vocabulary takes a while.
  void PrepareGrammars() {
    if (grammars_) return;
    auto compiler =
        GrammarCompiler::Create(tokenizer_, {.threads = 1, .deadline = std::chrono::minutes(1)});
    if (!compiler.ok()) return;  // built without: such requests are refused
    grammars_ = std::move(compiler).value();
    context_.grammars = grammars_.get();
  }

  ApiContext context_;
  const Tokenizer& tokenizer_;
  std::unique_ptr<GrammarCompiler> grammars_;
};

Result<int> RunRender(const RenderOptions& options) {
  ROSE_ASSIGN_OR_RETURN(const std::unique_ptr<Tokenizer> tokenizer, OpenTokenizer(options.model));
  ROSE_ASSIGN_OR_RETURN(const std::unique_ptr<ChatFormat> format, CreateChatFormatFor(*tokenizer));
  RequestRenderer requests(ContextOf(options, *format, *tokenizer), *tokenizer);
  return AnswerJsonLines([&](std::string_view line) {
    return options.messages ? RenderMessages(line, *tokenizer) : requests.Render(line);
  });
}

// For CLI11: why `text` is no day, or nothing.
std::string IsDate(const std::string& text) {
  bool good = text.size() == 10;
  for (size_t i = 0; good && i < text.size(); ++i)
    good = i == 4 || i == 7 ? text[i] == '-' : text[i] >= '0' && text[i] <= '9';
  if (!good) return "must look like 2026-01-31";
  const auto number = [&](size_t begin, size_t size) {
    return std::stoi(text.substr(begin, size));
  };
  const std::chrono::year_month_day day(std::chrono::year(number(0, 4)),
                                        std::chrono::month(static_cast<unsigned>(number(5, 2))),
                                        std::chrono::day(static_cast<unsigned>(number(8, 2))));
  return day.ok() ? "" : "there is no such day";
}

}  // namespace

void AddRender(CLI::App& app, int& exit_code) {
  auto* command = app.add_subcommand(
      "render", "Show the prompt of a chat request: one JSON object a line in, one out");
  auto options = std::make_shared<RenderOptions>();
  command
      ->add_option("--model", options->model,
                   "Whose tokens: a model folder, tokenizer.json or *.tiktoken file, or the one "
                   "that is built in")
      ->check(NotEmptyModel())
      ->capture_default_str();
  command->add_flag("--messages", options->messages,
                    "Lines hold Harmony's own messages: {\"messages\": [{\"role\", \"name\", "
                    "\"recipient\", \"channel\", \"content_type\", \"content\"}], \"for\": "
                    "\"completion\" | \"conversation\" | \"training\", \"next_role\", "
                    "\"auto_drop_analysis\"}");
  command
      ->add_option("--date", options->date,
                   "The day that the prompt of a request names (default: today, UTC)")
      ->check(IsDate);
  command->footer(
      "Each line is a body of POST /v1/chat/completions, and the answer is the prompt that the "
      "endpoint\nwould give the model. With --messages it is a list of messages that the format "
      "itself knows, and old\nthoughts are left out by the rule of the reference library.\n"
      "Writes {\"token_ids\": [...], \"text\": \"...\"} for each line, or {\"error\": \"...\"} and "
      "goes on\n(exit code 2 in the end). The output is ASCII.\n\n"
      "Examples:\n"
      "  echo '{\"messages\": [{\"role\": \"user\", \"content\": \"Hi\"}]}' | rose render\n"
      "  echo '{\"messages\": [{\"role\": \"user\", \"content\": \"Hi\"}]}' | rose render "
      "--messages");
  command->callback([options, &exit_code] {
    const Result<int> result = RunRender(*options);
    exit_code = result.ok() ? *result : ReportFailure(result.status());
  });
}

}  // namespace rose

// rose chat: a conversation with a model on the terminal, or line by line through pipes.
#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <iostream>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "answer_printer.h"
#include "commands.h"
#include "conversation.h"
#include "number_options.h"
#include "serving_model.h"
#include "signals.h"

namespace rose {
namespace {

constexpr char kHelp[] =
    "/help                     this list\n"
    "/reset                    forget the conversation\n"
    "/effort low|medium|high   how long the model thinks first; some models take none\n"
    "/quit                     leave (so do Ctrl-D, and Ctrl-C while nothing is being written)\n"
    "Ctrl-C stops an answer.\n";

struct ChatOptions {
  ServingOptions model;
  ConversationOptions conversation;
  std::string effort = "medium";
  std::optional<double> temperature;
  std::optional<uint64_t> seed;
};

Result<ReasoningEffort> ParseEffort(std::string_view name) {
  if (name == "none") return ReasoningEffort::kNone;
  if (name == "low") return ReasoningEffort::kLow;
  if (name == "medium") return ReasoningEffort::kMedium;
  if (name == "high") return ReasoningEffort::kHigh;
  return InvalidArgument("the effort is none, low, medium or high, not '", name, "'");
}

// Obeys a line that begins with '/'; false to leave.
bool Obey(const std::string& line, Conversation& conversation) {
  const std::string command = line.substr(0, line.find(' '));
  const std::string argument = command == line ? "" : line.substr(command.size() + 1);
  if (command == "/quit" || command == "/exit") return false;
  if (command == "/help") {
    std::fputs(kHelp, stderr);
  } else if (command == "/reset") {
    conversation.Reset();
    std::fputs("The conversation begins anew.\n", stderr);
  } else if (command == "/effort") {
    const auto effort = ParseEffort(argument);
    if (effort.ok()) {
      conversation.SetEffort(*effort);
      std::fprintf(stderr, "Effort: %s.\n", argument.c_str());
    } else {
      std::fprintf(stderr, "%s\n", effort.status().message().c_str());
    }
  } else {
    std::fprintf(stderr, "There is no command %s; /help lists them.\n", command.c_str());
  }
  return true;
}

// Questions from stdin until its end. A failed question is said and does not end a conversation on
// a terminal; through a pipe it does.
Status Converse(Conversation& conversation) {
  AnswerPrinter printer;
  const bool interactive = isatty(STDIN_FILENO) != 0;
  std::string line;
  while (true) {
    if (interactive) std::fputs(Bold("> ", stderr).c_str(), stderr);
    if (!std::getline(std::cin, line)) break;
    if (line.find_first_not_of(" \t\r") == std::string::npos) continue;
    if (line[0] == '/') {
      if (!Obey(line, conversation)) return Status();
      continue;
    }
    const Status asked = conversation.Ask(line, printer);
    if (!asked.ok() && (!interactive || asked.code() == StatusCode::kInternal)) return asked;
    if (!asked.ok()) std::fprintf(stderr, "%s\n", asked.message().c_str());
    if (interactive) std::fputc('\n', stderr);
  }
  if (interactive) std::fputc('\n', stderr);
  return Status();
}

Status Chat(const ChatOptions& options) {
  // Before any thread: they inherit that signals come here.
  std::atomic<Conversation*> current = nullptr;
  SignalWatcher signals([&](int) {
    Conversation* conversation = current;
    if (conversation != nullptr && conversation->Stop()) return;
    if (HasStyles(stdout)) std::fputs("\033[0m\n", stdout);
    std::fflush(stdout);
    std::_Exit(conversation == nullptr ? 1 : 0);
  });
  ROSE_ASSIGN_OR_RETURN(ServingModel model, LoadServingModel(options.model));
  ConversationOptions settings = options.conversation;
  ROSE_ASSIGN_OR_RETURN(settings.effort, ParseEffort(options.effort));
  settings.sampling = model.defaults;
  settings.sampling.seed = options.seed;
  if (options.temperature) settings.sampling.temperature = *options.temperature;
  Conversation conversation(*model.engine, *model.format, settings);
  if (isatty(STDIN_FILENO) != 0) {
    std::fprintf(stderr, "%s\nAsk something, or /help.\n\n", Dim(model.summary, stderr).c_str());
  }
  current = &conversation;
  const Status status = Converse(conversation);
  current = nullptr;
  return status;
}

}  // namespace

void AddChat(CLI::App& app, int& exit_code) {
  auto options = std::make_shared<ChatOptions>();
  CLI::App* command = app.add_subcommand("chat", "Talk with a model on the terminal");
  AddServingOptions(*command, options->model);
  ConversationOptions& conversation = options->conversation;
  command->add_option("--effort", options->effort, "How long the model thinks before it answers")
      ->check(CLI::IsMember({"low", "medium", "high"}))
      ->capture_default_str();
  command->add_option("--system", conversation.system, "Instructions for the model");
  command
      ->add_option("--max-tokens", conversation.max_tokens,
                   "Longest answer, thoughts included (default: what the context leaves)")
      ->check(CLI::Range(int64_t{1}, int64_t{1} << 31));
  command->add_option("--temperature", options->temperature, "0 always takes the likeliest token")
      ->check(CLI::Range(0.0, 2.0));
  AddSeed(*command, options->seed);
  command->footer(
      "Examples:\n"
      "  rose chat                           the shipped model\n"
      "  rose chat ./gpt-oss-20b --effort high\n"
      "  echo 'What is 2 + 3?' | rose chat   the answer alone, on stdout");
  command->callback([options, &exit_code] {
    const Status status = Chat(*options);
    if (!status.ok()) exit_code = ReportFailure(status);
  });
}

}  // namespace rose

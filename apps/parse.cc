// rose parse: what the tokens of an answer say, message by message.
#include <cstdio>
#include <iostream>
#include <iterator>
#include <memory>

#include "chat/harmony_json.h"
#include "commands.h"
#include "json_lines.h"
#include "not_empty.h"

namespace rose {
namespace {

struct ParseOptions {
  std::string model = "o200k_harmony";
  bool json = false;
};

std::vector<ChatEvent> Events(const std::vector<int32_t>& tokens, const ChatFormat& format) {
  const auto parser = format.NewParser({});
  std::vector<ChatEvent> events;
  for (const int32_t token : tokens) parser->Push(token, events);
  parser->Finish(events);
  return events;
}

// For eyes: a line of what the header says, and the text below it.
void PrintMessages(const std::vector<ChatEvent>& events) {
  for (const ChatEvent& event : events) {
    switch (event.kind) {
      case ChatEvent::Kind::kBegin: {
        std::string line = event.author;
        if (!event.channel.empty()) line += ", " + event.channel;
        if (!event.recipient.empty()) line += ", to " + event.recipient;
        if (!event.content_type.empty()) line += ", " + event.content_type;
        std::printf("[%s]\n", line.c_str());
        break;
      }
      case ChatEvent::Kind::kText:
        std::fputs(event.text.c_str(), stdout);
        break;
      case ChatEvent::Kind::kEnd:
        std::puts(event.complete ? "" : "\n(cut)");
        break;
      case ChatEvent::Kind::kDropped:
        std::fprintf(stderr, "without a meaning: %s\n", event.text.c_str());
        break;
    }
  }
}

Result<int> RunParse(const ParseOptions& options) {
  ROSE_ASSIGN_OR_RETURN(const std::unique_ptr<Tokenizer> tokenizer, OpenTokenizer(options.model));
  ROSE_ASSIGN_OR_RETURN(const std::unique_ptr<ChatFormat> format, CreateChatFormatFor(*tokenizer));
  const auto parse = [&](std::string_view json) -> Result<std::vector<ChatEvent>> {
    ROSE_ASSIGN_OR_RETURN(const JsonValue value, ParseJson(json));
    ROSE_ASSIGN_OR_RETURN(const std::vector<int32_t> tokens, TokenIdsFromJson(value));
    return Events(tokens, *format);
  };
  if (options.json) {
    return AnswerJsonLines([&](std::string_view line) -> Result<std::string> {
      ROSE_ASSIGN_OR_RETURN(const std::vector<ChatEvent> events, parse(line));
      return HarmonyMessagesToJson(events);
    });
  }
  const std::string input(std::istreambuf_iterator<char>(std::cin), {});
  ROSE_ASSIGN_OR_RETURN(const std::vector<ChatEvent> events, parse(input));
  PrintMessages(events);
  return 0;
}

}  // namespace

void AddParse(CLI::App& app, int& exit_code) {
  auto* command = app.add_subcommand(
      "parse", "Show what the tokens of an answer say: lists of token ids in, messages out");
  auto options = std::make_shared<ParseOptions>();
  command
      ->add_option("--model", options->model,
                   "Whose tokens: a model folder, tokenizer.json or *.tiktoken file, or the one "
                   "that is built in")
      ->check(NotEmptyModel())
      ->capture_default_str();
  command->add_flag("--json", options->json,
                    "One list a line in, {\"messages\": [{\"role\", \"channel\", \"recipient\", "
                    "\"content_type\", \"text\"}]} a line out");
  command->footer(
      "The tokens begin inside a message of the assistant, after <|start|>assistant, unless the "
      "first is\n<|start|> itself. A header that is still open at the end is no message. What is "
      "absent is null.\nAn id that is no token is no fault here: a model may write anything; it "
      "adds "
      "nothing to the text.\nWith --json a line that is no list gives {\"error\": \"...\"}, and "
      "the "
      "next "
      "one follows (exit code 2\nin the end). The output is ASCII.\n\n"
      "Examples:\n"
      "  echo '[200005, 17196, 200008, 35604, 13, 200002]' | rose parse --json\n"
      "  echo '[200005, 17196, 200008, 35604, 13, 200002]' | rose parse");
  command->callback([options, &exit_code] {
    const Result<int> result = RunParse(*options);
    exit_code = result.ok() ? *result : ReportFailure(result.status());
  });
}

}  // namespace rose

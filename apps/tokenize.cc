// rose tokenize: text to token ids and back, for eyes and (--json) for programs.
#include <unistd.h>

#include <cstdio>
#include <iostream>
#include <iterator>
#include <memory>
#include <sstream>

#include "base/json.h"
#include "base/utf8.h"
#include "commands.h"
#include "json_lines.h"
#include "not_empty.h"
#include "tokenizer/tokenizer.h"

namespace rose {
namespace {

struct TokenizeOptions {
  std::string model;
  bool special = false;
  bool decode = false;
  bool json = false;
  std::vector<std::string> words;  // texts, or ids with --decode; none = standard input
};

std::vector<int32_t> EncodeText(const TokenizeOptions& options, const Tokenizer& tokenizer,
                                std::string_view text) {
  return options.special ? tokenizer.EncodeWithSpecials(text) : tokenizer.Encode(text);
}

// A text with a hole where an unknown id was would be taken for the whole.
Status CheckKnown(const Tokenizer& tokenizer, const JsonValue& json) {
  const auto id = TokenIdFromJson(json);
  if (!id || !tokenizer.Bytes(*id).empty()) return {};
  return InvalidArgument("no token has the id ", *json.AsInteger(), "; ids go up to ",
                         tokenizer.vocab() - 1);
}

Result<std::string> AnswerLine(const TokenizeOptions& options, const Tokenizer& tokenizer,
                               std::string_view line) {
  ROSE_ASSIGN_OR_RETURN(const JsonValue value, ParseJson(line));
  std::string answer;
  if (options.decode) {
    ROSE_ASSIGN_OR_RETURN(const std::vector<int32_t> ids, TokenIdsFromJson(value));
    for (const JsonValue& id : *value.array()) ROSE_RETURN_IF_ERROR(CheckKnown(tokenizer, id));
    AppendJsonString(answer, DecodeValid(tokenizer, ids));
    return answer;
  }
  if (!value.string()) return InvalidArgument("expected a JSON string");
  return TokenIdsToJson(EncodeText(options, tokenizer, *value.string()));
}

// One JSON value a line in, one out; the first bad line ends it.
Status AnswerLines(const TokenizeOptions& options, const Tokenizer& tokenizer) {
  std::ios::sync_with_stdio(false);
  std::string line;
  for (int64_t number = 1; std::getline(std::cin, line); ++number) {
    const Result<std::string> answer = AnswerLine(options, tokenizer, line);
    if (!answer.ok()) {
      std::cout.flush();
      return InvalidArgument("line ", number, " of the input: ", answer.status().message());
    }
    std::cout << answer.value() << '\n';
    // A program that waits for this answer before it writes the next line shall get it.
    if (std::cin.rdbuf()->in_avail() <= 0) std::cout.flush();
  }
  std::cout.flush();
  return std::cout ? Status() : IoError("cannot write to standard output");
}

// `bytes` in quotes: whole printable characters as they are, others as \xNN.
std::string Quoted(std::string_view bytes) {
  std::string escaped;
  for (const char c : bytes) {
    if (c == '"' || c == '\\' || c == '\n') escaped += '\\';
    escaped += c == '\n' ? 'n' : c;
  }
  return '"' + Printable(escaped) + '"';
}

void PrintTokens(const TokenizeOptions& options, const Tokenizer& tokenizer,
                 std::string_view text) {
  const std::vector<int32_t> ids = EncodeText(options, tokenizer, text);
  for (const int32_t id : ids) {
    std::printf("%7d  %s\n", id,
                tokenizer.IsSpecial(id) ? std::string(tokenizer.Bytes(id)).c_str()
                                        : Quoted(tokenizer.Bytes(id)).c_str());
  }
  std::fprintf(stderr, "%zu tokens, %zu bytes\n", ids.size(), text.size());
}

Status PrintDecoded(const Tokenizer& tokenizer, const std::vector<std::string>& words) {
  std::vector<int32_t> ids;
  for (const std::string& word : words) {
    const Result<JsonValue> value = ParseJson(word);
    const auto id = value.ok() ? TokenIdFromJson(*value) : std::nullopt;
    if (!id) return InvalidArgument("a token id must be a whole number, not \"", word, "\"");
    ROSE_RETURN_IF_ERROR(CheckKnown(tokenizer, *value));
    ids.push_back(*id);
  }
  std::printf("%s\n", DecodeValid(tokenizer, ids).c_str());
  return Status();
}

Status RunTokenize(TokenizeOptions options) {
  if (options.json && !options.words.empty()) {
    return InvalidArgument("--json reads lines from standard input; leave the text away");
  }
  ROSE_ASSIGN_OR_RETURN(const std::unique_ptr<Tokenizer> tokenizer, OpenTokenizer(options.model));
  if (options.json) return AnswerLines(options, *tokenizer);
  if (options.words.empty()) {
    if (::isatty(0) != 0)
      std::fprintf(stderr, "Type the %s, then Ctrl-D:\n", options.decode ? "ids" : "text");
    const std::string input(std::istreambuf_iterator<char>(std::cin), {});
    if (!options.decode) {
      options.words.push_back(input);
    } else {
      std::istringstream words(input);
      options.words.assign(std::istream_iterator<std::string>(words), {});
    }
  }
  if (options.decode) return PrintDecoded(*tokenizer, options.words);
  for (const std::string& text : options.words) PrintTokens(options, *tokenizer, text);
  return Status();
}

}  // namespace

void AddTokenize(CLI::App& app, int& exit_code) {
  auto* command = app.add_subcommand("tokenize", "Turn text into token ids, or ids into text");
  auto options = std::make_shared<TokenizeOptions>();
  command
      ->add_option("--model", options->model,
                   "Model folder, tokenizer.json or *.tiktoken file, or o200k_harmony, which is "
                   "built in (default: the shipped model, rosebud)")
      ->check(NotEmptyModel());
  command->add_flag("--special", options->special,
                    "Special token names in the text become their ids; else they are plain text");
  command->add_flag("--decode", options->decode, "Ids to text");
  command->add_flag("--json", options->json,
                    "One JSON string (or id list) a line in, one id list (or string) a line out");
  command->add_option("text", options->words, "Text (or ids); none: standard input");
  command->footer(
      "Examples:\n"
      "  rose tokenize \"hello world\"\n"
      "  rose tokenize --model o200k_harmony --special \"<|start|>user<|message|>Hi<|end|>\"\n"
      "  rose tokenize --model o200k_harmony --decode 24912 2375\n"
      "  echo '\"hello world\"' | rose tokenize --model gpt-oss-20b --json\n"
      "  echo '[24912, 2375]' | rose tokenize --model o200k_harmony --decode --json");
  command->callback([options, &exit_code] {
    if (const Status status = RunTokenize(*options); !status.ok())
      exit_code = ReportFailure(status);
  });
}

}  // namespace rose

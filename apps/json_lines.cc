#include "json_lines.h"

#include <iostream>

#include "commands.h"
#include "model_loading.h"

namespace rose {

int AnswerJsonLines(const LineAnswer& answer) {
  std::ios::sync_with_stdio(false);
  int exit_code = 0;
  for (std::string line; std::getline(std::cin, line);) {
    const Result<std::string> result = answer(line);
    if (result.ok()) {
      std::cout << AsciiJson(*result) << '\n';
    } else {
      std::string error = "{\"error\": ";
      AppendJsonString(error, result.status().message());
      std::cout << AsciiJson(error) << "}\n";
      exit_code = 2;
    }
    // A program that waits for this answer before it writes the next line shall get it.
    if (std::cin.rdbuf()->in_avail() <= 0) std::cout.flush();
  }
  std::cout.flush();
  if (std::cout) return exit_code;
  return ReportFailure(IoError("cannot write to standard output"));
}

std::optional<int32_t> TokenIdFromJson(const JsonValue& json) {
  const auto id = json.AsInteger();
  if (!id) return std::nullopt;
  const auto narrow = static_cast<int32_t>(*id);
  return narrow == *id ? narrow : -1;
}

Result<std::vector<int32_t>> TokenIdsFromJson(const JsonValue& json) {
  if (!json.array()) return InvalidArgument("expected a list of token ids");
  std::vector<int32_t> ids;
  for (const JsonValue& entry : *json.array()) {
    const auto id = TokenIdFromJson(entry);
    if (!id) return InvalidArgument("a token id must be a whole number, not ", WriteJson(entry));
    ids.push_back(*id);
  }
  return ids;
}

std::string TokenIdsToJson(const std::vector<int32_t>& ids) {
  std::string out = "[";
  for (const int32_t id : ids) {
    if (out.size() > 1) out += ", ";
    out += std::to_string(id);
  }
  return out + "]";
}

std::string DecodeValid(const Tokenizer& tokenizer, const std::vector<int32_t>& ids) {
  Utf8Stream stream;
  std::string text = stream.Push(tokenizer.Decode(ids));
  return text + stream.Finish();
}

Result<std::unique_ptr<Tokenizer>> OpenTokenizer(const std::string& model) {
  if (model == "o200k_harmony") return BuiltInTokenizer(model);
  if (!model.empty()) return LoadTokenizer(model);
  ROSE_ASSIGN_OR_RETURN(const std::string shipped, FindModelFolder(model));
  return LoadTokenizer(shipped);
}

}  // namespace rose

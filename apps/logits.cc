// rose logits: the model's numbers for a list of token ids, so that implementations can be
// compared.
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <system_error>

#include "base/file.h"
#include "base/json.h"
#include "checkpoint/safetensors.h"
#include "commands.h"
#include "model_loading.h"
#include "models/step_runner.h"
#include "number_options.h"

namespace rose {
namespace {

constexpr int64_t kChunk = 512;  // tokens of one step

struct LogitsOptions {
  ModelOptions model;
  std::string token_ids_file;
  std::vector<int64_t> positions;  // empty = the last
  std::string out;
};

Result<std::vector<int32_t>> ReadTokenIds(const std::string& path, int64_t vocab) {
  ROSE_ASSIGN_OR_RETURN(const std::string text, ReadFileOrPipe(path, /*max_bytes=*/100'000'000));
  Result<JsonValue> parsed = ParseJson(text);
  if (!parsed.ok()) return InvalidArgument(path, ": ", parsed.status().message());
  const JsonValue::Array* list = parsed->array();
  if (list == nullptr || list->empty()) {
    return InvalidArgument(path, ": expected a JSON list of token ids, at least one");
  }
  std::vector<int32_t> tokens;
  for (const JsonValue& entry : *list) {
    const auto id = entry.AsInteger();
    if (!id || *id < 0 || *id >= vocab) {
      return InvalidArgument(path, ": entry ", tokens.size(), " is ", WriteJson(entry),
                             "; expected a token id from 0 to ", vocab - 1);
    }
    tokens.push_back(static_cast<int32_t>(*id));
  }
  return tokens;
}

// Logits [positions, vocab] in the order asked for.
Result<std::vector<float>> Compute(const LoadedModel& loaded, std::span<const int32_t> tokens,
                                   const std::vector<int64_t>& positions) {
  const int64_t vocab = loaded.model->info().vocab;
  const int64_t count = static_cast<int64_t>(tokens.size());
  ROSE_ASSIGN_OR_RETURN(auto runner, StepRunner::Create(*loaded.model, *loaded.ops, 1, count));
  std::vector<float> out(positions.size() * vocab);
  for (int64_t start = 0; start < count; start += kChunk) {
    const int64_t size = std::min(kChunk, count - start);
    std::vector<int32_t> rows;
    for (int64_t position : positions) {
      if (position >= start && position < start + size)
        rows.push_back(static_cast<int32_t>(position - start));
    }
    std::sort(rows.begin(), rows.end());
    rows.erase(std::unique(rows.begin(), rows.end()), rows.end());
    const SequenceTokens part{0, tokens.subspan(start, size)};
    const Tensor logits = runner->Run({&part, 1}, rows);
    for (size_t i = 0; i < positions.size(); ++i) {
      const auto row = std::find(rows.begin(), rows.end(), positions[i] - start);
      if (positions[i] < start || row == rows.end()) continue;
      std::copy_n(logits.data<float>() + (row - rows.begin()) * vocab, vocab,
                  out.data() + i * vocab);
    }
  }
  return out;
}

// Writes beside `path` first and renames, so that no half file stays under its name.
Status WriteLogits(const std::string& path, const std::vector<float>& logits, int64_t vocab) {
  const int64_t positions = static_cast<int64_t>(logits.size()) / vocab;
  const std::string header = SafetensorsHeaderBytes(
      {{.name = "logits", .dtype = DType::kF32, .shape = {positions, vocab}}});
  const std::string temporary = StrCat(path, ".", ::getpid(), ".tmp");
  std::ofstream file(temporary, std::ios::binary);
  file.write(header.data(), static_cast<std::streamsize>(header.size()));
  file.write(reinterpret_cast<const char*>(logits.data()),
             static_cast<std::streamsize>(logits.size() * sizeof(float)));
  file.close();
  std::error_code error;
  if (!file) {
    std::filesystem::remove(temporary, error);
    return IoError(path, ": cannot be written (no such folder, no right, or the disk is full)");
  }
  std::filesystem::rename(temporary, path, error);
  if (error) {
    const std::string reason = error.message();
    std::filesystem::remove(temporary, error);
    return IoError(path, ": ", reason);
  }
  return {};
}

// A device, a pipe or a link would be replaced by the file, so that they are refused.
Status CheckOut(const std::string& path) {
  std::error_code ignored;
  const std::filesystem::file_status status = std::filesystem::symlink_status(path, ignored);
  if (path.empty() ||
      (std::filesystem::exists(status) && !std::filesystem::is_regular_file(status)))
    return InvalidArgument("--out: '", path, "' is not a file that can be written");
  return Status();
}

Status RunLogits(LogitsOptions options) {
  ROSE_RETURN_IF_ERROR(CheckOut(options.out));
  ROSE_ASSIGN_OR_RETURN(const LoadedModel loaded, LoadModelWithBar(options.model));
  const ModelInfo& info = loaded.model->info();
  ROSE_ASSIGN_OR_RETURN(const std::vector<int32_t> tokens,
                        ReadTokenIds(options.token_ids_file, info.vocab));
  const int64_t count = static_cast<int64_t>(tokens.size());
  if (count > info.max_positions) {
    return InvalidArgument(options.token_ids_file, ": ", count, " token ids; the model has ",
                           info.max_positions, " positions");
  }
  if (options.positions.empty()) options.positions = {count - 1};
  for (int64_t position : options.positions) {
    if (position < 0 || position >= count) {
      return InvalidArgument("--positions: ", position, " is not one of the ", count,
                             " positions from 0");
    }
  }
  ROSE_ASSIGN_OR_RETURN(const std::vector<float> logits,
                        Compute(loaded, tokens, options.positions));
  return WriteLogits(options.out, logits, info.vocab);
}

}  // namespace

void AddLogits(CLI::App& app, int& exit_code) {
  auto options =
      std::make_shared<LogitsOptions>();  // shared with the callback, which outlives this
  CLI::App* command = app.add_subcommand("logits", "Write the logits of a list of token ids");
  AddModelOptions(*command, options->model);
  command->add_option("--token-ids-file", options->token_ids_file, "A JSON list of token ids")
      ->required();
  AddNumberList(*command, "--positions", options->positions,
                "Positions, from 0 (default: the last)");
  command
      ->add_option("--out", options->out,
                   "A safetensors file with F32 \"logits\" [positions, vocab]")
      ->required();
  command->footer(
      "Example:\n"
      "  echo '[1, 2, 3]' > ids.json\n"
      "  rose logits --token-ids-file ids.json --positions 0,2 --out logits.safetensors");
  command->callback([options, &exit_code] {
    if (const Status status = RunLogits(*options); !status.ok()) exit_code = ReportFailure(status);
  });
}

}  // namespace rose

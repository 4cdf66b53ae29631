// rose convert: a checkpoint in another weight format, with a proof of what changed.
#include "checkpoint/convert.h"

#include <signal.h>

#include <algorithm>
#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <boost/json/serialize.hpp>
#include <cstdio>
#include <memory>

#include "base/cpu.h"
#include "base/progress.h"
#include "commands.h"
#include "models/model.h"
#include "not_empty.h"

namespace rose {
namespace {

struct ConvertCommand {
  std::string folder, to, out;
  bool strict = false;
  bool json = false;
};

void PrintJson(const ConvertSummary& summary, const std::string& out) {
  const boost::json::object root{
      {"out", out},
      {"report", summary.report_path},
      {"exact", summary.inexact_blocks == 0},
      {"weights_converted", summary.converted},
      {"weights_copied", summary.copied},
      {"weights_resumed", summary.resumed},
      {"bytes_before", summary.bytes_before},
      {"bytes_after", summary.bytes_after},
      {"blocks", summary.blocks},
      {"inexact_blocks", summary.inexact_blocks},
      {"inexact_values", summary.inexact_values},
      {"max_relative_error", summary.max_relative_error},
      {"spread_histogram", boost::json::array(summary.spreads.begin(), summary.spreads.end())}};
  std::printf("%s\n", boost::json::serialize(root).c_str());
}

// How far the exponents of MXFP4 blocks under one scale lie apart: a bar for each spread.
void PrintSpreads(const std::vector<int64_t>& spreads) {
  if (spreads.empty()) return;
  constexpr int64_t kWidth = 40;
  const int64_t most = *std::max_element(spreads.begin(), spreads.end());
  std::printf("\nspread of exponents in a block of 128 x 128 (up to 14 is exact in fp8-block)\n");
  for (size_t spread = 0; spread < spreads.size(); ++spread) {
    if (spreads[spread] == 0) continue;
    const int64_t width = std::max<int64_t>(1, spreads[spread] * kWidth / most);
    std::printf("%4zu  %10lld  %s\n", spread, static_cast<long long>(spreads[spread]),
                std::string(width, '#').c_str());
  }
}

void PrintText(const ConvertSummary& summary, const std::string& out) {
  std::printf("%s: %lld weights converted, %lld copied, %s -> %s\n", out.c_str(),
              static_cast<long long>(summary.converted), static_cast<long long>(summary.copied),
              BytesText(summary.bytes_before).c_str(), BytesText(summary.bytes_after).c_str());
  if (summary.resumed > 0) {
    std::printf("%lld of these were on the disk already, from a run that was interrupted\n",
                static_cast<long long>(summary.resumed));
  }
  PrintSpreads(summary.spreads);
  if (summary.inexact_blocks == 0) {
    std::printf("\nbit-exact: all %lld blocks decode to the same numbers as before\n",
                static_cast<long long>(summary.blocks));
  } else {
    std::printf("\nnot exact: %lld of %lld blocks, %lld values, by at most %.3g %%\n",
                static_cast<long long>(summary.inexact_blocks),
                static_cast<long long>(summary.blocks),
                static_cast<long long>(summary.inexact_values), 100 * summary.max_relative_error);
    for (const std::string& sentence : summary.inexact) std::printf("  %s\n", sentence.c_str());
    if (summary.inexact_blocks > static_cast<int64_t>(summary.inexact.size()))
      std::printf("  ...\n");
  }
  std::printf("report: %s\n", summary.report_path.c_str());
}

std::string WithoutSlashes(std::string path) {
  while (path.size() > 1 && path.back() == '/') path.pop_back();
  return path;
}

Status RunConvert(ConvertCommand command) {
  // A limit on file sizes is then a failed write like a full disk, with a message.
  ::signal(SIGXFSZ, SIG_IGN);
  ROSE_ASSIGN_OR_RETURN(const std::unique_ptr<Checkpoint> checkpoint,
                        OpenCheckpoint(command.folder));
  ROSE_ASSIGN_OR_RETURN(const std::unique_ptr<Model> model, CreateModel(checkpoint->config_json()));
  if (command.out.empty()) command.out = WithoutSlashes(command.folder) + "-" + command.to;
  command.out = WithoutSlashes(command.out);
  Result<ConvertSummary> summary = [&] {
    ProgressBar bar("converting", stderr);
    return ConvertCheckpoint(
        *checkpoint, model->tensors(),
        {.to = FindCodec(command.to),
         .out = command.out,
         .strict = command.strict,
         .threads = AvailableCpus(),
         .progress = [&](const LoadProgress& p) { bar.Update(p.done_bytes, p.total_bytes); }});
  }();
  if (!summary.ok()) return summary.status();
  if (command.json) {
    PrintJson(*summary, command.out);
  } else {
    PrintText(*summary, command.out);
  }
  return Status();
}

}  // namespace

void AddConvert(CLI::App& app, int& exit_code) {
  // Shared with the callback, which outlives this call.
  auto options = std::make_shared<ConvertCommand>();
  CLI::App* command =
      app.add_subcommand("convert", "Write a checkpoint with its experts in another format");
  command->add_option("DIR", options->folder, "Folder of the checkpoint")
      ->required()
      ->check(NotEmpty("a folder is needed"));
  std::vector<std::string> names;
  for (const Codec* codec : AllCodecs()) names.emplace_back(codec->name());
  command->add_option("--to", options->to, "Format of the experts' weights")
      ->required()
      ->check(CLI::IsMember(names));
  command->add_option("--out", options->out, "Folder to make (default: DIR-FORMAT)")
      ->check(NotEmpty("a folder is needed"));
  command->add_flag("--strict", options->strict,
                    "Fail, and leave nothing, if a weight would change by a single bit");
  command->add_flag("--json", options->json, "The summary as one JSON object");
  command->footer(
      "Run the same command again after an interruption: it goes on where it was. The folder\n"
      "appears under its name when all of it is written; convert_report.json in it says for\n"
      "every block of 128 x 128 numbers whether it came through bit for bit.\n\n"
      "Examples:\n"
      "  rose convert gpt-oss-20b --to fp8-block --strict\n"
      "  rose convert gpt-oss-20b --to bf16 --out gpt-oss-20b-bf16");
  command->callback([options, &exit_code] {
    if (const Status status = RunConvert(*options); !status.ok()) exit_code = ReportFailure(status);
  });
}

}  // namespace rose

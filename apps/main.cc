// rose: serves gpt-oss and Qwen3-MoE models. Each command lives in a file or folder of its name.
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <exception>
#include <iostream>
#include <sstream>
#include <vector>

#include "base/file.h"
#include "base/mapped_file.h"
#include "base/utf8.h"
#include "commands.h"

namespace rose {

int ReportFailure(const Status& status) {
  // Messages may hold names of files and tensors. Whoever starts a failed server again waits for
  // its end, also where nobody reads what it says.
  constexpr int kPatienceMs = 5000;
  if (TakesBytes(STDERR_FILENO, kPatienceMs))
    std::fprintf(stderr, "rose: %s\n", Printable(status.message(), "\n\t").c_str());
  switch (status.code()) {
    case StatusCode::kInvalidArgument:
    case StatusCode::kNotFound:
    case StatusCode::kUnsupported:
      return 2;
    default:
      return 1;
  }
}

}  // namespace rose

int main(int argc, char** argv) {
  rose::FillStandardStreams();
  rose::EndWhereFilesAreCut();
  CLI::App app{
      "rose serves gpt-oss and Qwen3-MoE models: checkpoint in, OpenAI-compatible API out."};
  app.require_subcommand(1);
  app.set_version_flag("--version", ROSE_VERSION);
  int exit_code = 0;
  rose::AddConvert(app, exit_code);
  rose::AddInspect(app, exit_code);
  rose::AddMakeCheckpoint(app, exit_code);
  rose::AddBench(app, exit_code);
  rose::AddProfile(app, exit_code);
  rose::AddLogits(app, exit_code);
  rose::AddGenerate(app, exit_code);
  rose::AddChat(app, exit_code);
  rose::AddServe(app, exit_code);
  rose::AddBatch(app, exit_code);
  rose::AddTokenize(app, exit_code);
  rose::AddRender(app, exit_code);
  rose::AddParse(app, exit_code);
  rose::AddSimulate(app, exit_code);
  const std::vector<CLI::App*> commands = app.get_subcommands([](CLI::App*) { return true; });
  const auto is_named = [&](const CLI::App* command) { return command->get_name() == argv[1]; };
  if (argc > 1 && argv[1][0] != '-' && std::ranges::none_of(commands, is_named)) {
    std::fprintf(stderr, "rose: there is no command '%s'; rose --help lists them\n",
                 rose::Printable(argv[1]).c_str());
    return 2;
  }
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    std::ostringstream complaint;
    exit_code = app.exit(error, std::cout, complaint) == 0 ? 0 : 2;
    std::cerr << rose::Printable(complaint.str(), "\n\t");
  } catch (const std::exception& failure) {
    std::fprintf(stderr, "rose: this is a fault of rose: %s\n", failure.what());
    return 1;
  }
  std::cout.flush();
  if (std::fflush(stdout) != 0 || std::ferror(stdout) != 0 || !std::cout) {
    std::fprintf(stderr, "rose: the output could not be written in full\n");
    if (exit_code == 0) exit_code = 1;
  }
  return exit_code;
}

// rose: serves OpenAI's gpt-oss models. Each command lives in a file of its name.
#include <cstdio>
#include <exception>

#include "commands.h"

namespace rose {

int ReportFailure(const Status& status) {
  std::fprintf(stderr, "rose: %s\n", status.message().c_str());
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
  CLI::App app{"rose serves OpenAI's gpt-oss models: checkpoint in, OpenAI-compatible API out."};
  app.require_subcommand(1);
  app.set_version_flag("--version", ROSE_VERSION);
  int exit_code = 0;
  rose::AddConvert(app, exit_code);
  rose::AddInspect(app, exit_code);
  rose::AddBench(app, exit_code);
  rose::AddLogits(app, exit_code);
  rose::AddGenerate(app, exit_code);
  rose::AddChat(app, exit_code);
  rose::AddServe(app, exit_code);
  rose::AddTokenize(app, exit_code);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : 2;
  } catch (const std::exception& failure) {
    std::fprintf(stderr, "rose: this is a fault of rose: %s\n", failure.what());
    return 1;
  }
  return exit_code;
}

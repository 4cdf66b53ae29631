// The program's commands: a file or a folder each, named after the command. Every function adds its
// subcommand to `app`; the callback stores the exit code (0 done, 1 failed, 2 wrong use).
#pragma once

#include <CLI/CLI.hpp>

#include "base/status.h"

namespace rose {

// Prints "rose: message" on stderr and gives the exit code that belongs to the status: 2 for the
// caller's fault, else 1.
int ReportFailure(const Status& status);

void AddConvert(CLI::App& app, int& exit_code);
void AddInspect(CLI::App& app, int& exit_code);
void AddMakeCheckpoint(CLI::App& app, int& exit_code);
void AddBench(CLI::App& app, int& exit_code);
void AddLogits(CLI::App& app, int& exit_code);
void AddGenerate(CLI::App& app, int& exit_code);
void AddChat(CLI::App& app, int& exit_code);
void AddServe(CLI::App& app, int& exit_code);
void AddBatch(CLI::App& app, int& exit_code);
void AddTokenize(CLI::App& app, int& exit_code);
void AddRender(CLI::App& app, int& exit_code);
void AddParse(CLI::App& app, int& exit_code);
void AddSimulate(CLI::App& app, int& exit_code);
void AddProfile(CLI::App& app, int& exit_code);

}  // namespace rose

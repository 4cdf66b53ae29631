// What the measurements of `rose bench` share.
#pragma once

#include <CLI/CLI.hpp>
#include <string>

#include "model_loading.h"

namespace rose {

// The members of a result line that say what was measured and where: model, ops, precision, threads
// and level of instructions.
std::string MachineJson(const LoadedModel& loaded, const ModelOptions& options);

// `rose bench engine` (bench_engine.cc).
void AddBenchEngine(CLI::App& bench, int& exit_code);
// `rose bench streams` (bench_streams.cc).
void AddBenchStreams(CLI::App& bench, int& exit_code);
// `rose bench ops` (bench_ops.cc).
void AddBenchOps(CLI::App& bench, int& exit_code);
// `rose bench serve` (bench_serve.cc).
void AddBenchServe(CLI::App& bench, int& exit_code);
// `rose bench tokenize` (bench_tokenize.cc).
void AddBenchTokenize(CLI::App& bench, int& exit_code);

}  // namespace rose

// What the measurements of `rose bench` share.
#pragma once

#include <CLI/CLI.hpp>
#include <string>

#include "model_loading.h"
#include "models/step_work.h"
#include "simulator/measure_steps.h"
#include "simulator/step_table.h"

namespace rose {

// The members of a result line that say what was measured and where: model, ops, precision, threads
// and level of instructions.
std::string MachineJson(const LoadedModel& loaded, const ModelOptions& options);

// Seconds that these steps take at least, one after the other, at what the device was measured to
// read and multiply; 0 where that is not known (a CPU).
double FloorSeconds(const LoadedModel& loaded, const std::vector<StepWork>& steps);
// Members of a result line, each after a comma: rates, experts of a layer that a step reads, and,
// where there is a floor, that and its share of what the steps took.
std::string WorkJson(const LoadedModel& loaded, const std::vector<StepWork>& steps, double seconds);
// The GPU's clocks right now, likewise; empty on a CPU.
std::string ClocksJson(const LoadedModel& loaded);

// Which steps are measured, and how.
struct StepMeasuring {
  int64_t max_running = 64;       // sequences that decode
  int64_t max_step_tokens = 512;  // rows
  int64_t longest = 4000;         // tokens of a prompt
  int64_t repeats = 2;
};

// What steps take with this model on this machine; a bar on a terminal. kUnavailable if there is no
// memory.
Result<StepTable> MeasureTable(const LoadedModel& loaded, const ModelOptions& model,
                               const StepMeasuring& measuring);

// `rose bench steps` (bench_steps.cc).
void AddBenchSteps(CLI::App& bench, int& exit_code);
// `rose bench engine` (bench_engine.cc).
void AddBenchEngine(CLI::App& bench, int& exit_code);
// `rose bench overload` (bench_overload.cc).
void AddBenchOverload(CLI::App& bench, int& exit_code);
// `rose bench streams` (bench_streams.cc).
void AddBenchStreams(CLI::App& bench, int& exit_code);
// `rose bench prefill` (bench_prefill.cc).
void AddBenchPrefill(CLI::App& bench, int& exit_code);
// `rose bench ops` (bench_ops.cc).
void AddBenchOps(CLI::App& bench, int& exit_code);
// `rose bench serve` (bench_serve.cc).
void AddBenchServe(CLI::App& bench, int& exit_code);
// `rose bench tokenize` (bench_tokenize.cc).
void AddBenchTokenize(CLI::App& bench, int& exit_code);

}  // namespace rose

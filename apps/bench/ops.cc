// rose bench ops: the time of every op at the shapes of a model, what it moves and multiplies, and
// the same by a library.
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <set>

#include "base/json.h"
#include "base/out_of_memory.h"
#include "bench/bench.h"
#include "bench/ops_attention.h"
#include "bench/ops_cases.h"
#include "commands.h"
#include "load/load_report.h"
#include "ops/cuda/cuda_meter.h"

namespace rose {
namespace {

constexpr double kLibraryBound = 1e-4;

struct OpsOptions {
  ModelOptions model;
  std::vector<std::string> ops;  // beginnings of names; empty = all
  std::vector<int64_t> tokens = {1, 16, 512};
  std::vector<int64_t> contexts = {3000};
  std::string dense;  // format of made-up dense matrices; "" = the model's own
  int64_t ms = 200;   // of every op
};

// What a case was measured to take.
struct OpMeasured {
  std::vector<double> us, library_us, read_us;
  std::string library;     // its name
  std::string no_library;  // why there is none
  bool is_recorded = false;
  OpChecked checked;
  std::optional<GpuClocks> clocks;
};

std::string Format(const char* format, auto... values) {
  char text[256];
  std::snprintf(text, sizeof text, format, values...);
  return text;
}

// Microseconds.
Spread MicrosecondSpread(std::vector<double> us) {
  for (double& value : us) value *= 1e-3;  // Spread's unit is milliseconds
  return SpreadOf(std::move(us));
}

std::string TimesJson(const char* prefix, const Spread& spread) {
  return Format("\"%sus\": %.3f, \"%sus_p10\": %.3f, \"%sus_p90\": %.3f", prefix, spread.p50,
                prefix, spread.p10, prefix, spread.p90);
}

Status CheckBounds(const OpCase& op, const char* whose, const OpChecked& checked) {
  if (checked.one_minus_cos <= checked.bound) return Status();
  return Status(StatusCode::kInternal,
                StrCat(op.op, " of ", op.tokens, " tokens: the result of ", whose,
                       " is wrong: 1 - cosine to the reference is ", checked.one_minus_cos,
                       ", and may be ", checked.bound));
}

Status MeasureCase(OpInputs& in, OpCase& op, const OpsOptions& options, OpMeasured& measured) {
  op.begin();
  std::vector<MeteredCalls> calls = {op.calls};
  size_t library = 0, read = 0;  // places in `calls`
  if (op.product) {
    Result<MeteredCalls> product = in.meter().LibraryCalls(*op.product, measured.library);
    measured.no_library = product.status().message();
    if (product.ok()) {
      library = calls.size();
      calls.push_back(std::move(product).value());
    }
  }
  if (Result<MeteredCalls> reads = in.meter().ReadCalls(op.work.bytes); reads.ok()) {
    read = calls.size();
    calls.push_back(std::move(reads).value());
  }
  const std::vector<MeteredTimes> times = in.meter().Time(calls, options.ms);
  const auto add = [&](std::vector<double>& to, size_t which) {
    to.insert(to.end(), times[which].us.begin(), times[which].us.end());
  };
  add(measured.us, 0);
  if (library > 0) add(measured.library_us, library);
  if (read > 0) add(measured.read_us, read);
  measured.is_recorded = times[0].is_recorded;
  measured.clocks = in.meter().clocks();
  ROSE_ASSIGN_OR_RETURN(measured.checked, op.check());
  ROSE_RETURN_IF_ERROR(CheckBounds(op, "rose", measured.checked));
  if (library == 0) return Status();
  // A baseline that computes something else is none. It may add parts of a sum in bf16.
  ROSE_ASSIGN_OR_RETURN(OpChecked theirs, op.check_product());
  theirs.bound = kLibraryBound;
  return CheckBounds(op, "the library", theirs);
}

void PrintCase(const LoadedModel& loaded, const std::string& machine, const OpCase& op,
               const OpMeasured& measured) {
  const Spread spread = MicrosecondSpread(measured.us);
  std::string json = StrCat("{\"bench\": \"ops\", ", machine, ", \"op\": \"", op.op,
                            "\", \"tokens\": ", op.tokens);
  if (op.context >= 0) json += StrCat(", \"context\": ", op.context);
  if (!op.format.empty()) json += StrCat(", \"format\": \"", op.format, "\"");
  json += StrCat(", ", TimesJson("", spread), ", \"samples\": ", spread.count,
                 ", \"calls\": ", op.calls.count, ", \"timed\": \"",
                 IsOnGpu(*loaded.ops) ? (measured.is_recorded ? "graph" : "stream") : "host", "\"");
  json += Format(", \"bytes\": %.0f, \"flops\": %.0f, \"gb_per_s\": %.1f, \"tflop_per_s\": %.3f",
                 op.work.bytes, op.work.flops, op.work.bytes / spread.p50 * 1e-3,
                 op.work.flops / spread.p50 * 1e-6);
  const double floor_us = 1e6 * FloorSeconds(loaded, {op.work});
  if (floor_us > 0) {
    json +=
        Format(", \"floor_us\": %.3f, \"share_of_floor\": %.3f", floor_us, floor_us / spread.p50);
  }
  if (op.work.experts > 0) json += Format(", \"experts\": %.1f", op.work.experts);
  Spread baseline;
  if (!measured.library_us.empty()) {
    baseline = MicrosecondSpread(measured.library_us);
    json += StrCat(", \"baseline\": {\"name\": \"", measured.library, "\", ",
                   TimesJson("", baseline), "}");
  } else if (!measured.read_us.empty()) {
    baseline = MicrosecondSpread(measured.read_us);
    json += StrCat(", \"baseline\": {\"name\": \"read\", ", TimesJson("", baseline), "}");
    if (!measured.no_library.empty()) {
      json += ", \"baseline_note\": ";
      AppendJsonString(json, measured.no_library);
    }
  } else {
    json += ", \"baseline\": null";
  }
  if (!measured.read_us.empty())
    json += Format(", \"read_us\": %.3f", MicrosecondSpread(measured.read_us).p50);
  json += Format(", \"checked\": {\"rows\": %lld, \"one_minus_cos\": %.3g, \"bound\": %.3g}",
                 static_cast<long long>(measured.checked.rows), measured.checked.one_minus_cos,
                 measured.checked.bound);
  if (measured.clocks) {
    json += StrCat(", \"sm_mhz\": ", measured.clocks->sm_mhz,
                   ", \"memory_mhz\": ", measured.clocks->memory_mhz);
  }
  std::printf("%s}\n", json.c_str());
  std::fflush(stdout);
  if (::isatty(STDERR_FILENO) == 0) return;
  std::fprintf(stderr, "%-24s %6lld %7s %10.2f us  floor %4.0f %%  %-16s %10.2f us  x%.2f\n",
               op.op.c_str(), static_cast<long long>(op.tokens),
               op.context < 0 ? "" : std::to_string(op.context).c_str(), spread.p50,
               100 * floor_us / spread.p50,
               measured.library_us.empty() ? (measured.read_us.empty() ? "-" : "read")
                                           : measured.library.c_str(),
               baseline.p50, baseline.p50 / spread.p50);
}

bool IsWanted(const OpsOptions& options, const std::string& op) {
  return options.ops.empty() ||
         std::any_of(options.ops.begin(), options.ops.end(),
                     [&](const std::string& name) { return op.starts_with(name); });
}

// A name that no case begins with is a typing error, or wants other tokens.
Status CheckNames(const std::vector<std::string>& names, const std::vector<PlannedCase>& cases) {
  std::set<std::string> ops;
  for (const PlannedCase& planned : cases) ops.insert(planned.op);
  std::string known;
  for (const std::string& op : ops) known += StrCat(known.empty() ? "" : ", ", op);
  for (const std::string& name : names) {
    const auto begins_so = [&](const std::string& op) { return op.starts_with(name); };
    if (!name.empty() && std::ranges::any_of(ops, begins_so)) continue;
    return InvalidArgument("--op '", name, "': no op begins so; for this model and these tokens ",
                           "there are ", known);
  }
  return Status();
}

Status RunOps(const OpsOptions& options) {
  ROSE_ASSIGN_OR_RETURN(const LoadedModel loaded, LoadModelWithBar(options.model));
  ROSE_ASSIGN_OR_RETURN(const auto weights,
                        BenchWeights::Create(loaded, options.model, options.dense));
  const std::unique_ptr<OpMeter> meter =
      weights->is_on_gpu() ? CreateCudaMeter(*loaded.ops) : CreateHostMeter();
  OpInputs inputs(*weights, *meter,
                  *std::max_element(options.tokens.begin(), options.tokens.end()));
  std::vector<PlannedCase> cases;
  for (int64_t tokens : options.tokens) {
    const std::vector<PlannedCase> of_layer = LayerCases(inputs, tokens);
    cases.insert(cases.end(), of_layer.begin(), of_layer.end());
    for (int64_t context : options.contexts) {
      const std::vector<PlannedCase> more = AttentionCases(inputs, tokens, context);
      cases.insert(cases.end(), more.begin(), more.end());
    }
  }
  ROSE_RETURN_IF_ERROR(CheckNames(options.ops, cases));
  std::erase_if(cases, [&](const PlannedCase& c) { return !IsWanted(options, c.op); });
  const std::string machine = MachineJson(loaded, options.model);
  for (const PlannedCase& planned : cases) {
    ROSE_ASSIGN_OR_RETURN(OpCase op, planned.make());
    OpMeasured measured;
    const Status status = MeasureCase(inputs, op, options, measured);
    if (status.ok() || measured.checked.rows > 0) PrintCase(loaded, machine, op, measured);
    ROSE_RETURN_IF_ERROR(status);
  }
  return Status();
}

}  // namespace

void AddBenchOps(CLI::App& bench, int& exit_code) {
  auto options = std::make_shared<OpsOptions>();  // shared with the callback
  CLI::App* command = bench.add_subcommand(
      "ops", "Time of every op, what it moves and multiplies, and a library's time for the same");
  AddModelOptions(*command, options->model);
  command->add_option("--op", options->ops, "Ops whose names begin so (default: all)")
      ->delimiter(',');
  command->add_option("--tokens,--rows", options->tokens, "Numbers of rows, each measured")
      ->delimiter(',')
      ->check(CLI::Range(1, 1 << 16))
      ->capture_default_str();
  command->add_option("--context", options->contexts, "Keys before the rows, for attention")
      ->delimiter(',')
      ->check(CLI::Range(0, 1 << 20))
      ->capture_default_str();
  command
      ->add_option("--dense", options->dense,
                   "Made-up matrices of this format for qkv and o, instead of the model's")
      ->check(CLI::IsMember({"bf16", "fp8-block"}));
  command->add_option("--ms", options->ms, "Milliseconds spent on every op")
      ->check(CLI::Range(1, 60000))
      ->capture_default_str();
  command->footer(
      "Ops: add_rms_norm, qkv, o, route, experts_gate_up, experts_down, rope_append_kv,\n"
      "attention_decode_full and _sliding (up to 256 tokens, each a user's at the context),\n"
      "attention_prefill_full and _sliding (from 16 tokens), and, up to 256 tokens, lm_head,\n"
      "draw_greedy, draw_random, draw_top_p.\n"
      "Every result is compared with the reference at some rows; a wrong one is exit code 1.\n"
      "On a GPU calls take turns over weights and caches of more than 200 MB, and cuBLASLt is\n"
      "looked for in LD_LIBRARY_PATH.\n"
      "Examples:\n"
      "  rose bench ops --like 20b --tokens 1,8,64,512,8192 --context 1024\n"
      "  rose bench ops --like 120b --op experts --tokens 1,8\n"
      "  rose bench ops --like 20b --op qkv,o --dense fp8-block\n"
      "  rose bench ops models/rosebud --device cpu");
  command->callback([options, &exit_code] {
    try {
      if (const Status status = RunOps(*options); !status.ok()) exit_code = ReportFailure(status);
    } catch (const OutOfMemory& error) {
      exit_code = ReportFailure(Unavailable(error.what()));
    }
  });
}

}  // namespace rose

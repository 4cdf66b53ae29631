// rose profile: where the time of a step goes.
#include <algorithm>
#include <cstdio>
#include <memory>
#include <string>
#include <string_view>

#include "bench/bench.h"
#include "bench/median.h"
#include "commands.h"
#include "profile/run.h"

namespace rose {
namespace {

struct ProfileOptions {
  ModelOptions model;
  ProfileLoad load;
  bool json = false;
};

// A run that no mark between ops disturbed: medians over its steps.
struct StepTimes {
  bool on_gpu = false;
  bool is_pipelined = false;
  double step_us = 0;  // from the begin of its upload to that of the next; on a CPU, of Submit
  double forward_us = 0, draw_us = 0, upload_us = 0;
  double idle_us = 0, idle_share = 0;  // at nothing; the share is of all steps together
  double plan_us = 0, submit_us = 0, wait_us = 0;
};

StepTimes TimesOf(const ProfiledRun& run, bool on_gpu) {
  std::vector<double> step, forward, draw, upload, idle, plan, submit, wait;
  double all = 0, all_idle = 0;
  for (const TimedStep& timed : run.steps) {
    if (!on_gpu) break;
    double at_forward = 0, at_draw = 0, at_upload = 0, at_nothing = 0;
    for (const TimedOp& part : timed.ops) {
      const std::string_view name = part.op.name == nullptr ? "" : part.op.name;
      double& sum = name == "forward"                         ? at_forward
                    : name == "upload"                        ? at_upload
                    : name == "draw" || name == "feed_tokens" ? at_draw
                                                              : at_nothing;
      sum += part.us;
    }
    forward.push_back(at_forward), draw.push_back(at_draw), upload.push_back(at_upload);
    idle.push_back(at_nothing);
    step.push_back(at_forward + at_draw + at_upload + at_nothing);
    all += step.back(), all_idle += at_nothing;
  }
  for (const HostStep& host : run.host) {
    submit.push_back(host.submit_us), wait.push_back(host.wait_us);
    plan.push_back(host.period_us - host.submit_us - host.wait_us);
    if (!on_gpu) step.push_back(host.period_us);
  }
  return {.on_gpu = on_gpu,
          .is_pipelined = run.is_pipelined,
          .step_us = Median(step),
          .forward_us = Median(forward),
          .draw_us = Median(draw),
          .upload_us = Median(upload),
          .idle_us = Median(idle),
          .idle_share = on_gpu ? all_idle / all : 0,
          .plan_us = Median(plan),
          .submit_us = Median(submit),
          .wait_us = Median(wait)};
}

std::string Rate(double amount, double us, double unit, const char* format) {
  if (amount < 0 || us <= 0) return "";
  char text[32];
  std::snprintf(text, sizeof(text), format, amount / (us * 1e-6) / unit);
  return text;
}

double SumOf(const std::vector<OpFamily>& families) {
  double sum = 0;
  for (const OpFamily& family : families) sum += family.us;
  return sum;
}

void PrintSteps(const std::vector<StepTimes>& runs) {
  if (!runs.front().on_gpu) {
    const StepTimes& r = runs.front();
    std::printf("a step: %.1f us; of these the engine's own %.1f\n", r.step_us, r.plan_us);
    return;
  }
  std::printf("\n%-16s %10s %10s %8s %8s %8s %7s   %8s %8s %10s\n", "undisturbed, us", "a step",
              "forward", "draw", "upload", "idle", "idle", "plan", "submit", "wait");
  for (const StepTimes& r : runs) {
    std::printf("%-16s %10.1f %10.1f %8.1f %8.1f %8.1f %6.2f%%   %8.1f %8.1f %10.1f\n",
                r.is_pipelined ? "pipelined" : "one at a time", r.step_us, r.forward_us, r.draw_us,
                r.upload_us, r.idle_us, 100 * r.idle_share, r.plan_us, r.submit_us, r.wait_us);
  }
}

void PrintTables(const LoadedModel& loaded, const ProfileLoad& load,
                 const std::vector<OpFamily>& families, const std::vector<StepTimes>& runs) {
  if (load.prefill > 0) {
    std::printf("%s: steps of %lld tokens of a prompt\n", loaded.name.c_str(),
                static_cast<long long>(load.prefill));
  } else {
    std::printf("%s: steps of %lld users behind prompts of %lld tokens\n", loaded.name.c_str(),
                static_cast<long long>(load.users), static_cast<long long>(load.prompt));
  }
  const double sum = SumOf(families);
  std::printf("\n%-26s %6s %10s %7s %8s %8s\n", "op", "count", "us", "share", "GB/s", "TFLOP/s");
  for (const OpFamily& f : families) {
    std::printf("%-26s %6.0f %10.1f %6.1f%% %8s %8s\n", f.name.c_str(), f.count, f.us,
                100 * f.us / sum, Rate(f.bytes, f.us, 1e9, "%.0f").c_str(),
                Rate(f.flops, f.us, 1e12, "%.3g").c_str());
  }
  std::printf("%-26s %6s %10.1f\n", "all", "", sum);
  PrintSteps(runs);
}

void PrintJson(const LoadedModel& loaded, const ProfileOptions& options,
               const std::vector<OpFamily>& families, const std::vector<StepTimes>& runs) {
  const ProfileLoad& load = options.load;
  std::printf(
      "{\"profile\": \"%s\", %s, \"users\": %lld, \"tokens\": %lld, \"steps\": %lld, \"ops\": [",
      load.prefill > 0 ? "prefill" : "decode", MachineJson(loaded, options.model).c_str(),
      static_cast<long long>(load.prefill > 0 ? 1 : load.users),
      static_cast<long long>(load.prefill > 0 ? load.prefill : load.prompt),
      static_cast<long long>(load.steps));
  const double sum = SumOf(families);
  for (const OpFamily& f : families) {
    std::printf(
        "%s{\"op\": \"%s\", \"count\": %.2f, \"us\": %.2f, \"marked_us\": %.2f, \"share\": %.4f",
        &f == families.data() ? "" : ", ", f.name.c_str(), f.count, f.us, f.marked_us, f.us / sum);
    if (f.bytes >= 0) std::printf(", \"gb_per_s\": %s", Rate(f.bytes, f.us, 1e9, "%.1f").c_str());
    if (f.flops >= 0)
      std::printf(", \"tflop_per_s\": %s", Rate(f.flops, f.us, 1e12, "%.3f").c_str());
    std::printf("}");
  }
  std::printf("], \"ops_us\": %.2f, \"undisturbed\": [", sum);
  for (const StepTimes& r : runs) {
    std::printf("%s{\"pipelined\": %s, \"step_us\": %.2f", &r == runs.data() ? "" : ", ",
                r.is_pipelined ? "true" : "false", r.step_us);
    if (r.on_gpu) {
      std::printf(
          ", \"forward_us\": %.2f, \"draw_us\": %.2f, \"upload_us\": %.2f, \"idle_us\": %.2f, "
          "\"idle_share\": %.4f",
          r.forward_us, r.draw_us, r.upload_us, r.idle_us, r.idle_share);
    }
    std::printf(", \"plan_us\": %.2f, \"submit_us\": %.2f, \"wait_us\": %.2f}", r.plan_us,
                r.submit_us, r.wait_us);
  }
  std::printf("]%s}\n", ClocksJson(loaded).c_str());
}

Status RunProfileCommand(const ProfileOptions& options) {
  ROSE_ASSIGN_OR_RETURN(const LoadedModel loaded, LoadModelWithBar(options.model));
  const bool on_gpu = IsOnGpu(*loaded.ops);
  const ProfileLoad& load = options.load;
  std::vector<StepTimes> runs;
  for (const bool is_pipelined : {false, true}) {
    // Of prompts, one has to end before the next begins.
    if (!on_gpu || (is_pipelined && load.prefill > 0)) continue;
    ROSE_ASSIGN_OR_RETURN(const ProfiledRun run,
                          RunProfile(loaded, load, OpTiming::kSteps, is_pipelined));
    runs.push_back(TimesOf(run, on_gpu));
  }
  ROSE_ASSIGN_OR_RETURN(const ProfiledRun run,
                        RunProfile(loaded, load, OpTiming::kOps, /*is_pipelined=*/false));
  if (!on_gpu) runs.push_back(TimesOf(run, on_gpu));
  std::vector<OpFamily> families = FamiliesOf(loaded, run.steps);
  const double mark_us = on_gpu ? TakeOffMarks(families, runs.front().forward_us) : 0;
  if (options.json) {
    PrintJson(loaded, options, families, runs);
  } else {
    PrintTables(loaded, load, families, runs);
    if (on_gpu)
      std::printf("an event behind an op added %.2f us, which is taken off above\n", mark_us);
  }
  return Status();
}

}  // namespace

void AddProfile(CLI::App& app, int& exit_code) {
  auto options = std::make_shared<ProfileOptions>();  // shared with the callback
  CLI::App* command = app.add_subcommand("profile", "Where the time of a step goes, op by op");
  AddModelOptions(*command, options->model);
  ProfileLoad& load = options->load;
  command->add_option("--users", load.users, "Sequences that decode")
      ->check(CLI::Range(1, 256))
      ->capture_default_str();
  command->add_option("--prompt", load.prompt, "Tokens of each one's prompt")
      ->check(CLI::Range(1, 1 << 20))
      ->capture_default_str();
  command->add_option("--steps", load.steps, "Steps that are measured; with --prefill, prompts")
      ->check(CLI::Range(1, 10'000))
      ->capture_default_str();
  command
      ->add_option("--prefill", load.prefill,
                   "Instead of decoding: a prompt of so many tokens, in one step")
      ->check(CLI::Range(2, 1 << 16));
  command->add_flag("--json", options->json, "One line of JSON instead of tables");
  command->footer(
      "Runs through the engine, three times. Twice with events of the GPU around a step's upload,\n"
      "forward pass (a graph, where it is one) and draws alone: 'idle' is the time at none of "
      "them.\n"
      "A third time with an event behind every op, within graphs too: what an op takes is from "
      "the\n"
      "one to the next, medians over steps. Events take time, and ops cannot overlap then as they\n"
      "do otherwise: what they take together beyond an undisturbed forward pass is taken off, the\n"
      "same from each ('marked_us' of JSON has it still), so that small ops are an estimate.\n"
      "GB/s are of weights and KV pages, experts as if each token chose evenly.\n"
      "Host: 'plan' is what the engine does outside of submitting a step and waiting for it.\n"
      "On a CPU, whose ops are done when they return, one run has it all.\n"
      "Examples:\n"
      "  rose profile models/rosebud\n"
      "  rose profile --like 20b --users 1 --prompt 1024\n"
      "  rose profile --like 120b --users 16 --json\n"
      "  rose profile --like 20b --prefill 8192 --steps 10");
  command->callback([options, &exit_code] {
    if (const Status status = RunProfileCommand(*options); !status.ok())
      exit_code = ReportFailure(status);
  });
}

}  // namespace rose

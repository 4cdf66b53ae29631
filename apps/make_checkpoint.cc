// rose make-checkpoint: a checkpoint of made-up weights, full-size if wanted.
#include "checkpoint/make_checkpoint.h"

#include <signal.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <memory>

#include "base/cpu.h"
#include "base/progress.h"
#include "commands.h"
#include "models/model.h"
#include "not_empty.h"
#include "random_options.h"
#include "signals.h"

namespace rose {
namespace {

struct MakeCommand {
  RandomChoice random;
  std::string out, tokenizer;
  int threads = 0;
};

Status RunMake(MakeCommand command) {
  // A limit on file sizes is then a failed write like a full disk, with a message.
  ::signal(SIGXFSZ, SIG_IGN);
  while (command.out.size() > 1 && command.out.back() == '/') command.out.pop_back();
  ROSE_ASSIGN_OR_RETURN(const LikeConfig config, FindLikeConfig(command.random.like));
  ROSE_ASSIGN_OR_RETURN(const std::unique_ptr<Model> model, CreateModel(config.json));
  std::atomic<bool> stop = false;
  // A second signal does not wait for the disk.
  const SignalWatcher signals([&](int count) {
    stop = true;
    if (count > 1) std::_Exit(1);
  });
  Result<MakeCheckpointSummary> made = [&] {
    ProgressBar bar("writing", stderr);
    return MakeCheckpoint(
        config.json, model->tensors(),
        {.random = ToRandomOptions(command.random),
         .out = command.out,
         .side_files = command.tokenizer,
         .stop = &stop,
         .threads = command.threads > 0 ? command.threads : AvailableCpus(),
         .progress = [&](const LoadProgress& p) { bar.Update(p.done_bytes, p.total_bytes); }});
  }();
  if (!made.ok()) return made.status();
  std::printf("%s: like %s, seed %llu, %lld tensors in %lld files, %s\n", command.out.c_str(),
              config.name.c_str(), static_cast<unsigned long long>(command.random.seed),
              static_cast<long long>(made->tensors), static_cast<long long>(made->files),
              BytesText(made->bytes).c_str());
  return Status();
}

}  // namespace

void AddMakeCheckpoint(CLI::App& app, int& exit_code) {
  auto options = std::make_shared<MakeCommand>();  // shared with the callback
  CLI::App* command = app.add_subcommand(
      "make-checkpoint", "Write made-up weights of a model's size, for measurements");
  command
      ->add_option("--like", options->random.like,
                   "The model: 20b, 120b, a config.json, or a folder that has one")
      ->required()
      ->check(NotEmpty("a model is needed"));
  command->add_option("--out", options->out, "Folder to make")
      ->required()
      ->check(NotEmpty("a folder is needed"));
  AddRandomOptions(*command, "--seed", options->random);
  command
      ->add_option("--tokenizer", options->tokenizer,
                   "Folder whose tokenizer, chat template and generation_config.json are copied")
      ->check(CLI::ExistingDirectory);
  command->add_option("--threads", options->threads, "Threads (default: all processors)")
      ->check(CLI::Range(1, 1024));
  command->footer(
      "The weights are those that --load-format random makes of the same options, on any device.\n"
      "They compute as fast and as exactly as trained ones do, and answer nonsense.\n\n"
      "Examples:\n"
      "  rose make-checkpoint --like 20b --seed 1 --out /dev/shm/20b\n"
      "  rose make-checkpoint --like 120b --routing zipf:1.0 --out 120b-skewed");
  command->callback([options, &exit_code] {
    if (const Status status = RunMake(*options); !status.ok()) exit_code = ReportFailure(status);
  });
}

}  // namespace rose

// rose batch: the answers to a file of requests, without a server.
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>
#include <vector>

#include "base/progress.h"
#include "batch/files.h"
#include "batch/run.h"
#include "commands.h"
#include "serving_model.h"
#include "signals.h"

namespace rose {
namespace {

// Requests ready for the engine beside those that it runs, so that it never waits for the next.
constexpr int64_t kReady = 16;

struct BatchOptions {
  ServingOptions model;
  std::string in, out;
  std::vector<std::string> names;  // empty = the folder's
};

void Report(const BatchOptions& options, const BatchInput& input, const BatchOutput& output,
            const BatchCounts& counts) {
  const int64_t left = input.size() - output.found() - counts.answered - counts.failed;
  std::string text = StrCat(counts.answered, " answered, ", counts.failed, " failed");
  if (output.found() > 0) text += StrCat(", ", output.found(), " were there before");
  if (left > 0) text += StrCat(", ", left, " left: the same command goes on");
  std::fprintf(stderr, "%s: %s.\n", options.out.c_str(), text.c_str());
}

// True if every request has an answer, and each of this run's a good one.
Result<bool> Batch(BatchOptions options) {
  // Before any thread: they inherit that signals come here.
  std::atomic<bool> running = false, stop = false;
  SignalWatcher signals([&](int count) {
    if (count > 1 || !running) std::_Exit(1);
    std::fputs("\nStopping: no new requests; those that run are finished (again: stop now).\n",
               stderr);
    stop = true;
  });
  ROSE_ASSIGN_OR_RETURN(BatchInput input, BatchInput::Open(options.in));
  ROSE_ASSIGN_OR_RETURN(BatchOutput output, BatchOutput::Open(options.out, input));
  BatchCounts counts;
  Status status;
  if (output.found() < input.size()) {
    // One line may ask for many choices, which all wait in the engine.
    options.model.engine.max_waiting = int64_t{1} << 20;
    ROSE_ASSIGN_OR_RETURN(ServingModel model, LoadServingModel(options.model));
    ROSE_ASSIGN_OR_RETURN(const ApiContext context, MakeApiContext(model, options.names));
    BatchRun run(*model.engine, context, input, output, options.model.engine.max_running + kReady);
    running = true;
    ProgressBar bar("answering", stderr, "requests");
    status = run.Run(stop, [&bar](int64_t done, int64_t total) { bar.Update(done, total); });
    running = false;
    counts = run.counts();
  }
  Report(options, input, output, counts);
  ROSE_RETURN_IF_ERROR(status);
  return counts.failed == 0 && output.found() + counts.answered == input.size();
}

}  // namespace

void AddBatch(CLI::App& app, int& exit_code) {
  auto options = std::make_shared<BatchOptions>();
  CLI::App* command = app.add_subcommand("batch", "Answer a file of requests, without a server");
  command->add_option("IN", options->in, "Requests, one JSON object a line")->required();
  command->add_option("OUT", options->out, "Answers, one JSON object a line; taken up if it exists")
      ->required();
  AddServingOptions(*command, options->model);
  command->add_option("--served-model-name", options->names,
                      "Name of the model in the requests; several are all accepted (default: the "
                      "name of the folder)");
  command
      ->add_option("--max-running", options->model.engine.max_running, "Answers computed at a time")
      ->check(CLI::Range(int64_t{1}, int64_t{1} << 16))
      ->capture_default_str();
  command->footer(
      "A request is what the API's batch files hold:\n"
      "  {\"custom_id\": \"1\", \"method\": \"POST\", \"url\": \"/v1/chat/completions\",\n"
      "   \"body\": {\"messages\": [{\"role\": \"user\", \"content\": \"What is 2 + 3?\"}]}}\n"
      "(on one line), its answer {\"id\", \"custom_id\", \"response\": {\"status_code\",\n"
      "\"request_id\", \"body\"}, \"error\"}. Answers come as they are ready; custom_id tells\n"
      "which is which. A request that fails has its error in its line, and the others go on.\n"
      "\n"
      "An interrupted run is taken up by the same command: answers that stand whole in OUT are\n"
      "kept. To ask a request again, delete its line there. Ctrl-C finishes what runs; a second\n"
      "one ends at once, and loses only that.\n"
      "\n"
      "Exit code: 0 all that this run asked was answered, 1 some of it failed or is left, 2 wrong "
      "use.\n"
      "\n"
      "Examples:\n"
      "  rose batch questions.jsonl answers.jsonl\n"
      "  rose batch questions.jsonl answers.jsonl ./gpt-oss-20b --max-running 64\n"
      "  jq -r '.custom_id + \": \" + .response.body.choices[0].message.content' answers.jsonl");
  command->callback([options, &exit_code] {
    const Result<bool> all = Batch(*options);
    exit_code = !all.ok() ? ReportFailure(all.status()) : *all ? 0 : 1;
  });
}

}  // namespace rose

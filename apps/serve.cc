// rose serve: the OpenAI-compatible HTTP API over one model, until a signal ends it.
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <mutex>
#include <sstream>
#include <utility>

#include "answer_printer.h"
#include "base/env.h"
#include "base/file.h"
#include "base/memory.h"
#include "commands.h"
#include "demo.h"
#include "descriptors.h"
#include "not_empty.h"
#include "server/access_log.h"
#include "server/api_service.h"
#include "server/http_server.h"
#include "serving_model.h"
#include "signals.h"

namespace rose {
namespace {

struct ServeOptions {
  ServingOptions model;
  HttpServerConfig http;
  std::vector<std::string> names;  // empty = the folder's
  std::string access_log = "-";
  std::vector<std::string> keys;
  std::string key_file;
  std::string tls_certificate, tls_key;  // both or none
  int drain_seconds = 30;
  ResponseStoreLimits responses;
  bool demo = false;
  bool port_given = false;
};

// Set by a signal, waited for by the command.
class StopFlag {
 public:
  void Set() {
    const std::lock_guard lock(mutex_);
    set_ = true;
    changed_.notify_all();
  }
  void Wait() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return set_; });
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  bool set_ = false;
};

// Listens on the port asked for. The demonstration takes the next free one instead.
Result<std::unique_ptr<HttpServer>> Listen(const ServeOptions& options, HttpServerConfig config,
                                           const HttpHandler& handler) {
  constexpr int kPortsTried = 100;
  const int last = options.demo && !options.port_given ? config.port + kPortsTried : config.port;
  while (true) {
    auto server = std::make_unique<HttpServer>(config, handler);
    const Status started = server->Start();
    if (started.ok()) return server;
    if (started.code() != StatusCode::kUnavailable || config.port >= last) return started;
    std::fprintf(stderr, "Port %d is in use; trying %d.\n", config.port, config.port + 1);
    ++config.port;
  }
}

// The keys of flags, file and environment.
Status AddKeys(const ServeOptions& options, AccessPolicy& access) {
  constexpr int64_t kMaxKeyFile = 1 << 20;
  std::vector<std::string> keys = options.keys;
  if (std::string key = ReadEnvironment().api_key; !key.empty()) keys.push_back(std::move(key));
  if (!options.key_file.empty()) {
    ROSE_ASSIGN_OR_RETURN(const std::string text, ReadFile(options.key_file, kMaxKeyFile));
    std::istringstream lines(text);
    const size_t before = keys.size();
    for (std::string line; std::getline(lines, line);) {
      line.resize(line.find_last_not_of(" \t\r") + 1);
      if (!line.empty() && line[0] != '#') keys.push_back(std::move(line));
    }
    // Else a typing error would open the server to all.
    if (keys.size() == before) {
      return InvalidArgument("'", options.key_file, "' holds no key; write one a line");
    }
  }
  for (const std::string& key : keys) {
    if (key.empty() ||
        !std::all_of(key.begin(), key.end(), [](char c) { return c > ' ' && c < 127; }))
      return InvalidArgument("an API key must be printable characters without blanks");
  }
  access.keys = std::move(keys);
  return Status();
}

// Null without the options.
Result<std::shared_ptr<const TlsContext>> LoadTls(const ServeOptions& options) {
  if (options.tls_certificate.empty() != options.tls_key.empty()) {
    return InvalidArgument("--tls-cert and --tls-key go together; give both or none");
  }
  if (options.tls_certificate.empty()) return std::shared_ptr<const TlsContext>();
  if (options.demo) return InvalidArgument("--demo asks over plain HTTP; leave --tls-cert out");
  return TlsContext::Load(options.tls_certificate, options.tls_key);
}

// To standard error, unless nobody reads it: a server has to end all the same.
void Say(const std::string& what) {
  constexpr int kPatienceMs = 1000;
  if (TakesBytes(STDERR_FILENO, kPatienceMs)) std::fprintf(stderr, "%s\n", what.c_str());
}

// Lets what runs come to its end. False if something was cut off.
bool Drain(ApiService& service, HttpServer& server, Engine& engine, int seconds) {
  constexpr int64_t kFlushMs = 5'000;
  service.StartDraining();
  Say(StrCat("Stopping: no new requests; up to ", seconds, " s for those that run."));
  const int64_t left = engine.Drain(int64_t{seconds} * 1000);
  if (left > 0) {
    Say(StrCat("rose: ", left, " requests were cut off."));
  }
  // Those that were cut off still get their error, and the end of their streams.
  return server.Drain(kFlushMs) && left == 0;
}

Result<bool> Serve(const ServeOptions& options) {
  // Before any thread: they inherit that signals come here. A second one ends all at once, and so
  // does the first while there is nothing to drain.
  StopFlag stop;
  std::atomic<bool> serving = false;
  SignalWatcher signals([&](int count) {
    if (count > 1 || !serving) std::_Exit(count > 1 ? 1 : 0);
    stop.Set();
  });
  // A log or terminal that is closed, or a log that may not grow, is no reason to stop serving.
  std::signal(SIGPIPE, SIG_IGN);
  std::signal(SIGXFSZ, SIG_IGN);
  RaiseDescriptorLimit();
  ReturnLargeBlocks();
  ROSE_ASSIGN_OR_RETURN(AccessLog log, AccessLog::Open(options.access_log));
  ApiService service;
  HttpServerConfig config = options.http;
  ROSE_RETURN_IF_ERROR(AddKeys(options, config.access));
  ROSE_ASSIGN_OR_RETURN(config.tls, LoadTls(options));
  config.on_finished = [&](const AccessRecord& record) {
    if (!log.Write(record)) service.OnLogLineLost();
    service.OnFinished(record);
  };
  // Listening comes first: a port in use is found before a long load, and /health can say 503.
  ROSE_ASSIGN_OR_RETURN(const std::unique_ptr<HttpServer> server,
                        Listen(options, config, [&service](HttpRequest request, auto writer) {
                          service.Handle(std::move(request), std::move(writer));
                        }));
  // A process whose engine failed is of no use: whoever started it starts it again.
  Status failure;  // read when the engine is gone
  ServingOptions model_options = options.model;
  model_options.engine.on_failure = [&](const std::string& reason) {
    failure = Status(StatusCode::kInternal, "the engine failed: " + reason);
    stop.Set();
  };
  ROSE_ASSIGN_OR_RETURN(ServingModel model, LoadServingModel(model_options));
  ROSE_ASSIGN_OR_RETURN(const ApiContext context, MakeApiContext(model, options.names));
  service.SetReady(*model.engine, context, options.responses);
  serving = true;
  std::string url = BaseUrl(options.http.host, server->port());
  if (config.tls) url.insert(4, "s");  // https
  std::fprintf(stderr, "%s\nrose %s serves '%s' at %s (Ctrl-C stops)\n", model.summary.c_str(),
               ROSE_VERSION, context.models.front().c_str(), url.c_str());
  Status shown;
  if (options.demo) {
    shown =
        RunDemo({.host = options.http.host, .port = server->port(), .model = context.models[0]});
  }
  if (shown.ok() && !(options.demo && isatty(STDOUT_FILENO) == 0)) stop.Wait();
  const bool drained = Drain(service, *server, *model.engine, options.drain_seconds);
  // Nobody may hold a writer when the server goes: connections, workers and engine end before it.
  server->Stop();
  service.Stop();
  model.engine.reset();
  ROSE_RETURN_IF_ERROR(shown);
  ROSE_RETURN_IF_ERROR(failure);
  return drained;
}

void AddHttpOptions(CLI::App& command, ServeOptions& options) {
  HttpServerConfig& http = options.http;
  command.add_option("--host", http.host, "Address to listen on; 0.0.0.0 for all")
      ->check(NotEmpty("an address is needed"))
      ->capture_default_str();
  command.add_option("--port", http.port, "Port to listen on; 0 for any free one")
      ->check(CLI::Range(0, 65535))
      ->capture_default_str();
  command.add_option("--served-model-name", options.names,
                     "Name of the model in the API; several are all accepted (default: the name "
                     "of the folder)");
  command.add_option("--max-connections", http.max_connections, "Open connections")
      ->check(CLI::Range(int64_t{1}, int64_t{1} << 20))
      ->capture_default_str();
  command.add_option("--max-body", http.limits.body_bytes, "Largest request body, such as 64M")
      ->transform(CLI::AsSizeValue(/*kb_is_1000=*/false))
      ->check(CLI::Range(int64_t{1}, int64_t{1} << 40))
      ->default_str("64M");
  command.add_option(
      "--api-key", options.keys,
      "Key that requests under /v1 must show, as 'Authorization: Bearer KEY'; several "
      "are all accepted (also: environment variable ROSE_API_KEY)");
  command.add_option("--api-key-file", options.key_file,
                     "File with such keys, one a line; '#' begins a comment");
  command.add_option("--tls-cert", options.tls_certificate,
                     "Serve HTTPS with this certificate (PEM, with those that vouch for it)");
  command.add_option("--tls-key", options.tls_key, "Its key (PEM, without a passphrase)");
  command
      .add_option("--cors-origin", http.access.origins,
                  "Web pages that may use this server, such as https://app.example; * for all")
      ->check([](const std::string& origin) {
        return IsOrigin(origin) ? ""
                                : StrCat("'", origin, "' is no origin; write one as browsers do, ",
                                         "such as https://app.example:8443, or *");
      });
  command
      .add_option("--access-log", options.access_log,
                  "A JSON line for each request, to this file; - is stderr, off is none")
      ->capture_default_str();
  command
      .add_option("--drain-seconds", options.drain_seconds,
                  "How long a stopping server waits for the answers that run")
      ->check(CLI::Range(0, 86400))
      ->capture_default_str();
}

void AddStoreOptions(CLI::App& command, ResponseStoreLimits& limits) {
  command
      .add_option("--stored-responses", limits.count,
                  "Answers of /v1/responses that can be asked for again or continued; 0 for none")
      ->check(CLI::Range(int64_t{0}, int64_t{1} << 30))
      ->capture_default_str();
  command.add_option("--stored-responses-memory", limits.bytes, "Memory for them, such as 256M")
      ->transform(CLI::AsSizeValue(/*kb_is_1000=*/false))
      ->default_str("256M");
  command
      .add_option("--stored-responses-seconds", limits.idle_seconds,
                  "How long one is kept since it was last used")
      ->check(CLI::Range(int64_t{1}, int64_t{1} << 32))
      ->capture_default_str();
}

}  // namespace

void AddServe(CLI::App& app, int& exit_code) {
  auto options = std::make_shared<ServeOptions>();
  CLI::App* command =
      app.add_subcommand("serve", "Serve a model over HTTP, with the API of OpenAI");
  AddServingOptions(*command, options->model);
  AddHttpOptions(*command, *options);
  AddStoreOptions(*command, options->responses);
  command
      ->add_option("--max-running", options->model.engine.max_running, "Answers computed at a time")
      ->check(CLI::Range(int64_t{1}, int64_t{1} << 16))
      ->capture_default_str();
  command
      ->add_option("--max-waiting", options->model.engine.max_waiting,
                   "Requests that may wait for their turn before others get 503")
      ->check(CLI::Range(int64_t{0}, int64_t{1} << 20))
      ->capture_default_str();
  command
      ->add_option("--max-queue-seconds", options->model.engine.max_queue_seconds,
                   "Who would wait longer than this for its turn gets 503; 0 for no limit")
      ->check(CLI::Range(int64_t{0}, int64_t{1} << 30))
      ->capture_default_str();
  command->add_flag("--pipeline,!--no-pipeline", options->model.engine.pipeline,
                    "Plan each step while the one before runs [on a GPU]; on the CPU it only costs "
                    "new requests a step of waiting");
  command
      ->add_option("--host-cache", options->model.host_cache_bytes,
                   "Memory of the host for KV pages that the device has no room for, such as 64G. "
                   "On the CPU more --kv-memory does the same without the copies")
      ->transform(CLI::AsSizeValue(/*kb_is_1000=*/false))
      ->check(CLI::Range(uint64_t{0}, uint64_t{1} << 50))
      ->default_str("0");
  command->add_flag("!--no-prefix-cache", options->model.engine.prefix_cache,
                    "Compute every prompt anew, also where requests begin alike");
  command->add_flag("--demo", options->demo,
                    "Ask one question over the API, show the answer and how to go on; takes the "
                    "next free port if 8000 is in use; ends after the answer without a terminal");
  command->footer(
      "Examples:\n"
      "  rose serve                          the shipped model on 127.0.0.1:8000\n"
      "  rose serve ./gpt-oss-20b --host 0.0.0.0 --port 80 --served-model-name gpt-oss-20b\n"
      "  rose serve ./gpt-oss-20b --kv-memory 8G --access-log /var/log/rose.jsonl\n"
      "docs/operations.md describes endpoints, signals, limits and the log.");
  command->callback([command, options, &exit_code] {
    options->port_given = command->count("--port") > 0;
    if (options->demo && command->count("--access-log") == 0) options->access_log = "off";
    const Result<bool> drained = Serve(*options);
    if (!drained.ok()) {
      exit_code = ReportFailure(drained.status());
    } else {
      exit_code = *drained ? 0 : 1;
    }
  });
}

}  // namespace rose

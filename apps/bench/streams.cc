// rose bench streams: what the server itself costs, with an engine that replays answers at a given
// pace. Server, engine and clients share this process and this machine.
#include <malloc.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <filesystem>
#include <limits>
#include <memory>
#include <thread>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/memory.h"
#include "bench/bench.h"
#include "bench/stream_clients.h"
#include "commands.h"
#include "descriptors.h"
#include "engine/stub_executor.h"
#include "server/api_service.h"
#include "server/http_server.h"

namespace rose {
namespace {

using Clock = std::chrono::steady_clock;

struct StreamsOptions {
  int64_t streams = 1000;
  int64_t tokens = 600;  // of each stream
  double rate = 30;      // tokens a second of each stream
  int64_t leavers = 10'000;
};

int64_t ResidentBytes() {
  long long pages = 0, resident = 0;
  if (std::FILE* file = std::fopen("/proc/self/statm", "re")) {
    if (std::fscanf(file, "%lld %lld", &pages, &resident) != 2) resident = 0;
    std::fclose(file);
  }
  return resident * sysconf(_SC_PAGESIZE);
}

// Of all threads, the clients' included.
double ProcessorSeconds() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  const auto seconds = [](const timeval& time) {
    return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_usec) * 1e-6;
  };
  return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

int64_t OpenFiles() {
  const std::filesystem::directory_iterator files("/proc/self/fd");
  return std::distance(begin(files), end(files));
}

// When the executor drew each letter, and how long each took to its client.
class Ledger {
 public:
  Ledger(int64_t streams, int64_t tokens)
      : tokens_(tokens), drawn_(static_cast<size_t>(streams * tokens)), counts_(kBuckets) {}

  // On the engine's thread.
  void Drew(int64_t stream, int64_t index) {
    const auto at = static_cast<size_t>(stream * tokens_ + index);
    if (stream < 0 || index >= tokens_ || at >= drawn_.size()) return;  // not one that is measured
    drawn_[at] = Clock::now().time_since_epoch().count();
  }
  // On the clients' thread.
  void Got(int64_t stream, int64_t index) {
    const int64_t then = drawn_[static_cast<size_t>(stream * tokens_ + index)];
    const int64_t now = Clock::now().time_since_epoch().count();
    if (++got_ == static_cast<int64_t>(drawn_.size()) / 2) resident_ = ResidentBytes();
    if (index == 0 && ++begun_ * tokens_ == static_cast<int64_t>(drawn_.size())) held_since_ = now;
    if (then < held_since_) return;
    const auto took =
        std::chrono::duration_cast<std::chrono::microseconds>(Clock::duration(now - then));
    ++counts_[static_cast<size_t>(std::clamp<int64_t>(took.count() / 10, 0, kBuckets - 1))];
    ++counted_;
  }

  // The time within which this share of the letters came, of those that were drawn while all
  // streams were held.
  double Milliseconds(double share) const {
    const auto wanted = static_cast<int64_t>(share * static_cast<double>(counted_));
    int64_t sum = 0;
    size_t bucket = 0;
    while (bucket < kBuckets - 1 && (sum += counts_[bucket]) < wanted) ++bucket;
    return static_cast<double>(bucket + 1) / 100;
  }
  // Of the process when half of all letters had come.
  int64_t resident_bytes() const { return resident_; }

 private:
  static constexpr int64_t kBuckets = 1'000'000;  // of 10 us

  const int64_t tokens_;
  std::vector<std::atomic<int64_t>> drawn_;  // by stream and index, in the clock's ticks
  std::vector<int64_t> counts_;
  int64_t got_ = 0;
  int64_t begun_ = 0;                                         // streams
  int64_t held_since_ = std::numeric_limits<int64_t>::max();  // when the last one began
  int64_t counted_ = 0;
  int64_t resident_ = 0;
};

// A server over the stub executor. The question "stream#7" is answered with the letters of
// stream 7.
class StubServer {
 public:
  // `ledger` may be null, and outlives the server. kUnavailable if it cannot listen.
  static Result<std::unique_ptr<StubServer>> Start(const StreamsOptions& options, Ledger* ledger) {
    auto server = std::make_unique<StubServer>(options, ledger);
    ROSE_ASSIGN_OR_RETURN(server->tokenizer_, BuiltInTokenizer("o200k_harmony"));
    ROSE_ASSIGN_OR_RETURN(server->format_, CreateChatFormat("harmony", *server->tokenizer_));
    server->prefix_ = server->tokenizer_->EncodeWithSpecials("<|channel|>final<|message|>");
    for (char c = 'a'; c <= 'z'; ++c) {
      server->letters_.push_back(server->tokenizer_->Encode(std::string(1, c)).at(0));
    }
    ROSE_RETURN_IF_ERROR(server->Run());
    return server;
  }
  StubServer(const StreamsOptions& options, Ledger* ledger) : options_(options), ledger_(ledger) {}
  ~StubServer() {
    if (http_) http_->Stop();
    service_.Stop();
    engine_.reset();
  }

  int port() const { return http_->port(); }
  bool idle() const {
    const EngineStats stats = engine_->stats();
    return stats.running == 0 && stats.waiting == 0 && http_->connections() == 0;
  }

  static std::string RequestFor(int64_t stream, int64_t tokens) {
    const std::string body = StrCat(R"({"messages":[{"role":"user","content":"stream#)", stream,
                                    R"("}],"stream":true,"max_tokens":)", tokens, "}");
    return StrCat("POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\nContent-Length: ",
                  body.size(), "\r\n\r\n", body);
  }

 private:
  struct Script {
    int64_t stream = -1;
    int64_t drawn = 0;
    std::vector<int32_t> answer;
  };

  Status Run() {
    EngineConfig config;
    config.max_running = options_.streams;
    config.max_waiting = options_.streams;
    config.max_step_tokens = options_.streams + 8192;
    StubOptions stub;
    stub.tokens_per_second = options_.rate;
    stub.end_id = tokenizer_->SpecialId("<|return|>").value();
    stub.pages = options_.streams * ((options_.tokens + 200) / 64 + 3) + 200;
    stub.answer = [this](std::span<const int32_t> prompt) { return Answer(prompt); };
    engine_ = CreateEngine(config, CreateStubExecutor(std::move(stub)), CreatePlainDecoder());
    ApiContext context;
    context.models = {"stub"};
    context.format = format_.get();
    context.tokenizer = tokenizer_.get();
    context.max_context = engine_->max_context();
    context.vocab = engine_->vocab();
    service_.SetReady(*engine_, context);
    HttpServerConfig http;
    http.port = 0;
    http.on_finished = [this](const AccessRecord& record) { service_.OnFinished(record); };
    http_ = std::make_unique<HttpServer>(http, [this](HttpRequest request, auto writer) {
      service_.Handle(std::move(request), std::move(writer));
    });
    return http_->Start();
  }

  // Called on the engine's thread for every token of every stream.
  std::vector<int32_t> Answer(std::span<const int32_t> prompt) {
    uint64_t hash = 14695981039346656037u;
    for (const int32_t id : prompt) hash = (hash ^ static_cast<uint32_t>(id)) * 1099511628211u;
    Script& script = scripts_[hash];
    if (script.answer.empty()) Write(prompt, script);
    // The last call asks for the end.
    const int64_t letter = script.drawn++ - static_cast<int64_t>(prefix_.size());
    if (ledger_ != nullptr && letter >= 0) ledger_->Drew(script.stream, letter);
    return script.answer;
  }

  void Write(std::span<const int32_t> prompt, Script& script) const {
    const std::string text = tokenizer_->Decode({prompt.begin(), prompt.end()});
    const size_t at = text.rfind("stream#");
    if (at != std::string::npos) script.stream = std::atoll(text.c_str() + at + 7);
    script.answer = prefix_;
    for (int64_t i = 0; i < options_.tokens; ++i) {
      const char letter = StreamClients::LetterOf(std::max<int64_t>(0, script.stream), i);
      script.answer.push_back(letters_[static_cast<size_t>(letter - 'a')]);
    }
  }

  const StreamsOptions options_;
  Ledger* const ledger_;
  std::unique_ptr<Tokenizer> tokenizer_;
  std::unique_ptr<ChatFormat> format_;
  std::vector<int32_t> prefix_, letters_;
  std::unordered_map<uint64_t, Script> scripts_;  // by hash of the prompt; the engine's thread
  ApiService service_;
  std::unique_ptr<Engine> engine_;
  std::unique_ptr<HttpServer> http_;
};

// True once nothing runs and no connection is open; false after a minute.
bool WaitIdle(const StubServer& server) {
  for (int i = 0; i < 6000 && !server.idle(); ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  return server.idle();
}

Status RunStreams(const StreamsOptions& options) {
  Ledger ledger(options.streams, options.tokens);
  ROSE_ASSIGN_OR_RETURN(const auto server, StubServer::Start(options, &ledger));
  const int64_t asked = options.tokens + 16;  // the answer ends before
  {
    // What is allocated once is not a stream's.
    StreamClients first(10, [](int64_t, int64_t) {});
    ROSE_RETURN_IF_ERROR(first.Start(server->port(), [](int64_t i) {
      return StubServer::RequestFor(1'000'000 + i, /*tokens=*/20);
    }));
    first.Run(/*silence_ms=*/10'000);
  }
  StreamClients clients(options.streams, [&](int64_t stream, int64_t i) { ledger.Got(stream, i); });
  if (!WaitIdle(*server)) return Unavailable("the first streams do not end");
  malloc_trim(0);
  const int64_t before = ResidentBytes();
  const double used_before = ProcessorSeconds();
  const Clock::time_point begin = Clock::now();
  ROSE_RETURN_IF_ERROR(
      clients.Start(server->port(), [&](int64_t i) { return StubServer::RequestFor(i, asked); }));
  const StreamOutcome outcome = clients.Run(/*silence_ms=*/10'000);
  const std::chrono::duration<double> took = Clock::now() - begin;
  const double used_us = (ProcessorSeconds() - used_before) * 1e6;
  const int64_t expected = options.streams * options.tokens;
  std::printf(
      "{\"bench\": \"streams\", \"streams\": %lld, \"complete\": %lld, \"tokens\": %lld, "
      "\"lost\": %lld, \"misplaced\": %lld, \"tokens_per_s_per_stream\": %.2f, "
      "\"added_ms_p50\": %.2f, \"added_ms_p90\": %.2f, \"added_ms_p99\": %.2f, "
      "\"added_ms_p99_9\": %.2f, \"kib_per_stream\": %.1f, "
      "\"processor_us_per_token\": %.1f}\n",
      static_cast<long long>(options.streams), static_cast<long long>(outcome.complete),
      static_cast<long long>(expected),
      static_cast<long long>(expected - outcome.letters - outcome.misplaced),
      static_cast<long long>(outcome.misplaced), static_cast<double>(options.tokens) / took.count(),
      ledger.Milliseconds(0.5), ledger.Milliseconds(0.9), ledger.Milliseconds(0.99),
      ledger.Milliseconds(0.999),
      static_cast<double>(ledger.resident_bytes() - before) / 1024 /
          static_cast<double>(options.streams),
      used_us / static_cast<double>(expected));
  std::fflush(stdout);
  return {};
}

Status RunLeavers(const StreamsOptions& options) {
  ROSE_ASSIGN_OR_RETURN(const auto server, StubServer::Start(options, nullptr));
  const std::string request = StubServer::RequestFor(0, options.tokens);
  const auto come_and_go = [&](int64_t connections) -> Status {
    ROSE_RETURN_IF_ERROR(ConnectAndLeave(server->port(), connections, request));
    if (!WaitIdle(*server)) return Unavailable("connections stay open after their clients left");
    malloc_trim(0);
    return {};
  };
  ROSE_RETURN_IF_ERROR(come_and_go(300));  // what is allocated once
  const int64_t files = OpenFiles(), resident = ResidentBytes();
  ROSE_RETURN_IF_ERROR(come_and_go(options.leavers));
  std::printf(
      "{\"bench\": \"leavers\", \"connections\": %lld, \"files_left\": %lld, \"kib_left\": %lld}\n",
      static_cast<long long>(options.leavers), static_cast<long long>(OpenFiles() - files),
      static_cast<long long>((ResidentBytes() - resident) / 1024));
  std::fflush(stdout);
  return {};
}

}  // namespace

void AddBenchStreams(CLI::App& bench, int& exit_code) {
  auto options = std::make_shared<StreamsOptions>();  // shared with the callback
  CLI::App* command = bench.add_subcommand(
      "streams", "What the server costs: many streams at a pace, clients that leave; no model");
  command->add_option("--streams", options->streams, "Streams held at a time")
      ->check(CLI::Range(1, 20'000))
      ->capture_default_str();
  command->add_option("--tokens", options->tokens, "Tokens of each stream")
      ->check(CLI::Range(2, 100'000))
      ->capture_default_str();
  command->add_option("--rate", options->rate, "Tokens a second of each stream")
      ->check(CLI::Range(0.1, 10'000.0))
      ->capture_default_str();
  command->add_option("--leavers", options->leavers, "Connections that come and go; 0 for none")
      ->check(CLI::Range(0, 10'000'000))
      ->capture_default_str();
  command->footer("Example:\n  rose bench streams --streams 1000 --rate 30 --tokens 600");
  command->callback([options, &exit_code] {
    RaiseDescriptorLimit();
    ReturnLargeBlocks();
    Status status = RunStreams(*options);
    if (status.ok() && options->leavers > 0) status = RunLeavers(*options);
    if (!status.ok()) exit_code = ReportFailure(status);
  });
}

}  // namespace rose

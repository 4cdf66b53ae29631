// Engine: takes requests, runs steps on its own thread, streams tokens back. Contract: README.md.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "base/status.h"
#include "engine/decoder.h"
#include "engine/executor.h"
#include "request/request.h"

namespace rose {

// Set by the user; const after start.
struct EngineConfig {
  int64_t max_context = 0;     // tokens of prompt + answer; 0 = what the model and memory allow
  int64_t max_running = 256;   // sequences computed in one step
  int64_t max_waiting = 1024;  // with max_running + max_waiting unfinished requests, Submit answers
                               // kUnavailable
  int64_t max_queue_seconds =
      0;  // who waited longer for its first step ends with kExpired; 0 = none
  int64_t max_step_tokens = 512;  // token budget of a step: prefill chunks and decodes together
  bool prefix_cache = true;       // keep computed pages for requests that begin alike
  // Plan and submit a step while the one before runs; unset: where the device is not the host
  // (IsPipelined).
  std::optional<bool> pipeline;
  // Called once, on the engine's thread, with the reason, when a step has failed and all requests
  // have their last event. It must not call the engine.
  std::function<void(const std::string&)> on_failure;
  int64_t prefill_chunk = 0;  // most tokens of one prompt in one step; 0 = the budget
};

struct EngineStats {
  int64_t running = 0;
  int64_t waiting = 0;
  int64_t pages_total = 0;  // of all KV groups
  int64_t pages_used = 0;
  int64_t pages_cached = 0;      // by no request, but kept until they are needed
  int64_t prefix_queries = 0;    // since start: tokens of prompts that were looked up
  int64_t prefix_hits = 0;       // and of those, found
  int64_t prefix_host_hits = 0;  // and of those, in the host tier
  int64_t host_pages_total = 0;  // of all KV groups, in the host tier
  int64_t host_pages_used = 0;
  int64_t pages_swapped_out = 0;  // since start: copied to the host tier
  int64_t pages_swapped_in = 0;   // and back
  int64_t prompt_tokens = 0;      // since start
  int64_t generated_tokens = 0;
  int64_t steps = 0;
  int64_t preemptions = 0;
};

class Engine {
 public:
  virtual ~Engine() = default;  // cancels what runs, then joins its thread

  // Thread-safe. kInvalidArgument for a request that can never run (its reason names the limit),
  // kUnavailable when the queue is full or the engine is draining.
  virtual Result<RequestId> Submit(Request request) = 0;
  // Thread-safe; unknown or finished ids are ignored. The request still gets its last event
  // (kCancelled), unless it finished first.
  virtual void Cancel(RequestId id) = 0;
  virtual EngineStats stats() const = 0;
  virtual int64_t max_context() const = 0;
  virtual int64_t vocab() const = 0;
  // False once its thread has failed; then every Submit answers kInternal.
  virtual bool healthy() const = 0;
  // Refuses new requests; returns once nothing runs or waits. What is left after `timeout_ms` is
  // cancelled before the next step, and gets its last event. Returns how many that were.
  virtual int64_t Drain(int64_t timeout_ms) = 0;
};

std::unique_ptr<Engine> CreateEngine(const EngineConfig& config, std::unique_ptr<Executor> executor,
                                     std::unique_ptr<Decoder> decoder);

}  // namespace rose

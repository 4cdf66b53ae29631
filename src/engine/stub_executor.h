// StubExecutor: an executor without a model. It replays given answers, for tests of everything
// above the engine.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "engine/executor.h"

namespace rose {

struct StubOptions {
  int64_t vocab = 201088;
  int64_t max_positions = 131072;
  // One sliding group of window 128 and one full group, as gpt-oss has them, of this many pages
  // each.
  int64_t pages = 4096;
  // The answer to a prompt; called for every step, on the engine's thread.
  std::function<std::vector<int32_t>(std::span<const int32_t> prompt)> answer;
  int32_t end_id = 0;            // drawn after an answer's last token
  double tokens_per_second = 0;  // pace of each sequence; 0 = as fast as possible
};

// Draws answer(prompt)[i] as a request's i-th token, whatever the sampling parameters say; only ids
// that min_tokens or a constraint excludes give way to the next one. Logprobs, where asked for, are
// made up: the drawn token, or that of the prompt, has -0.1 and the next ids follow with one less
// each.
std::unique_ptr<Executor> CreateStubExecutor(StubOptions options);

}  // namespace rose

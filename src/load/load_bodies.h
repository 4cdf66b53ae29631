// The requests of a load: made up, or from a file.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "load/load_runner.h"

namespace rose {

struct Range {
  int64_t least = 0, most = 0;  // inclusive
};

// "100", or "100:500" for lengths drawn evenly from there. kInvalidArgument otherwise.
Result<Range> ParseRange(std::string_view text);

struct BodyOptions {
  std::string model;
  bool is_chat = true;       // else completions
  Range input{256, 256};     // words of the prompt: about as many tokens
  Range output{128, 128};    // tokens
  bool fixed_output = true;  // asks for exactly so many: ignore_eos, min_tokens
  std::string common;        // further members of every body: "\"temperature\":0"; may be empty
  uint64_t seed = 0;
};

// `n` requests with made-up prompts, all different, the same for the same seed.
std::vector<LoadRequest> MakeBodies(int64_t n, const BodyOptions& options);

// One body a line: a chat request if it has "messages", else a completion. "stream" and the usage
// are asked for, "model" is added where it is absent. Given again from the first line until there
// are `n`; 0 = each once. kInvalidArgument names the line.
Result<std::vector<LoadRequest>> ReadBodies(std::string_view jsonl, int64_t n,
                                            const BodyOptions& options);

}  // namespace rose

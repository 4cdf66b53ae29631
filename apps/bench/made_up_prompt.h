// Prompts of measurements.
#pragma once

#include <cstdint>
#include <vector>

namespace rose {

// Different for every `number` and without a pattern.
inline std::vector<int32_t> MadeUpPrompt(int64_t number, int64_t tokens, int64_t vocab) {
  std::vector<int32_t> prompt;
  for (int64_t i = 0; i < tokens; ++i) {
    const uint64_t mixed = (static_cast<uint64_t>(number * tokens + i) + 1) * 0x9e3779b97f4a7c15u;
    prompt.push_back(static_cast<int32_t>((mixed >> 33) % static_cast<uint64_t>(vocab)));
  }
  return prompt;
}

}  // namespace rose

// What a request may draw next, such as JSON of a schema or a call that must be made. Implemented
// above the engine; to the engine it is a mask.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "base/status.h"

namespace rose {

// How the message of an error begins that is the request's own fault: its rules ask for more work
// than is allowed, or the answer has come to a place from where they leave no way on. (An error
// travels to its request as text.)
inline constexpr std::string_view kConstraintTooHard = "The answer's form cannot be kept up: ";

class TokenConstraint {
 public:
  virtual ~TokenConstraint() = default;

  // The tokens that may follow `output`, all that the request has generated so far: bit i % 32 of
  // word i / 32 stands for token i, and what lies past the last word is not allowed. Empty = all of
  // them. Valid until the next call. A pure function of `output`; it is quick when `output` is that
  // of the call before and a few tokens more (or less, after a rejected draft). One thread at a
  // time. An error ends this request alone; see kConstraintTooHard.
  virtual Result<std::span<const uint32_t>> Allowed(std::span<const int32_t> output) = 0;
};

}  // namespace rose

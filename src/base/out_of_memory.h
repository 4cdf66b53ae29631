// There is no memory for what a step needs.
#pragma once

#include "base/check.h"

namespace rose {

// The words are for the user: what was asked, what is there, and which option to change. Caught
// where memory is planned (models/warm_up.h); later it is a failed step.
class OutOfMemory : public CheckFailure {
 public:
  using CheckFailure::CheckFailure;
};

}  // namespace rose

// Made-up weights in memory of the host, for the op sets that compute there.
#pragma once

#include <cstdlib>
#include <memory>
#include <vector>

#include "base/status.h"
#include "tensor/random_weight.h"

namespace rose {

class HostRandomWeights {
 public:
  // Makes the weight of `recipe` with `threads` threads; kUnavailable, saying how much was asked,
  // if there is no memory. It lives as long as this object.
  Result<Weight> Make(const RandomRecipe& recipe, int threads);

 private:
  struct Free {
    void operator()(void* p) const { std::free(p); }
  };
  std::vector<std::unique_ptr<void, Free>> blocks_;
};

}  // namespace rose

// Rotary positions as a Hugging Face config.json asks for them. Spec A.5.
#pragma once

#include <boost/json.hpp>
#include <cstdint>

#include "base/status.h"
#include "ops/ops.h"

namespace rose {

// Rotary positions; factor 1 is plain RoPE. Spec A.5.
struct RopeConfig {
  double theta = 0;
  double factor = 1;      // YaRN's stretch of the context
  double beta_fast = 32;  // turns over the original context above which nothing is interpolated
  double beta_slow = 1;   // turns below which everything is
  int64_t original_context = 0;
  bool truncate = false;  // round the ramp's bounds to whole dimensions
};

// From rope_scaling and rope_theta, or from rope_parameters, which holds both; without either,
// plain RoPE of rope_theta. kInvalidArgument for an unknown key or type, a value out of range, or
// lengths that contradict one another or `max_positions`.
Result<RopeConfig> ReadRope(const boost::json::object& config, int64_t max_positions);

// Inverse frequencies [head_dim/2] and the scale of cos and sin, computed in double.
Rope MakeRope(const RopeConfig& config, int64_t head_dim);

}  // namespace rose

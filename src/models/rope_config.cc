#include "models/rope_config.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "models/config_reader.h"

namespace rose {
namespace {

constexpr int64_t kMaxSize = int64_t{1} << 24;  // positions

constexpr const char* kRopeKeys[] = {"rope_type",        "type",
                                     "rope_theta",       "factor",
                                     "beta_fast",        "beta_slow",
                                     "truncate",         "original_max_position_embeddings",
                                     "attention_factor", "partial_rotary_factor"};

// What the lengths say of one another.
void CheckRopeLengths(ConfigReader& top, const RopeConfig& r, int64_t max_positions) {
  if (top.Has("initial_context_length") &&
      top.Integer("initial_context_length", 1, kMaxSize) != r.original_context) {
    top.Fault("initial_context_length",
              StrCat("but original_max_position_embeddings is ", r.original_context));
  }
  const double reach = static_cast<double>(r.original_context) * r.factor;
  if (static_cast<double>(max_positions) > reach) {
    top.Fault("max_position_embeddings",
              StrCat("but original_max_position_embeddings times factor is ", reach));
  }
}

}  // namespace

Result<RopeConfig> ReadRope(const boost::json::object& config, int64_t max_positions) {
  ConfigReader top(config);
  RopeConfig r;
  const char* name = top.Has("rope_parameters") ? "rope_parameters" : "rope_scaling";
  if (top.Has("rope_parameters") && top.Has("rope_scaling") &&
      config.at("rope_parameters") != config.at("rope_scaling")) {
    top.Fault("rope_scaling", "but rope_parameters says something else; keep one of them");
    return top.status();
  }
  if (!top.Has(name)) {
    r.theta = top.Positive("rope_theta");
    if (r.theta <= 1) top.Fault("rope_theta", "expected a number above 1");
    ROSE_RETURN_IF_ERROR(top.status());
    return r;
  }
  const auto* object = config.at(name).if_object();
  if (object == nullptr) {
    top.Fault(name, "expected an object");
    return top.status();
  }
  ConfigReader rope(*object, StrCat(name, "."));
  for (const auto& [key, value] : *object) {
    const bool known = std::any_of(std::begin(kRopeKeys), std::end(kRopeKeys),
                                   [&](const char* k) { return key == k; });
    if (!known) rope.Refuse(key, "this key is not known here and may change the positions");
  }
  const std::string type = rope.Text(rope.Has("rope_type") ? "rope_type" : "type", "");
  if (type != "yarn" && type != "default") {
    rope.Fault(rope.Has("type") ? "type" : "rope_type", "expected \"yarn\" or \"default\"");
  }
  rope.Refuse("attention_factor", "only YaRN's own factor, 0.1 ln(factor) + 1, is supported");
  rope.Require("partial_rotary_factor", 1.0, "all dimensions of a head turn");
  r.theta = rope.Has("rope_theta") ? rope.Positive("rope_theta") : top.Positive("rope_theta");
  if (rope.Has("rope_type")) rope.Require("type", boost::json::value(type), "rope_type says so");
  if (rope.Has("rope_theta") && top.Has("rope_theta") && top.Positive("rope_theta") != r.theta)
    top.Fault("rope_theta", StrCat("but ", name, ".rope_theta is ", r.theta));
  if (type == "default") {
    for (const char* key : {"factor", "beta_fast", "beta_slow"})
      rope.Refuse(key, "the type \"default\" has none; is it \"yarn\"?");
  }
  if (type == "yarn") {
    r.factor = rope.Positive("factor");
    r.beta_fast = rope.Positive("beta_fast", 32);
    r.beta_slow = rope.Positive("beta_slow", 1);
    r.original_context = rope.Integer("original_max_position_embeddings", 1, kMaxSize);
    r.truncate = rope.Flag("truncate", true);
  }
  if (r.factor < 1) rope.Fault("factor", "expected a number of at least 1");
  if (type == "yarn" && rope.status().ok()) CheckRopeLengths(top, r, max_positions);
  if (r.beta_fast <= r.beta_slow) rope.Fault("beta_fast", "expected more than beta_slow");
  if (r.theta <= 1) top.Fault("rope_theta", "expected a number above 1");
  ROSE_RETURN_IF_ERROR(rope.status());
  ROSE_RETURN_IF_ERROR(top.status());
  return r;
}

Rope MakeRope(const RopeConfig& config, int64_t head_dim) {
  const int64_t half = head_dim / 2;
  const double dims = static_cast<double>(head_dim);
  // The dimension whose wave makes `turns` turns over the original context.
  const auto dimension = [&](double turns) {
    return dims / 2 *
           std::log(static_cast<double>(config.original_context) / (turns * 2 * std::numbers::pi)) /
           std::log(config.theta);
  };
  const bool is_yarn = config.factor > 1;
  double low = is_yarn ? dimension(config.beta_fast) : 0;
  double high = is_yarn ? dimension(config.beta_slow) : 0;
  if (config.truncate) {
    low = std::floor(low);
    high = std::ceil(high);
  }
  low = std::max(low, 0.0);
  high = std::min(high, dims - 1);
  if (low == high) high += 0.001;  // as the reference: a step, not a division by zero

  Rope rope;
  rope.scale = is_yarn ? static_cast<float>(0.1 * std::log(config.factor) + 1) : 1.0f;
  for (int64_t i = 0; i < half; ++i) {
    const double plain = std::pow(config.theta, -2.0 * static_cast<double>(i) / dims);
    const double ramp =
        is_yarn ? std::clamp((static_cast<double>(i) - low) / (high - low), 0.0, 1.0) : 0.0;
    rope.inv_freq.push_back(static_cast<float>(plain / config.factor * ramp + plain * (1 - ramp)));
  }
  return rope;
}

}  // namespace rose

// The options of made-up weights.
#pragma once

#include <CLI/CLI.hpp>
#include <string>

#include "checkpoint/random_recipe.h"

namespace rose {

// As spelled on the command line.
struct RandomChoice {
  std::string like;  // "20b", "120b", a config.json, or a folder that has one
  uint64_t seed = 1;
  std::string routing = "balanced";  // or zipf:EXPONENT
  std::string experts = "mxfp4";     // format of the experts

  bool operator==(const RandomChoice&) const = default;
};

// Adds `seed_option` (the name differs between commands), --routing and --experts, with checks.
void AddRandomOptions(CLI::App& command, const std::string& seed_option, RandomChoice& choice);

RandomOptions ToRandomOptions(const RandomChoice& choice);

struct LikeConfig {
  std::string name;  // of the model, or of the folder
  std::string json;
};

// The configuration that `like` names; kNotFound says which names there are.
Result<LikeConfig> FindLikeConfig(const std::string& like);

}  // namespace rose

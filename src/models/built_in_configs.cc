#include "models/built_in_configs.h"

#include <cstdint>

#include "base/embed.h"

ROSE_EMBED(gpt_oss_20b, ROSE_MODEL_CONFIGS "/gpt-oss-20b.json");
ROSE_EMBED(gpt_oss_120b, ROSE_MODEL_CONFIGS "/gpt-oss-120b.json");

namespace rose {

const std::vector<BuiltInConfig>& BuiltInConfigs() {
  static const std::vector<BuiltInConfig> configs = {
      {"20b", "gpt-oss-20b", ROSE_EMBEDDED(gpt_oss_20b)},
      {"120b", "gpt-oss-120b", ROSE_EMBEDDED(gpt_oss_120b)},
  };
  return configs;
}

}  // namespace rose

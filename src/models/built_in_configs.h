// The config.json of published models, for those who measure without their weights.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace rose {

struct BuiltInConfig {
  std::string_view short_name;  // "20b", as --like spells it
  std::string_view name;        // "gpt-oss-20b"
  std::string_view config_json;
};

const std::vector<BuiltInConfig>& BuiltInConfigs();

}  // namespace rose

// Which files make up a checkpoint folder.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"

namespace rose {

struct ShardList {
  std::vector<std::string> files;  // names inside the folder, each once
  // Tensor -> file, as model.safetensors.index.json has it; empty where there is no index.
  std::map<std::string, std::string, std::less<>> weight_map;
};

// model.safetensors, else the files of model.safetensors.index.json, else
// model--0000N-of-0000M.safetensors with N from 1 to M. kNotFound if there are none or if one is
// missing; kInvalidArgument for a bad index, above all one whose names leave the folder.
Result<ShardList> FindShards(const std::string& folder);

// At most 20 of the names, indented, one a line, and how many more there are.
std::string NameList(const std::vector<std::string>& names);

}  // namespace rose

#include "checkpoint/shards.h"

#include <algorithm>
#include <boost/json/parse.hpp>
#include <filesystem>
#include <regex>
#include <set>

#include "base/file.h"

namespace rose {
namespace {

namespace fs = std::filesystem;
namespace json = boost::json;

constexpr int64_t kMaxIndexBytes = 100'000'000;
constexpr char kIndexName[] = "model.safetensors.index.json";

bool Exists(const std::string& path) {
  std::error_code ignored;
  return fs::exists(path, ignored);
}

// NOTE: only plain names. A link inside the folder may point elsewhere (model caches are made of
// links), since whoever made the folder made the link; a name with a slash comes from the index.
bool IsPlainName(std::string_view name) {
  return !name.empty() && name != "." && name != ".." && name.find('/') == name.npos &&
         name.find('\\') == name.npos && name.find('\0') == name.npos;
}

Result<ShardList> ReadIndex(const std::string& folder) {
  const std::string path = folder + "/" + kIndexName;
  ROSE_ASSIGN_OR_RETURN(const std::string text, ReadFile(path, kMaxIndexBytes));
  boost::system::error_code error;
  const json::value root = json::parse(text, error);
  if (error) return InvalidArgument(path, ": not JSON: ", error.message());
  const json::object* object = root.if_object();
  const json::value* map = object != nullptr ? object->if_contains("weight_map") : nullptr;
  if (map == nullptr || !map->is_object())
    return InvalidArgument(path, ": has no object 'weight_map'");
  ShardList shards;
  std::set<std::string> files;
  for (const auto& [tensor, value] : map->get_object()) {
    if (!value.is_string())
      return InvalidArgument(path, ": the file of tensor '", std::string(tensor),
                             "' is not a string");
    const std::string file(value.get_string());
    if (!IsPlainName(file))
      return InvalidArgument(path, ": the file '", file, "' of tensor '", std::string(tensor),
                             "' is outside the folder; only plain file names are allowed");
    shards.weight_map.emplace(std::string(tensor), file);
    files.insert(file);
  }
  if (files.empty()) return InvalidArgument(path, ": 'weight_map' is empty");
  std::vector<std::string> missing;
  for (const std::string& file : files)
    if (!Exists(folder + "/" + file)) missing.push_back(file);
  if (!missing.empty())
    return NotFound(path, ": ", missing.size(), " of ", files.size(),
                    " shards missing; is the download complete?", NameList(missing));
  shards.files.assign(files.begin(), files.end());
  return shards;
}

// The files model--0000N-of-0000M.safetensors, as OpenAI's folder `original` has them.
Result<ShardList> FindNumbered(const std::string& folder) {
  const std::regex pattern(R"(model--(\d{5})-of-(\d{5})\.safetensors)");
  std::set<int> numbers, totals;
  std::error_code error;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder, error)) {
    const std::string name = entry.path().filename().string();
    std::smatch match;
    if (!std::regex_match(name, match, pattern)) continue;
    numbers.insert(std::stoi(match[1]));
    totals.insert(std::stoi(match[2]));
  }
  if (error) return IoError(folder, ": cannot list: ", error.message());
  if (numbers.empty())
    return NotFound(folder, ": has no model.safetensors, no ", kIndexName,
                    " and no model--0000N-of-0000M.safetensors");
  if (totals.size() > 1)
    return InvalidArgument(folder, ": holds model--*.safetensors of more than one set");
  ShardList shards;
  std::vector<std::string> missing;
  for (int number = 1; number <= *totals.begin(); ++number) {
    char name[64];
    std::snprintf(name, sizeof(name), "model--%05d-of-%05d.safetensors", number, *totals.begin());
    (numbers.count(number) > 0 ? shards.files : missing).push_back(name);
  }
  if (!missing.empty())
    return NotFound(folder, ": ", missing.size(), " of ", *totals.begin(),
                    " shards missing; is the download complete?", NameList(missing));
  return shards;
}

}  // namespace

Result<ShardList> FindShards(const std::string& folder) {
  if (Exists(folder + "/model.safetensors")) return ShardList{{"model.safetensors"}, {}};
  if (Exists(folder + "/" + kIndexName)) return ReadIndex(folder);
  return FindNumbered(folder);
}

std::string NameList(const std::vector<std::string>& names) {
  constexpr size_t kShown = 20;
  std::string text;
  for (size_t i = 0; i < std::min(names.size(), kShown); ++i) text += "\n  " + names[i];
  if (names.size() > kShown) text += StrCat("\n  and ", names.size() - kShown, " more");
  return text;
}

}  // namespace rose

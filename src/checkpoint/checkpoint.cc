#include "checkpoint/checkpoint.h"

#include <filesystem>

#include "base/file.h"
#include "base/mapped_file.h"
#include "checkpoint/safetensors.h"
#include "checkpoint/shards.h"

namespace rose {
namespace {

namespace fs = std::filesystem;

constexpr int64_t kMaxConfigBytes = 10'000'000;

class MappedCheckpoint : public Checkpoint {
 public:
  MappedCheckpoint(std::string folder, std::string config)
      : folder_(std::move(folder)), config_(std::move(config)) {}

  const std::string& folder() const override { return folder_; }
  const std::string& config_json() const override { return config_; }
  const std::map<std::string, StoredTensor, std::less<>>& tensors() const override {
    return tensors_;
  }
  const std::vector<std::string>& files() const override { return names_; }
  int64_t bytes() const override { return bytes_; }

  Tensor Data(std::string_view name) const override {
    const auto place = places_.find(name);
    ROSE_CHECK(place != places_.end(), "tensor '", name, "' is not in the checkpoint");
    const StoredTensor& stored = tensors_.find(name)->second;
    const std::vector<int64_t> scalar = {1};
    // The mapping is read-only; a Tensor has no const form, and nobody writes to a weight.
    uint8_t* data = const_cast<uint8_t*>(files_[place->second.file].bytes().data());
    return Tensor(data + place->second.begin, stored.dtype,
                  stored.shape.empty() ? scalar : stored.shape);
  }

  Status Read(std::string_view name, int64_t begin, std::span<uint8_t> into) const override {
    const auto place = places_.find(name);
    ROSE_CHECK(place != places_.end(), "tensor '", name, "' is not in the checkpoint");
    const Status status = files_[place->second.file].Read(place->second.begin + begin, into);
    if (status.ok()) return status;
    return Status(status.code(), StrCat("reading tensor '", name, "': ", status.message()));
  }

  // Maps one more file and takes in its tensors.
  Status Add(const std::string& name) {
    const std::string path = folder_ + "/" + name;
    ROSE_ASSIGN_OR_RETURN(MappedFile file, MappedFile::Open(path));
    Result<SafetensorsHeader> header = ParseSafetensors(file.bytes());
    if (!header.ok())
      return Status(header.status().code(), path + ": " + header.status().message());
    for (SafetensorsEntry& entry : header->entries) {
      const std::string tensor = entry.tensor.name;
      const auto [place, is_new] = places_.emplace(tensor, Place{files_.size(), entry.begin});
      if (!is_new)
        return InvalidArgument(path, ": tensor '", tensor, "' is also in ",
                               files_[place->second.file].path());
      bytes_ += entry.end - entry.begin;
      tensors_.emplace(tensor, std::move(entry.tensor));
    }
    files_.push_back(std::move(file));
    names_.push_back(name);
    return Status();
  }

  // The index and the shards must tell the same.
  Status CheckIndex(const ShardList& shards) const {
    std::vector<std::string> wrong;
    for (const auto& [tensor, file] : shards.weight_map) {
      const auto place = places_.find(tensor);
      if (place == places_.end() || names_[place->second.file] != file)
        wrong.push_back(StrCat("'", tensor, "' is not in ", file));
    }
    for (const auto& [tensor, place] : places_) {
      if (shards.weight_map.find(tensor) == shards.weight_map.end())
        wrong.push_back(
            StrCat("'", tensor, "' is in ", names_[place.file], " but not in the index"));
    }
    if (wrong.empty()) return Status();
    return InvalidArgument(folder_, "/model.safetensors.index.json: ", wrong.size(),
                           " tensors are not where the index says", NameList(wrong));
  }

 private:
  struct Place {
    size_t file = 0;
    int64_t begin = 0;  // bytes from the start of the file
  };

  std::string folder_;
  std::string config_;
  std::vector<MappedFile> files_;
  std::vector<std::string> names_;  // of files_, inside the folder
  std::map<std::string, StoredTensor, std::less<>> tensors_;
  std::map<std::string, Place, std::less<>> places_;
  int64_t bytes_ = 0;
};

}  // namespace

Result<std::unique_ptr<Checkpoint>> OpenCheckpoint(const std::string& folder) {
  std::error_code ignored;
  if (!fs::exists(folder, ignored)) return NotFound(folder, ": no such folder");
  if (!fs::is_directory(folder, ignored))
    return InvalidArgument(folder, ": not a folder; name the folder that holds config.json");
  std::string base = folder;
  while (base.size() > 1 && base.back() == '/') base.pop_back();
  if (!fs::exists(base + "/config.json", ignored)) {
    if (!fs::exists(base + "/original/config.json", ignored))
      return NotFound(folder, ": has neither config.json nor original/config.json");
    base += "/original";
  }
  ROSE_ASSIGN_OR_RETURN(std::string config, ReadFile(base + "/config.json", kMaxConfigBytes));
  ROSE_ASSIGN_OR_RETURN(const ShardList shards, FindShards(base));
  auto checkpoint = std::make_unique<MappedCheckpoint>(base, std::move(config));
  for (const std::string& file : shards.files) ROSE_RETURN_IF_ERROR(checkpoint->Add(file));
  if (!shards.weight_map.empty()) ROSE_RETURN_IF_ERROR(checkpoint->CheckIndex(shards));
  return std::unique_ptr<Checkpoint>(std::move(checkpoint));
}

}  // namespace rose

// rose inspect: what a checkpoint holds, from its headers alone.
#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <boost/json/parse.hpp>
#include <boost/json/serialize.hpp>
#include <cstdio>
#include <map>
#include <memory>
#include <optional>

#include "base/progress.h"
#include "base/utf8.h"
#include "checkpoint/resolve.h"
#include "checkpoint/safetensors.h"
#include "commands.h"
#include "model_loading.h"
#include "not_empty.h"

namespace rose {
namespace {

namespace json = boost::json;

struct InspectOptions {
  std::string folder;
  bool json = false;
};

struct FormatTotal {
  int64_t weights = 0;
  int64_t bytes = 0;
};

// All that is known of a folder. The model is there if its architecture is one that rose has.
struct Inspection {
  std::unique_ptr<Checkpoint> checkpoint;
  std::unique_ptr<Model> model;
  Status model_status;  // why there is none
  Resolution resolution;
  std::map<std::string, FormatTotal> formats;  // by codec, of the weights that were found
};

int64_t PartBytes(const ResolvedWeight& weight) {
  int64_t bytes = 0;
  for (const StoredWeight& part : weight.parts)
    bytes += StoredBytes(part.data) + (part.scales ? StoredBytes(*part.scales) : 0);
  return bytes;
}

Result<Inspection> Inspect(const std::string& folder) {
  Inspection found;
  ROSE_ASSIGN_OR_RETURN(found.checkpoint, OpenCheckpoint(folder));
  Result<std::unique_ptr<Model>> model = CreateModel(found.checkpoint->config_json());
  found.model_status = model.status();
  if (!model.ok()) return found;
  found.model = std::move(model).value();
  found.resolution = ResolveTable(*found.checkpoint, found.model->tensors());
  for (const ResolvedWeight& weight : found.resolution.weights) {
    FormatTotal& total = found.formats[std::string(weight.codec->name())];
    ++total.weights;
    total.bytes += PartBytes(weight);
  }
  return found;
}

json::array ToArray(const std::vector<int64_t>& numbers) {
  return json::array(numbers.begin(), numbers.end());
}

json::array ToArray(const std::vector<std::string>& texts) {
  return json::array(texts.begin(), texts.end());
}

json::array WeightList(const Resolution& resolution) {
  json::array weights;
  for (const ResolvedWeight& weight : resolution.weights) {
    weights.push_back({{"name", weight.spec->name},
                       {"format", std::string(weight.codec->name())},
                       {"shape", ToArray(weight.spec->shape)},
                       {"bytes", PartBytes(weight)},
                       {"sources", ToArray(weight.stems)}});
  }
  return weights;
}

std::string JsonText(const Inspection& found) {
  const Checkpoint& checkpoint = *found.checkpoint;
  json::array tensors;
  for (const auto& [name, tensor] : checkpoint.tensors()) {
    tensors.push_back({{"name", name},
                       {"dtype", std::string(DTypeName(tensor.dtype))},
                       {"shape", ToArray(tensor.shape)},
                       {"bytes", StoredBytes(tensor)}});
  }
  json::object formats;
  for (const auto& [name, total] : found.formats)
    formats[name] = {{"weights", total.weights}, {"bytes", total.bytes}};
  boost::system::error_code ignored;
  json::object root{{"folder", checkpoint.folder()},
                    {"architecture", nullptr},
                    {"config", json::parse(checkpoint.config_json(), ignored)},
                    {"files", ToArray(checkpoint.files())},
                    {"bytes", checkpoint.bytes()},
                    {"formats", std::move(formats)},
                    {"tensors", std::move(tensors)},
                    {"weights", WeightList(found.resolution)},
                    {"missing", ToArray(found.resolution.missing)},
                    {"wrong", ToArray(found.resolution.wrong)},
                    {"left_over", ToArray(found.resolution.left_over)}};
  if (found.model) root["architecture"] = found.model->info().architecture;
  return json::serialize(root);
}

// "model.layers.3.mlp" -> "model.layers.N.mlp": layers look alike.
std::string Pattern(const std::string& name) {
  std::string pattern;
  size_t begin = 0;
  while (begin <= name.size()) {
    const size_t end = std::min(name.find('.', begin), name.size());
    const std::string part = name.substr(begin, end - begin);
    const bool is_number =
        !part.empty() && part.find_first_not_of("0123456789") == std::string::npos;
    pattern += (begin > 0 ? "." : "") + (is_number ? "N" : part);
    begin = end + 1;
  }
  return pattern;
}

void PrintTensors(const Checkpoint& checkpoint) {
  struct Row {
    int64_t count = 0, bytes = 0;
  };
  std::map<std::pair<std::string, std::string>, Row> rows;
  size_t name_width = 6, type_width = 4;
  for (const auto& [name, tensor] : checkpoint.tensors()) {
    const std::string type = StrCat(DTypeName(tensor.dtype), " ", ShapeToString(tensor.shape));
    const std::string pattern = Printable(Pattern(name));
    Row& row = rows[{pattern, type}];
    ++row.count;
    row.bytes += StoredBytes(tensor);
    name_width = std::max(name_width, pattern.size());
    type_width = std::max(type_width, type.size());
  }
  std::printf("\n%-*s  %-*s  %6s  %8s\n", static_cast<int>(name_width), "tensor",
              static_cast<int>(type_width), "type", "count", "bytes");
  for (const auto& [key, row] : rows) {
    std::printf("%-*s  %-*s  %6lld  %8s\n", static_cast<int>(name_width), key.first.c_str(),
                static_cast<int>(type_width), key.second.c_str(), static_cast<long long>(row.count),
                BytesText(row.bytes).c_str());
  }
}

void PrintText(const Inspection& found) {
  const Checkpoint& checkpoint = *found.checkpoint;
  std::printf("folder        %s\n", Printable(checkpoint.folder()).c_str());
  if (found.model) {
    const ModelInfo& info = found.model->info();
    const auto row = [](const char* name, int64_t value) {
      std::printf("%-12s  %lld\n", name, static_cast<long long>(value));
    };
    std::printf("architecture  %s\n", info.architecture.c_str());
    row("layers", info.layers);
    row("hidden", info.hidden);
    row("kv heads", info.kv.kv_heads);
    row("head size", info.kv.head_dim);
    row("vocabulary", info.vocab);
    row("positions", info.max_positions);
  }
  std::printf("files         %zu\ntensors       %zu\nbytes         %lld (%s)\n",
              checkpoint.files().size(), checkpoint.tensors().size(),
              static_cast<long long>(checkpoint.bytes()), BytesText(checkpoint.bytes()).c_str());
  if (!found.formats.empty()) std::printf("\n%-10s  %7s  %8s\n", "format", "weights", "bytes");
  for (const auto& [name, total] : found.formats) {
    std::printf("%-10s  %7lld  %8s\n", name.c_str(), static_cast<long long>(total.weights),
                BytesText(total.bytes).c_str());
  }
  PrintTensors(checkpoint);
}

// The headers of an architecture that rose does not have are still to be seen; that it cannot run
// is the answer.
Status RunInspect(const InspectOptions& options) {
  ROSE_ASSIGN_OR_RETURN(const std::string folder, FindModelFolder(options.folder));
  ROSE_ASSIGN_OR_RETURN(const Inspection found, Inspect(folder));
  if (options.json) {
    std::printf("%s\n", JsonText(found).c_str());
  } else {
    PrintText(found);
  }
  std::fflush(stdout);
  if (found.model) return found.resolution.ToStatus(found.checkpoint->folder());
  return found.model_status;
}

}  // namespace

void AddInspect(CLI::App& app, int& exit_code) {
  // Shared with the callback, which outlives this call.
  auto options = std::make_shared<InspectOptions>();
  CLI::App* command = app.add_subcommand("inspect", "Show what a checkpoint holds");
  command
      ->add_option("DIR", options->folder,
                   "Folder of the checkpoint (default: the shipped model, rosebud)")
      ->check(NotEmptyModel());
  command->add_flag("--json", options->json, "One JSON object with every tensor");
  command->footer(
      "Reads headers only, and compares them with what the model of config.json needs.\n\n"
      "Examples:\n"
      "  rose inspect gpt-oss-20b\n"
      "  rose inspect gpt-oss-20b --json | jq '.formats'");
  command->callback([options, &exit_code] {
    if (const Status status = RunInspect(*options); !status.ok()) exit_code = ReportFailure(status);
  });
}

}  // namespace rose

#include "random_options.h"

#include <cstdlib>
#include <filesystem>
#include <limits>
#include <optional>

#include "base/file.h"
#include "models/built_in_configs.h"
#include "number_options.h"
#include "quant/codec.h"

namespace rose {
namespace {

// 0 for "balanced"; nullopt for what is neither that nor zipf:EXPONENT.
std::optional<double> ZipfOf(const std::string& routing) {
  constexpr std::string_view kZipf = "zipf:";
  if (routing == "balanced") return 0;
  if (!routing.starts_with(kZipf)) return std::nullopt;
  const char* text = routing.c_str() + kZipf.size();
  char* end = nullptr;
  const double exponent = std::strtod(text, &end);
  if (end == text || *end != '\0' || !(exponent > 0 && exponent <= 4)) return std::nullopt;
  return exponent;
}

}  // namespace

void AddRandomOptions(CLI::App& command, const std::string& seed_option, RandomChoice& choice) {
  const auto read_seed = [seed_option, &choice](const std::string& text) {
    choice.seed =
        StrictNumber<uint64_t>(seed_option, text, 0, std::numeric_limits<uint64_t>::max());
  };
  command
      .add_option_function<std::string>(seed_option, read_seed,
                                        "The same seed makes the same weights")
      ->type_name("UINT")
      ->default_str(std::to_string(choice.seed));
  command
      .add_option("--routing", choice.routing,
                  "How tokens choose experts where weights are made up: balanced, or skewed as in "
                  "zipf:1.0")
      ->check([](const std::string& text) {
        return ZipfOf(text) ? "" : "expected balanced, or zipf: and a number up to 4";
      })
      ->capture_default_str();
  std::vector<std::string> formats;
  for (const Codec* codec : AllCodecs()) formats.emplace_back(codec->name());
  command.add_option("--experts", choice.experts, "Format of experts whose weights are made up")
      ->check(CLI::IsMember(formats))
      ->capture_default_str();
}

RandomOptions ToRandomOptions(const RandomChoice& choice) {
  return {.seed = choice.seed,
          .experts = FindCodec(choice.experts)->format(),
          .zipf = ZipfOf(choice.routing).value()};
}

Result<LikeConfig> FindLikeConfig(const std::string& like) {
  namespace fs = std::filesystem;
  constexpr int64_t kMaxBytes = 1'000'000;
  std::string known;
  for (const BuiltInConfig& config : BuiltInConfigs()) {
    if (like == config.short_name || like == config.name)
      return LikeConfig{std::string(config.name), std::string(config.config_json)};
    known += StrCat(config.short_name, ", ");
  }
  std::error_code error;
  fs::path path = like;
  if (fs::is_directory(path, error)) path /= "config.json";
  if (!fs::exists(path, error))
    return NotFound(like, ": no such model; there are ", known,
                    "and the path of a config.json or of a folder that has one");
  ROSE_ASSIGN_OR_RETURN(std::string json, ReadFile(path.string(), kMaxBytes));
  const fs::path folder = fs::absolute(path, error).lexically_normal().parent_path();
  return LikeConfig{folder.filename().string(), std::move(json)};
}

}  // namespace rose

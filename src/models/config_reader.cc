#include "models/config_reader.h"

#include <algorithm>
#include <cmath>

namespace rose {
namespace {

// Keys of model families that change the mathematics.
constexpr std::string_view kParts[] = {"attn_logit_softcapping",
                                       "final_logit_softcapping",
                                       "query_pre_attn_scalar",
                                       "use_qk_norm",
                                       "qk_norm",
                                       "n_shared_experts",
                                       "num_shared_experts",
                                       "shared_expert_intermediate_size",
                                       "moe_intermediate_size",
                                       "first_k_dense_replace",
                                       "decoder_sparse_step",
                                       "mlp_only_layers",
                                       "n_group",
                                       "topk_group",
                                       "scoring_func",
                                       "routed_scaling_factor",
                                       "attention_multiplier",
                                       "residual_multiplier",
                                       "embedding_multiplier",
                                       "logits_scaling",
                                       "rope_local_base_freq",
                                       "num_nextn_predict_layers"};

}  // namespace

Result<boost::json::object> ParseConfigObject(std::string_view config_json) {
  boost::system::error_code error;
  boost::json::value parsed = boost::json::parse(config_json, error);
  if (error) return InvalidArgument("config.json is not JSON: ", error.message());
  if (!parsed.is_object()) return InvalidArgument("config.json: expected an object");
  return std::move(parsed.as_object());
}

ConfigReader::ConfigReader(const boost::json::object& object, std::string where)
    : object_(object), where_(std::move(where)) {}

const boost::json::value* ConfigReader::Find(std::string_view key) const {
  const auto* value = object_.if_contains(key);
  return value == nullptr || value->is_null() ? nullptr : value;
}

bool ConfigReader::Has(std::string_view key) const {
  return Find(key) != nullptr;
}

void ConfigReader::Fault(std::string_view key, std::string_view problem) {
  if (!status_.ok()) return;
  const auto* value = Find(key);
  const std::string shown = value ? boost::json::serialize(*value) : "missing";
  status_ =
      InvalidArgument("config.json: ", where_, key, " is ", shown.substr(0, 200), "; ", problem);
}

int64_t ConfigReader::Integer(std::string_view key, int64_t low, int64_t high) {
  const auto* value = Find(key);
  double number = 0;
  if (value != nullptr && value->is_number()) number = value->to_number<double>();
  // Whole numbers may be spelled 64.0; nothing here comes near 2^53.
  const bool whole = value != nullptr && value->is_number() && number == std::floor(number);
  if (!whole || number < static_cast<double>(low) || number > static_cast<double>(high)) {
    Fault(key, StrCat("expected a whole number from ", low, " to ", high));
    return low;
  }
  return static_cast<int64_t>(number);
}

int64_t ConfigReader::Integer(std::string_view key, std::string_view other, int64_t low,
                              int64_t high) {
  if (!Has(key)) return Has(other) ? Integer(other, low, high) : Integer(key, low, high);
  const int64_t value = Integer(key, low, high);
  if (Has(other) && Integer(other, low, high) != value) {
    Fault(other, StrCat("but ", key, " is ", value));
  }
  return value;
}

double ConfigReader::Positive(std::string_view key) {
  const auto* value = Find(key);
  const double number =
      value != nullptr && value->is_number() ? value->to_number<double>() : std::nan("");
  if (!(number > 0 && std::isfinite(number))) {
    Fault(key, "expected a number above 0");
    return 1;
  }
  return number;
}

double ConfigReader::Positive(std::string_view key, double otherwise) {
  return Has(key) ? Positive(key) : otherwise;
}

std::string ConfigReader::Text(std::string_view key, std::string_view otherwise) {
  const auto* value = Find(key);
  if (value == nullptr) return std::string(otherwise);
  if (!value->is_string()) {
    Fault(key, "expected a string");
    return std::string(otherwise);
  }
  return std::string(value->as_string());
}

bool ConfigReader::Flag(std::string_view key, bool otherwise) {
  const auto* value = Find(key);
  if (value == nullptr) return otherwise;
  if (!value->is_bool()) {
    Fault(key, "expected true or false");
    return otherwise;
  }
  return value->as_bool();
}

void ConfigReader::Require(std::string_view key, const boost::json::value& expected,
                           std::string_view why) {
  const auto* value = Find(key);
  if (value != nullptr && *value != expected) {
    Fault(key, StrCat("only ", boost::json::serialize(expected), " is supported: ", why));
  }
}

void ConfigReader::Refuse(std::string_view key, std::string_view why) {
  if (Has(key)) Fault(key, why);
}

void ConfigReader::RefuseForeignParts(std::string_view family,
                                      std::initializer_list<std::string_view> own) {
  for (const std::string_view key : kParts) {
    if (std::find(own.begin(), own.end(), key) == own.end())
      Refuse(key, StrCat(family, " has no such part"));
  }
}

void ConfigReader::CheckTokenIds(int64_t vocab) {
  for (const char* key : {"bos_token_id", "eos_token_id", "pad_token_id"}) {
    if (!Has(key)) continue;
    const boost::json::value& value = *Find(key);
    const boost::json::array one = {value};
    for (const boost::json::value& id : value.is_array() ? value.get_array() : one) {
      const bool is_id = id.is_int64() && id.get_int64() >= 0 && id.get_int64() < vocab;
      if (!is_id) Fault(key, StrCat("expected token ids from 0 to ", vocab - 1));
    }
  }
}

}  // namespace rose

// Reads typed, range-checked values out of a config.json object. The first fault is kept and later
// reads give defaults, so that a parser is a list of reads followed by one look at status().
#pragma once

#include <boost/json.hpp>
#include <cstdint>
#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>

#include "base/status.h"

namespace rose {

// The text of a config.json; kInvalidArgument if it is no JSON object.
Result<boost::json::object> ParseConfigObject(std::string_view config_json);

class ConfigReader {
 public:
  // `where` stands before key names in messages: "rope_scaling."
  explicit ConfigReader(const boost::json::object& object, std::string where = "");

  // Null counts as absent everywhere.
  bool Has(std::string_view key) const;
  // A whole number in [low, high].
  int64_t Integer(std::string_view key, int64_t low, int64_t high);
  // The same under the first of two names that is there; if both are, they must agree.
  int64_t Integer(std::string_view key, std::string_view other, int64_t low, int64_t high);
  // A finite number above 0.
  double Positive(std::string_view key);
  double Positive(std::string_view key, double otherwise);
  std::string Text(std::string_view key, std::string_view otherwise);
  bool Flag(std::string_view key, bool otherwise);
  // Faults unless the key is absent or holds exactly `value`; `why` ends the message.
  void Require(std::string_view key, const boost::json::value& value, std::string_view why);
  // Faults if the key is there at all.
  void Refuse(std::string_view key, std::string_view why);

  // Faults if bos_token_id, eos_token_id or pad_token_id, where they are there, are no ids, or
  // lists of ids, below `vocab`. They decide nothing in a model, but one that it does not have says
  // that this config belongs to another.
  void CheckTokenIds(int64_t vocab);

  // Faults if a key is there that changes the mathematics in some family of models and is not among
  // `own`, those that the caller reads.
  void RefuseForeignParts(std::string_view family, std::initializer_list<std::string_view> own);

  void Fault(std::string_view key, std::string_view problem);
  const Status& status() const { return status_; }

 private:
  const boost::json::value* Find(std::string_view key) const;

  const boost::json::object& object_;
  std::string where_;
  Status status_;
};

}  // namespace rose

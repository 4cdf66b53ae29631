// Reads the fields of a JSON object from a client, and remembers the first thing that is wrong with
// them. null counts as absent everywhere.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>

#include "api/error.h"
#include "base/json.h"

namespace rose {

class FieldReader {
 public:
  // `path` names the object in messages: "" for the body, "messages[2]". `error` is shared by all
  // readers of a request: the first failure is kept, and reading goes on with defaults.
  FieldReader(const JsonValue& object, std::string path, std::optional<ApiError>& error)
      : object_(object), path_(std::move(path)), error_(error) {
    if (!object.object()) FailAt(path_, "must be an object");
  }

  // nullptr for null and for absent.
  const JsonValue* Get(std::string_view name) const;
  bool Bool(std::string_view name, bool absent);
  int64_t Integer(std::string_view name, int64_t absent, int64_t low, int64_t high);
  double Number(std::string_view name, double absent, double low, double high);
  std::string String(std::string_view name, std::string absent = "");
  // The items of a list; nullptr if absent.
  const JsonValue::Array* Array(std::string_view name);

  // Fails for a member that is not among `known`, unless it is null: where it stands it would
  // change the answer. Names the first, and those that there are.
  void RefuseOthers(std::initializer_list<std::string_view> known);

  // A reader of an object under `name`, with the same error.
  FieldReader Inner(const JsonValue& object, std::string_view name) const {
    return FieldReader(object, PathOf(name), error_);
  }
  // "temperature", "messages[2].role".
  std::string PathOf(std::string_view name) const;
  // The field, named by its path, and then `problem`: "must be a string".
  void Fail(std::string_view name, std::string_view problem) { FailAt(PathOf(name), problem); }
  // A failure that is more than a wrong value.
  void Fail(ApiError error) {
    if (!error_) error_ = std::move(error);
  }
  void FailAt(const std::string& path, std::string_view problem);
  bool ok() const { return !error_; }

 private:
  const JsonValue& object_;
  std::string path_;
  std::optional<ApiError>& error_;
};

}  // namespace rose

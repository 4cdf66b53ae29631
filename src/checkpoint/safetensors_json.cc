#include "checkpoint/safetensors_json.h"

#include <boost/json/basic_parser_impl.hpp>
#include <boost/json/error.hpp>
#include <limits>
#include <utility>

namespace rose {
namespace {

using boost::json::error_code;
using boost::json::string_view;

// Events of the parser go through a small state machine. A tree parser would not do: it keeps the
// last of two equal names silently.
class HeaderHandler {
 public:
  static constexpr size_t max_object_size = std::numeric_limits<size_t>::max();
  static constexpr size_t max_array_size = std::numeric_limits<size_t>::max();
  static constexpr size_t max_key_size = 65536;
  static constexpr size_t max_string_size = 1 << 20;

  HeaderJson take() { return std::move(json_); }
  const std::string& problem() const { return problem_; }

  bool on_document_begin(error_code&) { return true; }
  bool on_document_end(error_code&) { return true; }

  bool on_object_begin(error_code& ec) {
    if (place_ == Place::kStart) {
      place_ = Place::kTop;
    } else if (place_ == Place::kTop) {
      place_ = key_ == "__metadata__" ? Place::kMetadata : Place::kTensor;
    } else {
      return Refuse(ec, "an object where a value is expected");
    }
    return true;
  }

  bool on_object_end(size_t, error_code& ec) {
    if (place_ == Place::kTensor) {
      const HeaderJsonEntry& entry = *entry_;
      if (!entry.has_dtype) return Refuse(ec, "tensor '", name_, "' has no dtype");
      if (!entry.has_shape) return Refuse(ec, "tensor '", name_, "' has no shape");
      if (!entry.has_offsets) return Refuse(ec, "tensor '", name_, "' has no data_offsets");
    }
    place_ = Place::kTop;
    return true;
  }

  bool on_array_begin(error_code& ec) {
    if (place_ != Place::kTensor) return Refuse(ec, "an array where none is expected");
    if (key_ == "shape") {
      numbers_ = &entry_->shape;
      entry_->has_shape = true;
    } else if (key_ == "data_offsets") {
      numbers_ = &entry_->offsets;
      entry_->has_offsets = true;
    } else {
      return Refuse(ec, "tensor '", name_, "': '", key_, "' is an array");
    }
    place_ = Place::kNumbers;
    return true;
  }

  bool on_array_end(size_t, error_code&) {
    place_ = Place::kTensor;
    return true;
  }

  bool on_key_part(string_view part, size_t, error_code&) {
    partial_.append(part.data(), part.size());
    return true;
  }

  bool on_key(string_view part, size_t, error_code& ec) {
    partial_.append(part.data(), part.size());
    key_ = std::exchange(partial_, {});
    switch (place_) {
      case Place::kTop:
        return OnName(ec);
      case Place::kMetadata:
        return json_.metadata.emplace(key_, "").second ||
               Refuse(ec, "key '", key_, "' occurs twice in __metadata__");
      case Place::kTensor:
        return OnField(ec);
      case Place::kStart:
      case Place::kNumbers:
        break;
    }
    return Refuse(ec, "a key where none is expected");
  }

  bool on_string_part(string_view part, size_t, error_code&) {
    partial_.append(part.data(), part.size());
    return true;
  }

  bool on_string(string_view part, size_t, error_code& ec) {
    partial_.append(part.data(), part.size());
    std::string text = std::exchange(partial_, {});
    if (place_ == Place::kMetadata) {
      json_.metadata[key_] = std::move(text);
    } else if (place_ == Place::kTensor && key_ == "dtype") {
      entry_->dtype = std::move(text);
      entry_->has_dtype = true;
    } else {
      return Refuse(ec, "a string where none is expected", At());
    }
    return true;
  }

  bool on_number_part(string_view, error_code&) { return true; }

  bool on_int64(int64_t value, string_view, error_code& ec) {
    if (place_ != Place::kNumbers) return Refuse(ec, "a number where none is expected", At());
    if (value < 0) return Refuse(ec, "tensor '", name_, "': ", key_, " holds ", value);
    if (numbers_->size() >= kMaxNumbers)
      return Refuse(ec, "tensor '", name_, "': ", key_, " has more than ", kMaxNumbers, " numbers");
    numbers_->push_back(value);
    return true;
  }

  bool on_uint64(uint64_t value, string_view, error_code& ec) {
    return Refuse(ec, "tensor '", name_, "': ", key_, " holds ", value, ", which is too large");
  }

  bool on_double(double, string_view, error_code& ec) {
    return Refuse(ec, "a number that is not a whole one, or too large", At());
  }

  bool on_bool(bool, error_code& ec) {
    return Refuse(ec, "a boolean where none is expected", At());
  }
  bool on_null(error_code& ec) { return Refuse(ec, "a null where none is expected", At()); }
  bool on_comment_part(string_view, error_code&) { return true; }
  bool on_comment(string_view, error_code&) { return true; }

 private:
  enum class Place { kStart, kTop, kMetadata, kTensor, kNumbers };
  static constexpr size_t kMaxNumbers = 16;

  bool OnName(error_code& ec) {
    if (key_ == "__metadata__") {
      if (std::exchange(has_metadata_, true)) return Refuse(ec, "__metadata__ occurs twice");
      return true;
    }
    name_ = key_;
    const auto [position, is_new] = json_.tensors.try_emplace(name_);
    entry_ = &position->second;
    return is_new || Refuse(ec, "tensor '", name_, "' occurs twice");
  }

  bool OnField(error_code& ec) {
    const bool repeated = (key_ == "dtype" && entry_->has_dtype) ||
                          (key_ == "shape" && entry_->has_shape) ||
                          (key_ == "data_offsets" && entry_->has_offsets);
    if (repeated) return Refuse(ec, "tensor '", name_, "': '", key_, "' occurs twice");
    if (key_ == "dtype" || key_ == "shape" || key_ == "data_offsets") return true;
    return Refuse(ec, "tensor '", name_, "' has an unknown key '", key_, "'");
  }

  std::string At() const { return key_.empty() ? "" : StrCat(" (at '", name_, "', '", key_, "')"); }

  template <typename... Args>
  bool Refuse(error_code& ec, const Args&... args) {
    problem_ = StrCat(args...);
    ec = boost::json::error::syntax;
    return false;
  }

  HeaderJson json_;
  std::string problem_;
  Place place_ = Place::kStart;
  std::string partial_, key_, name_;
  bool has_metadata_ = false;
  HeaderJsonEntry* entry_ = nullptr;         // of the tensor being read
  std::vector<int64_t>* numbers_ = nullptr;  // its array being read
};

}  // namespace

Result<HeaderJson> ParseHeaderJson(std::string_view text) {
  boost::json::parse_options options;
  options.max_depth = 4;
  boost::json::basic_parser<HeaderHandler> parser(options);
  error_code ec;
  const size_t used = parser.write_some(false, text.data(), text.size(), ec);
  const HeaderHandler& handler = parser.handler();
  if (!ec && used < text.size() && text.find_first_not_of(" \t\r\n", used) != text.npos)
    ec = boost::json::error::extra_data;
  if (ec) {
    return InvalidArgument("the header is not the JSON object of a safetensors file: ",
                           handler.problem().empty() ? ec.message() : handler.problem());
  }
  return parser.handler().take();
}

}  // namespace rose

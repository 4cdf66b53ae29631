// A tool call that a model writes as JSON, {"name": ..., "arguments": ...}, read piece by piece.
#pragma once

#include <string>
#include <string_view>

namespace rose {

// Total: any text is read. Members may stand in any order, others are skipped, white space is free.
// Arguments are the model's own text, byte for byte, and need not be right; once a name is there,
// what follows can make the call no worse. The pieces do not matter.
class CallJson {
 public:
  enum class State {
    kUnnamed,  // it may still become a call
    kNamed,
    kBroken,  // it is none: no object, or one without a name
  };

  void Push(std::string_view text);

  State state() const { return state_; }
  const std::string& name() const { return name_; }  // once named
  // What is known of the arguments and was not taken yet.
  std::string TakeArguments();
  // All text up to the piece with the end of the name.
  const std::string& text() const { return text_; }

 private:
  enum class Place { kStart, kKey, kInKey, kColon, kValue, kInName, kInValue, kAfterValue, kEnd };

  // True if `c` was consumed; else it is to be looked at again in the new place.
  bool Read(char c);
  void Break();
  void BeginValue(char c);
  bool ReadValue(char c);
  void EndName();
  bool InString(char c, std::string* out);

  State state_ = State::kUnnamed;
  Place place_ = Place::kStart;
  std::string text_, name_, key_, arguments_;
  bool has_arguments_ = false;  // later ones are skipped
  bool keeps_value_ = false;    // the value that is read is the arguments
  bool is_scalar_ = false;      // it is no string, list or object
  bool is_escaped_ = false;     // after a backslash in a string
  bool in_string_ = false;      // within the value
  int depth_ = 0;               // open lists and objects of the value
};

}  // namespace rose

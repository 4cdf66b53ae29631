// Shows an answer as it is being written: reasoning dimmed, then the content. Colours only on a
// terminal; what is no terminal gets the content alone.
#pragma once

#include <cstdio>
#include <string>
#include <string_view>

namespace rose {

class AnswerPrinter {
 public:
  // Writes to stdout.
  AnswerPrinter();

  bool is_terminal() const { return is_terminal_; }
  void Reasoning(std::string_view text);
  void Content(std::string_view text);
  // A dimmed line apart from the answer, on a terminal only.
  void Note(std::string_view text);
  // Ends the line; the next answer begins anew.
  void End();

 private:
  enum class Part { kNone, kReasoning, kContent };
  void Switch(Part part);
  void Print(std::string_view text);

  bool is_terminal_;
  Part part_ = Part::kNone;
  bool at_line_start_ = true;
};

// `text` in bold or dimmed if `file` is a terminal.
std::string Bold(std::string_view text, std::FILE* file);
std::string Dim(std::string_view text, std::FILE* file);

}  // namespace rose

// Shows an answer as it is being written: reasoning dimmed, then the content. Styles only on a
// terminal and without NO_COLOR; what is no terminal gets the content alone.
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
  bool has_styles_;
  Part part_ = Part::kNone;
  bool at_line_start_ = true;
};

// Whether `file` is a terminal that is to show styles: NO_COLOR is not set.
bool HasStyles(std::FILE* file);
// `text` in bold or dimmed, if so.
std::string Bold(std::string_view text, std::FILE* file);
std::string Dim(std::string_view text, std::FILE* file);

}  // namespace rose

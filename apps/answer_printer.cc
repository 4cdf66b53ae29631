#include "answer_printer.h"

#include <unistd.h>

#include <algorithm>

#include "base/env.h"

namespace rose {
namespace {

constexpr std::string_view kDim = "\033[2m";
constexpr std::string_view kBold = "\033[1m";
constexpr std::string_view kPlain = "\033[0m";

std::string Styled(std::string_view text, std::string_view style, std::FILE* file) {
  if (!HasStyles(file)) return std::string(text);
  return std::string(style).append(text).append(kPlain);
}

}  // namespace

bool HasStyles(std::FILE* file) {
  return isatty(fileno(file)) != 0 && !ReadEnvironment().no_color;
}

std::string Bold(std::string_view text, std::FILE* file) {
  return Styled(text, kBold, file);
}
std::string Dim(std::string_view text, std::FILE* file) {
  return Styled(text, kDim, file);
}

AnswerPrinter::AnswerPrinter()
    : is_terminal_(isatty(STDOUT_FILENO) != 0), has_styles_(HasStyles(stdout)) {}

void AnswerPrinter::Reasoning(std::string_view text) {
  if (!is_terminal_ || text.empty()) return;
  Switch(Part::kReasoning);
  Print(text);
}

void AnswerPrinter::Content(std::string_view text) {
  if (text.empty()) return;
  Switch(Part::kContent);
  Print(text);
}

void AnswerPrinter::Note(std::string_view text) {
  if (!is_terminal_) return;
  End();
  std::fputs((Dim(text, stdout) + "\n").c_str(), stdout);
  std::fflush(stdout);
}

void AnswerPrinter::End() {
  Switch(Part::kNone);
  if (!at_line_start_) std::fputc('\n', stdout);
  at_line_start_ = true;
  std::fflush(stdout);
}

void AnswerPrinter::Switch(Part part) {
  if (part == part_) return;
  if (has_styles_ && part_ == Part::kReasoning) std::fputs(std::string(kPlain).c_str(), stdout);
  // Reasoning and content stand apart by an empty line.
  if (part_ != Part::kNone && part != Part::kNone) {
    std::fputs(at_line_start_ ? "\n" : "\n\n", stdout);
  }
  if (has_styles_ && part == Part::kReasoning) std::fputs(std::string(kDim).c_str(), stdout);
  part_ = part;
}

// What a model writes must not steer the terminal: control characters other than line breaks and
// tabs are shown as '?'.
void AnswerPrinter::Print(std::string_view text) {
  std::string shown(text);
  if (is_terminal_) {
    std::replace_if(
        shown.begin(), shown.end(),
        [](unsigned char c) { return (c < 0x20 && c != '\n' && c != '\t') || c == 0x7F; }, '?');
  }
  at_line_start_ = shown.back() == '\n';
  std::fputs(shown.c_str(), stdout);
  std::fflush(stdout);
}

}  // namespace rose

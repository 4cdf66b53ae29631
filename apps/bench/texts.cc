#include "bench/texts.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "base/utf8.h"

namespace rose {
namespace {

bool IsLower(char c) {
  return c >= 'a' && c <= 'z';
}

bool IsHan(std::string_view text) {
  for (int64_t pos = 0; pos < std::ssize(text);) {
    const Utf8Char next = DecodeUtf8(text, pos);
    if (next.code_point < 0x4E00 || next.code_point > 0x9FFF) return false;
    pos += next.length;
  }
  return !text.empty();
}

std::string Capital(std::string word) {
  if (!word.empty() && IsLower(word[0])) word[0] = static_cast<char>(word[0] - 'a' + 'A');
  return word;
}

// Those before the surrogates, then those after.
uint32_t CodePoint(int64_t index) {
  return static_cast<uint32_t>(index < 0xD800 ? index : index + 0x800);
}
constexpr int64_t kCodePoints = 0x110000 - 0x800;

}  // namespace

TextMaker::TextMaker(const Tokenizer& tokenizer) : tokenizer_(tokenizer) {
  for (int32_t id = 0; id < tokenizer.vocab(); ++id) {
    const std::string_view bytes = tokenizer.Bytes(id);
    if (bytes.size() >= 3 && bytes[0] == ' ' && std::ranges::all_of(bytes.substr(1), IsLower)) {
      words_.emplace_back(bytes.substr(1));
    } else if (IsHan(bytes)) {
      han_.emplace_back(bytes);
    }
  }
}

const std::string& TextMaker::Draw(const std::vector<std::string>& words) {
  const double even = static_cast<double>(random_() >> 11) * 0x1p-53;
  const double place = std::exp(even * std::log(static_cast<double>(words.size())));
  return words[std::min(static_cast<size_t>(place), words.size()) - 1];
}

std::string TextMaker::Word() {
  std::string word = Draw(words_);
  if (Below(12) == 0) word += Draw(words_);
  return word;
}

std::string TextMaker::Sentence() {
  std::string sentence = Capital(Word());
  for (int64_t words = 5 + Below(15); words > 0; --words) {
    const int64_t kind = Below(40);
    if (kind < 4) sentence += ',';
    sentence += ' ';
    if (kind == 4) {
      sentence += std::to_string(Below(3000));
    } else if (kind == 5) {
      sentence += Capital(Word());
    } else {
      sentence += Word();
      if (kind == 6) sentence += "'s";
    }
  }
  return sentence + (Below(8) == 0 ? "?" : ".");
}

std::string TextMaker::English(int64_t bytes) {
  std::string text;
  while (std::ssize(text) < bytes) {
    for (int64_t sentences = 2 + Below(5); sentences > 0; --sentences) text += Sentence() + ' ';
    text.back() = '\n';
    text += '\n';
  }
  return text;
}

std::string TextMaker::Identifier() {
  std::string name = Draw(words_);
  for (int64_t more = Below(3); more > 0; --more) {
    name += more % 2 == 0 ? Capital(Draw(words_)) : '_' + Draw(words_);
  }
  return name;
}

std::string TextMaker::CodeLine() {
  switch (Below(8)) {
    case 0:
      return "// " + Sentence();
    case 1:
      return "if (" + Identifier() + " == " + std::to_string(Below(1000)) + ") {";
    case 2:
      return "}";
    case 3:
      return "return " + Identifier() + '(' + Identifier() + ", " + Identifier() + ");";
    case 4:
      return "const auto " + Identifier() + " = " + Identifier() + "->" + Identifier() + "();";
    case 5:
      return Identifier() + "[" + Identifier() + "] += 0x" + std::to_string(Below(100000)) + ";";
    case 6:
      return "std::printf(\"%d " + Word() + "\\n\", " + Identifier() + ");";
    default:
      return "for (int " + Identifier() + " : " + Identifier() + ") " + Identifier() + "++;";
  }
}

std::string TextMaker::Code(int64_t bytes) {
  std::string text;
  while (std::ssize(text) < bytes) {
    text.append(2 * Below(6), ' ');
    text += CodeLine() + (Below(10) == 0 ? "\n\n" : "\n");
  }
  return text;
}

std::string TextMaker::Clause() {
  std::string clause;
  for (int64_t words = 2 + Below(7); words > 0; --words) clause += Draw(han_);
  return clause;
}

std::string TextMaker::Chinese(int64_t bytes) {
  // Comma, full stop, question mark, quotation marks, enumeration comma, colon.
  constexpr std::array<const char*, 8> kMarks = {
      "\uFF0C", "\uFF0C", "\uFF0C", "\u3002", "\uFF1F", "\u3001", "\u201D\u3002", "\uFF1A\u201C"};
  std::string text;
  while (std::ssize(text) < bytes) {
    text += Clause() + kMarks[Below(kMarks.size())];
    if (Below(12) == 0) text += '\n';
    if (Below(15) == 0) text += std::to_string(Below(3000));
  }
  return text;
}

std::string TextMaker::RandomUtf8(int64_t bytes) {
  std::string text;
  while (std::ssize(text) < bytes) AppendUtf8(text, CodePoint(Below(kCodePoints)));
  return text;
}

std::string TextMaker::RandomMixedUtf8(int64_t bytes) {
  std::string text;
  while (std::ssize(text) < bytes) {
    switch (Below(4)) {
      case 0:
        AppendUtf8(text, static_cast<uint32_t>(Below(0x80)));
        break;
      case 1:
        AppendUtf8(text, static_cast<uint32_t>(0x80 + Below(0x780)));
        break;
      case 2:
        AppendUtf8(text, CodePoint(0x800 + Below(0xF800 - 0x800)));
        break;
      default:
        AppendUtf8(text, static_cast<uint32_t>(0x10000 + Below(0x100000)));
    }
  }
  return text;
}

std::vector<std::string> TextMaker::Chat(int64_t messages) {
  std::vector<std::string> texts(messages);
  for (std::string& text : texts) {
    const int64_t kind = Below(10);
    for (int64_t i = 1 + Below(4); i > 0; --i) {
      text += kind == 0 ? CodeLine() + '\n' : kind == 1 ? Clause() + "\u3002" : Sentence() + ' ';
    }
  }
  return texts;
}

std::string TextMaker::Tricky() {
  constexpr std::array<const char*, 24> kBits = {
      " ", "  ",     "\n",     "\r\n",   "\t",     "'s",     "'LL",    "'\u017F",
      "/", "0",      "12345",  "!",      "aA",     "Zza",    "A",      "b",
      "-", "\u0301", "\u00A0", "\u3000", "\u2028", "\u4E2D", "\u01C5", "\u02B0"};
  const int64_t style = Below(5);
  std::string text;
  for (int64_t bits = Below(style == 4 ? 300 : 60); bits > 0; --bits) {
    const int64_t kind = style == 3 ? Below(4) : style;
    if (kind == 0) {
      text += kBits[Below(kBits.size())];
    } else if (kind == 1) {
      // Any token that is text on its own.
      const std::string_view token = tokenizer_.Bytes(static_cast<int32_t>(Below(199998)));
      if (IsValidUtf8(token)) text += token;
    } else if (kind == 2) {
      // Code points near each other: one script, more or less.
      static constexpr std::array<uint32_t, 12> kScripts = {
          0x20, 0xC0, 0x370, 0x400, 0x5D0, 0x620, 0x905, 0xE01, 0x1000, 0x3041, 0x4E00, 0xAC00};
      AppendUtf8(text, kScripts[Below(kScripts.size())] + static_cast<uint32_t>(Below(90)));
    } else if (kind == 3) {
      AppendUtf8(text, CodePoint(Below(kCodePoints)));
    } else {
      text.append(1 + Below(20), "ab \n=-_."[Below(8)]);
    }
  }
  return text;
}

}  // namespace rose

#include "grammar/gbnf.h"

#include <algorithm>
#include <cctype>
#include <map>
#include <set>
#include <utility>
#include <vector>

#include "base/json.h"

namespace rose {
namespace {

struct Piece {
  bool is_name = false;
  std::string text;  // a rule's name, or Lark as it stands
  int line = 0;
};

struct Rule {
  std::string name;
  std::vector<Piece> pieces;
};

bool IsNameChar(char c) {
  return std::isalnum(static_cast<unsigned char>(c)) || c == '_' || c == '-';
}

class Reader {
 public:
  explicit Reader(std::string_view text) : text_(text) {}

  Result<std::vector<Rule>> Read() {
    std::vector<Rule> rules;
    while (SkipBlanks()) {
      if (IsNameChar(text_[at_])) {
        const std::string name = Name();
        SkipBlanks();
        if (text_.substr(at_).starts_with("::=")) {
          at_ += 3;
          rules.push_back({name, {}});
          continue;
        }
        if (rules.empty()) return Wrong("a rule must begin with its name and ::=");
        rules.back().pieces.push_back({true, name, line_});
        continue;
      }
      if (rules.empty()) return Wrong("a rule must begin with its name and ::=");
      std::string lark;
      ROSE_RETURN_IF_ERROR(ReadPiece(lark));
      rules.back().pieces.push_back({false, std::move(lark), line_});
    }
    return rules;
  }

 private:
  Status Wrong(std::string_view why) const {
    return InvalidArgument("line ", line_, " of the grammar: ", why);
  }

  // To the next character that means something; false at the end.
  bool SkipBlanks() {
    for (; at_ < text_.size(); ++at_) {
      if (text_[at_] == '#') {
        at_ = std::min(text_.find('\n', at_), text_.size());
        if (at_ == text_.size()) return false;
      }
      if (text_[at_] == '\n') ++line_;
      if (!std::isspace(static_cast<unsigned char>(text_[at_]))) return true;
    }
    return false;
  }

  std::string Name() {
    const size_t start = at_;
    while (at_ < text_.size() && IsNameChar(text_[at_])) ++at_;
    return std::string(text_.substr(start, at_ - start));
  }

  Status ReadPiece(std::string& lark) {
    const char c = text_[at_];
    if (c == '"') return Literal(lark);
    if (c == '[') return Class(lark);
    if (c == '{') return Count(lark);
    if (c == '.') {
      lark = "/(?s:.)/";
    } else if (std::string_view("()|*+?").find(c) != std::string_view::npos) {
      lark = c;
    } else {
      return Wrong(StrCat("'", c, "' has no meaning here"));
    }
    ++at_;
    return Status();
  }

  // After a backslash: the character as UTF-8, or "" if it is none of GBNF's.
  std::string Escape() {
    const char c = at_ < text_.size() ? text_[at_++] : '\0';
    const std::string_view plain = "\"\\[]^-/";
    if (plain.find(c) != plain.npos) return std::string(1, c);
    if (c == 'n') return "\n";
    if (c == 'r') return "\r";
    if (c == 't') return "\t";
    const size_t digits = c == 'x' ? 2 : c == 'u' ? 4 : c == 'U' ? 8 : 0;
    const std::string hex(text_.substr(std::min(at_, text_.size()), digits));
    if (digits == 0 || hex.size() < digits ||
        hex.find_first_not_of("0123456789abcdefABCDEF") != hex.npos)
      return "";
    at_ += digits;
    const unsigned long code = std::stoul(hex, nullptr, 16);
    if (code > 0x10ffff || (code >= 0xd800 && code < 0xe000)) return "";
    return Utf8(static_cast<uint32_t>(code));
  }

  static std::string Utf8(uint32_t code) {
    if (code < 0x80) return std::string(1, static_cast<char>(code));
    std::string out;
    const int more = code < 0x800 ? 1 : code < 0x10000 ? 2 : 3;
    constexpr int kLead[4] = {0, 0xc0, 0xe0, 0xf0};
    out += static_cast<char>(kLead[more] | (code >> (6 * more)));
    for (int i = more - 1; i >= 0; --i) out += static_cast<char>(0x80 | ((code >> (6 * i)) & 0x3f));
    return out;
  }

  Status Literal(std::string& lark) {
    std::string value;
    for (++at_;;) {
      if (at_ >= text_.size() || text_[at_] == '\n') return Wrong("a literal has no end");
      const char c = text_[at_++];
      if (c == '"') break;
      if (c != '\\') {
        value += c;
        continue;
      }
      const std::string escaped = Escape();
      if (escaped.empty()) return Wrong("an escape that is not known");
      value += escaped;
    }
    AppendJsonString(lark, value);
    return Status();
  }

  // Everything but a range's '-' and a leading '^' is escaped, since Rust's classes know operators.
  Status Class(std::string& lark) {
    lark = "/[";
    ++at_;
    if (at_ < text_.size() && text_[at_] == '^') lark += text_[at_++];
    for (;;) {
      if (at_ >= text_.size() || text_[at_] == '\n') return Wrong("a character class has no end");
      const char c = text_[at_++];
      if (c == ']') break;
      if (c == '-' && at_ < text_.size() && text_[at_] != ']' && !lark.ends_with('[') &&
          !lark.ends_with('^')) {
        lark += '-';
        continue;
      }
      std::string character(1, c);
      if (c == '\\') character = Escape();
      if (character.empty()) return Wrong("an escape that is not known");
      AppendInClass(lark, character);
    }
    lark += "]/";
    return Status();
  }

  static void AppendInClass(std::string& lark, const std::string& character) {
    const char c = character[0];
    if (c == '\n') {
      lark += "\\n";
    } else if (c == '\r') {
      lark += "\\r";
    } else if (c == '\t') {
      lark += "\\t";
    } else if (std::string_view("[]\\^-/&~").find(c) != std::string_view::npos) {
      lark += std::string("\\") + c;
    } else {
      lark += character;
    }
  }

  // {m}, {m,}, {m,n}
  Status Count(std::string& lark) {
    const size_t end = text_.find('}', at_);
    if (end == text_.npos) return Wrong("a { has no }");
    lark = text_.substr(at_, end + 1 - at_);
    std::erase_if(lark, [](char c) { return c == ' '; });
    const std::string_view inside = std::string_view(lark).substr(1, lark.size() - 2);
    if (inside.empty() || inside.size() > 12 || inside[0] == ',' ||
        inside.find_first_not_of("0123456789,") != inside.npos)
      return Wrong("a count must be {m}, {m,} or {m,n}");
    at_ = end + 1;
    return Status();
  }

  std::string_view text_;
  size_t at_ = 0;
  int line_ = 1;
};

// Names that lead to themselves, directly or not.
std::set<std::string> Recursive(const std::map<std::string, std::set<std::string>>& uses) {
  std::set<std::string> recursive;
  for (const auto& [start, unused] : uses) {
    std::set<std::string> seen;
    std::vector<std::string> todo = {start};
    while (!todo.empty()) {
      const std::string at = todo.back();
      todo.pop_back();
      for (const std::string& next : uses.at(at)) {
        if (next == start) recursive.insert(start);
        if (seen.insert(next).second) todo.push_back(next);
      }
    }
  }
  return recursive;
}

}  // namespace

Result<std::string> GbnfToLark(std::string_view text) {
  ROSE_ASSIGN_OR_RETURN(std::vector<Rule> rules, Reader(text).Read());
  constexpr size_t kMaxRules = 1000;
  if (rules.size() > kMaxRules)
    return InvalidArgument("the grammar has more than ", kMaxRules, " rules");
  std::map<std::string, std::set<std::string>> uses;
  for (const Rule& rule : rules) {
    if (!uses.emplace(rule.name, std::set<std::string>()).second)
      return InvalidArgument("the grammar has two rules named ", rule.name);
  }
  if (!uses.contains("root")) return InvalidArgument("the grammar has no rule named root");
  for (const Rule& rule : rules) {
    for (const Piece& piece : rule.pieces) {
      if (!piece.is_name) continue;
      if (!uses.contains(piece.text))
        return InvalidArgument("line ", piece.line, " of the grammar: there is no rule ",
                               piece.text);
      uses[rule.name].insert(piece.text);
    }
  }
  // A rule above a recursive one cannot be a terminal either.
  std::set<std::string> stay = Recursive(uses);
  for (bool grown = true; grown;) {
    grown = false;
    for (const auto& [name, used] : uses) {
      if (std::any_of(used.begin(), used.end(), [&](const auto& u) { return stay.contains(u); }))
        grown = stay.insert(name).second || grown;
    }
  }
  std::map<std::string, std::string> names;
  for (const Rule& rule : rules)
    names[rule.name] = StrCat(stay.contains(rule.name) ? "rule_" : "TERM_", names.size());
  std::string lark = StrCat("start: ", names["root"], "\n");
  for (const Rule& rule : rules) {
    lark += names[rule.name] + ":";
    for (const Piece& piece : rule.pieces)
      lark += " " + (piece.is_name ? names[piece.text] : piece.text);
    lark += "\n";
  }
  return lark;
}

}  // namespace rose

#include <algorithm>
#include <charconv>
#include <numeric>

#include "base/json.h"
#include "base/utf8.h"

namespace rose {
namespace {

// Recursive descent; the depth limit bounds the recursion.
class Reader {
 public:
  Reader(std::string_view text, const JsonLimits& limits) : text_(text), limits_(limits) {}

  Result<JsonValue> Document() {
    JsonValue value;
    if (Value(value, 0)) {
      SkipBlanks();
      if (pos_ == text_.size()) return value;
      Fail("expected the end of the document");
    }
    return InvalidArgument("Invalid JSON at byte ", pos_, ": ", problem_, ".");
  }

 private:
  bool Fail(const char* problem) {
    if (!problem_) problem_ = problem;
    return false;
  }
  void SkipBlanks() {
    while (pos_ < text_.size() && (text_[pos_] == ' ' || text_[pos_] == '\t' ||
                                   text_[pos_] == '\n' || text_[pos_] == '\r'))
      ++pos_;
  }
  // The next byte that is not blank; NUL at the end.
  char Peek() {
    SkipBlanks();
    return pos_ < text_.size() ? text_[pos_] : '\0';
  }
  bool Accept(char c) {
    if (pos_ >= text_.size() || text_[pos_] != c) return false;
    ++pos_;
    return true;
  }
  bool Word(std::string_view word) {
    if (text_.substr(pos_, word.size()) != word) return Fail("expected a value");
    pos_ += word.size();
    return true;
  }

  bool Value(JsonValue& out, int depth) {
    if (++values_ > limits_.values) return Fail("too many values");
    switch (Peek()) {
      case '{':
        return depth < limits_.depth ? ObjectValue(out, depth) : Fail("nested too deeply");
      case '[':
        return depth < limits_.depth ? ArrayValue(out, depth) : Fail("nested too deeply");
      case '"': {
        std::string text;
        if (!String(text)) return false;
        out = JsonValue(std::move(text));
        return true;
      }
      case 't':
        out = JsonValue(true);
        return Word("true");
      case 'f':
        out = JsonValue(false);
        return Word("false");
      case 'n':
        out = JsonValue();
        return Word("null");
      default:
        return NumberValue(out);
    }
  }

  bool ArrayValue(JsonValue& out, int depth) {
    ++pos_;
    JsonValue::Array items;
    if (Peek() != ']') {
      do {
        if (!Value(items.emplace_back(), depth + 1)) return false;
        SkipBlanks();
      } while (Accept(','));
    }
    if (!Accept(']')) return Fail("expected ',' or ']'");
    out = JsonValue(std::move(items));
    return true;
  }

  bool ObjectValue(JsonValue& out, int depth) {
    ++pos_;
    JsonValue::Object members;
    if (Peek() != '}') {
      do {
        if (Peek() != '"') return Fail("expected a key in quotes");
        auto& [key, value] = members.emplace_back();
        if (!String(key)) return false;
        SkipBlanks();
        if (!Accept(':')) return Fail("expected ':'");
        if (!Value(value, depth + 1)) return false;
        SkipBlanks();
      } while (Accept(','));
    }
    if (!Accept('}')) return Fail("expected ',' or '}'");
    MergeRepeatedKeys(members);
    out = JsonValue(std::move(members));
    return true;
  }

  // First place, last value. By sorting, since anybody may send a hundred thousand keys.
  static void MergeRepeatedKeys(JsonValue::Object& members) {
    std::vector<size_t> order(members.size());
    std::iota(order.begin(), order.end(), size_t{0});
    std::stable_sort(order.begin(), order.end(),
                     [&](size_t a, size_t b) { return members[a].first < members[b].first; });
    std::vector<bool> drop(members.size());
    bool any = false;
    for (size_t i = 0, first = 0; i < order.size(); ++i) {
      if (members[order[i]].first != members[order[first]].first) first = i;
      if (i == first) continue;
      members[order[first]].second = std::move(members[order[i]].second);
      drop[order[i]] = any = true;
    }
    if (!any) return;
    JsonValue::Object kept;
    for (size_t i = 0; i < members.size(); ++i)
      if (!drop[i]) kept.push_back(std::move(members[i]));
    members = std::move(kept);
  }

  bool NumberValue(JsonValue& out) {
    const size_t start = pos_;
    const auto digits = [&] {
      const size_t from = pos_;
      while (pos_ < text_.size() && text_[pos_] >= '0' && text_[pos_] <= '9') ++pos_;
      return pos_ > from;
    };
    Accept('-');
    if (!Accept('0') && !digits()) return Fail("expected a value");
    if (Accept('.') && !digits()) return Fail("expected a digit");
    if (Accept('e') || Accept('E')) {
      if (!Accept('+')) Accept('-');
      if (!digits()) return Fail("expected a digit");
    }
    out = JsonValue(JsonValue::Number{std::string(text_.substr(start, pos_ - start))});
    return true;
  }

  bool String(std::string& out) {
    ++pos_;
    for (;;) {
      const size_t start = pos_;
      while (pos_ < text_.size() && text_[pos_] != '"' && text_[pos_] != '\\' &&
             static_cast<unsigned char>(text_[pos_]) >= 0x20)
        ++pos_;
      const std::string_view piece = text_.substr(start, pos_ - start);
      if (!IsValidUtf8(piece)) return Fail("invalid UTF-8 in the string before");
      out += piece;
      if (pos_ == text_.size()) return Fail("a string is not closed");
      if (Accept('"')) return true;
      if (!Accept('\\')) return Fail("a control character in a string must be escaped");
      if (!Escape(out)) return false;
    }
  }

  bool Escape(std::string& out) {
    constexpr std::string_view kFrom = "\"\\/bfnrt", kTo = "\"\\/\b\f\n\r\t";
    const char c = pos_ < text_.size() ? text_[pos_] : '\0';
    if (const size_t i = kFrom.find(c); i != kFrom.npos) {
      ++pos_;
      out += kTo[i];
      return true;
    }
    uint32_t unit = 0;
    if (!HexUnit(unit)) return Fail("unknown escape in a string");
    if (unit >= 0xd800 && unit < 0xdc00) {
      const size_t after = pos_;
      uint32_t low = 0;
      if (Accept('\\') && HexUnit(low) && low >= 0xdc00 && low < 0xe000) {
        unit = 0x10000 + ((unit - 0xd800) << 10) + (low - 0xdc00);
      } else {
        pos_ = after;  // the next escape stands for itself
      }
    }
    AppendUtf8(out, unit >= 0xd800 && unit < 0xe000 ? 0xfffd : unit);
    return true;
  }

  // "uXXXX", after the backslash.
  bool HexUnit(uint32_t& unit) {
    if (text_.size() - pos_ < 5 || text_[pos_] != 'u') return false;
    const char* first = text_.data() + pos_ + 1;
    const auto [end, error] = std::from_chars(first, first + 4, unit, 16);
    if (error != std::errc() || end != first + 4) return false;
    pos_ += 5;
    return true;
  }

  std::string_view text_;
  const JsonLimits& limits_;
  size_t pos_ = 0;
  int64_t values_ = 0;
  const char* problem_ = nullptr;
};

}  // namespace

Result<JsonValue> ParseJson(std::string_view text, const JsonLimits& limits) {
  return Reader(text, limits).Document();
}

}  // namespace rose

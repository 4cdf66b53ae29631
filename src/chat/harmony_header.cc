#include "chat/harmony_header.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <utility>

namespace rose {
namespace {

constexpr std::array<std::string_view, 3> kChannels = {"analysis", "commentary", "final"};

bool IsChannel(std::string_view word) {
  return std::find(kChannels.begin(), kChannels.end(), word) != kChannels.end();
}

// Bytes of the white space that `text` starts with, of any script; 0 if there is none.
size_t BlankLength(std::string_view text) {
  if (text.empty()) return 0;
  if (text[0] == ' ' || (text[0] >= '\t' && text[0] <= '\r')) return 1;
  for (const std::string_view blank :
       {"\u0085", "\u00a0", "\u1680", "\u2028", "\u2029", "\u202f", "\u205f", "\u3000"})
    if (text.starts_with(blank)) return blank.size();
  // U+2000 to U+200A.
  const bool is_general = text.starts_with("\xe2\x80") && text.size() > 2 &&
                          static_cast<unsigned char>(text[2]) >= 0x80 &&
                          static_cast<unsigned char>(text[2]) <= 0x8a;
  return is_general ? 3 : 0;
}
bool IsMarker(char c) {
  return c == kHeaderChannel || c == kHeaderConstrain;
}

struct Item {
  enum class Kind { kWord, kChannel, kType };
  Kind kind = Kind::kWord;
  std::string_view text;  // without the marker
  size_t begin = 0;       // in the header, marker included
};

class Lexer {
 public:
  Lexer(std::string_view text, HeaderForm form) : text_(text), form_(form) {}

  bool Next(Item& item) {
    SkipBlanks();
    if (pos_ == text_.size()) return false;
    item = {.begin = pos_};
    if (IsMarker(text_[pos_])) {
      const bool is_channel = text_[pos_++] == kHeaderChannel;
      item.kind = is_channel ? Item::Kind::kChannel : Item::Kind::kType;
      SkipBlanks();
    }
    const size_t start = pos_;
    while (pos_ < text_.size() && BlankLength(text_.substr(pos_)) == 0 && !IsMarker(text_[pos_]) &&
           !(pos_ > start && EndsEarly(item.kind, text_[pos_])))
      ++pos_;
    item.text = text_.substr(start, pos_ - start);
    return true;
  }

 private:
  void SkipBlanks() {
    while (const size_t length = BlankLength(text_.substr(pos_))) pos_ += length;
  }
  // A channel ends at what may be a marker in plain text, and a type where its value begins.
  bool EndsEarly(Item::Kind kind, char c) const {
    if (kind == Item::Kind::kChannel) return c == '<';
    return kind == Item::Kind::kType && form_ == HeaderForm::kUnfinished &&
           (c == '{' || c == '[' || c == '"');
  }

  std::string_view text_;
  HeaderForm form_;
  size_t pos_ = 0;
};

std::string Lower(std::string_view text) {
  std::string out(text);
  for (char& c : out) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return out;
}

class Parser {
 public:
  Parser(bool names_author, HeaderForm form) : author_due_(names_author), form_(form) {}

  HarmonyHeader Parse(std::string_view text) {
    Lexer lexer(text, form_);
    for (Item item; lexer.Next(item);) {
      if (Take(item)) continue;
      header_.body = text.substr(item.begin);
      std::erase_if(header_.body, IsMarker);
      break;
    }
    // A channel's name where its marker was left out.
    if (header_.channel.empty() && IsChannel(header_.content_type))
      std::swap(header_.channel, header_.content_type);
    return std::move(header_);
  }

 private:
  // False if the item belongs to the body.
  bool Take(const Item& item) {
    const bool author_due = std::exchange(author_due_, false);
    switch (item.kind) {
      case Item::Kind::kChannel:
        TakeChannel(item.text);
        return true;
      case Item::Kind::kType:
        if (!item.text.empty()) SetType("<|constrain|>" + std::string(item.text));
        return true;
      case Item::Kind::kWord:
        break;
    }
    if (recipient_due_ || item.text.starts_with("to=")) {
      TakeRecipient(recipient_due_ ? item.text : item.text.substr(3));
      return true;
    }
    if (author_due) {
      TakeAuthor(item.text);
      return true;
    }
    if (item.text == header_.author) return true;  // written twice
    if (form_ == HeaderForm::kUnfinished && !(IsTypeWord(item.text) && HasRecipient()))
      return false;
    SetType(item.text);
    return true;
  }

  void TakeAuthor(std::string_view word) {
    if (IsChannel(word)) {
      header_.channel = word;
      return;
    }
    // "Assistant", "assistantfinal": the role with something stuck to it.
    if (!Lower(word).starts_with("assistant")) {
      header_.author = word;
      return;
    }
    const std::string_view rest = word.substr(std::string_view("assistant").size());
    if (IsChannel(rest)) header_.channel = rest;
    if (!IsChannel(rest) && !rest.empty()) Drop(rest);
  }

  void TakeChannel(std::string_view name) {
    for (const std::string_view known : kChannels) {
      if (name.starts_with(known) && name.substr(known.size()).starts_with("to=")) {
        TakeRecipient(name.substr(known.size() + 3));
        name = known;
      }
    }
    // The first one counts; "assistantfinal" and the like set one without a marker.
    if (header_.channel.empty() || !channel_marked_) {
      if (!name.empty()) header_.channel = name;
      channel_marked_ = channel_marked_ || !name.empty();
    } else if (!name.empty()) {
      Drop(name);
    }
  }

  void TakeRecipient(std::string_view name) {
    name = name.substr(0, name.find("<|"));
    recipient_due_ = name.empty() && !recipient_due_;  // "to= name"
    if (name.empty()) return;
    if (HasRecipient()) {
      Drop(name);
    } else {
      header_.recipient = name;
    }
  }

  void SetType(std::string_view type) {
    if (!header_.content_type.empty()) Drop(header_.content_type);
    header_.content_type = type;
  }

  void Drop(std::string_view word) {
    if (!header_.dropped.empty()) header_.dropped += ' ';
    header_.dropped += word;
  }

  static bool IsTypeWord(std::string_view word) {
    return word == "json" || word == "code" || word == "text";
  }
  bool HasRecipient() const { return !header_.recipient.empty(); }

  HarmonyHeader header_;
  bool author_due_;
  bool recipient_due_ = false;
  bool channel_marked_ = false;
  HeaderForm form_;
};

}  // namespace

HarmonyHeader ParseHarmonyHeader(std::string_view text, bool names_author, HeaderForm form) {
  return Parser(names_author, form).Parse(text);
}

}  // namespace rose

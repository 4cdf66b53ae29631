// Small tokenizer.json documents: what is accepted, and the sentence for what is not.
#include <functional>

#include "tokenizer/bpe_tokenizer.h"
#include "tokenizer/harmony.h"
#include "tokenizer/o200k_split.h"

namespace rose {
namespace {

using TokenIds = std::vector<int32_t>;
using Object = JsonValue::Object;
using Array = JsonValue::Array;

JsonValue Text(std::string text) {
  return JsonValue(std::move(text));
}
JsonValue Number(int64_t value) {
  return JsonValue(JsonValue::Number{std::to_string(value)});
}

// The member of an object at a path of keys; it is made where it is missing.
JsonValue& At(JsonValue& value, std::initializer_list<std::string> path) {
  JsonValue* at = &value;
  for (const std::string& key : path) {
    auto& members = const_cast<Object&>(*at->object());
    auto found = members.begin();
    while (found != members.end() && found->first != key) ++found;
    if (found == members.end()) found = members.insert(found, {key, JsonValue()});
    at = &found->second;
  }
  return *at;
}

// GPT-2's letter of a byte, built another way than the loader's table.
std::string Letter(int byte) {
  static const std::vector<std::string> letters = [] {
    std::vector<std::string> out(256);
    for (int32_t id = 0; id < 256; ++id) {
      // o200k lists the single bytes in the order of their letters' code points.
      const auto byte_of_id = static_cast<uint8_t>(Harmony().Bytes(id)[0]);
      const int code_point = id < 94    ? 0x21 + id
                             : id < 106 ? 0xA1 + id - 94
                             : id < 188 ? 0xAE + id - 106
                                        : 0x100 + id - 188;
      std::string letter;
      if (code_point < 0x80) {
        letter = static_cast<char>(code_point);
      } else {
        letter = {static_cast<char>(0xC0 | code_point >> 6),
                  static_cast<char>(0x80 | (code_point & 0x3F))};
      }
      out[byte_of_id] = letter;
    }
    return out;
  }();
  return letters[byte];
}

// All bytes (id = byte), ab 256, bc 257, abc 258; merges b+c, a+b, a+bc; <|x|> is 300.
JsonValue Document() {
  Object vocab;
  for (int byte = 0; byte < 256; ++byte) vocab.emplace_back(Letter(byte), Number(byte));
  vocab.emplace_back("ab", Number(256));
  vocab.emplace_back("bc", Number(257));
  vocab.emplace_back("abc", Number(258));
  JsonValue root = ParseJson(R"({
    "version": "1.0", "truncation": null, "padding": null,
    "added_tokens": [{"id": 300, "content": "<|x|>", "single_word": false, "lstrip": false,
                      "rstrip": false, "normalized": false, "special": true}],
    "normalizer": null,
    "pre_tokenizer": {"type": "Sequence", "pretokenizers": [
      {"type": "Split", "pattern": {"Regex": ""}, "behavior": "Isolated", "invert": false},
      {"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true, "use_regex": false}]},
    "post_processor": {"type": "ByteLevel"}, "decoder": {"type": "ByteLevel"},
    "model": {"type": "BPE", "dropout": null, "unk_token": null, "ignore_merges": true,
              "merges": [["b", "c"], ["a", "b"], ["a", "bc"]]}})")
                       .value();
  At(root, {"model", "vocab"}) = JsonValue(std::move(vocab));
  auto& steps = const_cast<Array&>(*At(root, {"pre_tokenizer", "pretokenizers"}).array());
  At(steps[0], {"pattern", "Regex"}) = Text(std::string(kO200kPattern));
  return root;
}

JsonValue& Step(JsonValue& root, int index) {
  return const_cast<Array&>(*At(root, {"pre_tokenizer", "pretokenizers"}).array())[index];
}

using Change = std::function<void(JsonValue&)>;

Result<std::unique_ptr<Tokenizer>> Parse(const Change& change = {}) {
  JsonValue root = Document();
  if (change) change(root);
  return ParseTokenizerJson(WriteJson(root));
}

void ExpectRefused(const std::string& part, const Change& change) {
  const auto parsed = Parse(change);
  ASSERT_FALSE(parsed.ok()) << part;
  EXPECT_NE(parsed.status().message().find(part), std::string::npos)
      << parsed.status().message() << "\nlacks: " << part;
}

TEST(TokenizerJson, MergesAndSpecials) {
  const auto tokenizer = Parse();
  ASSERT_TRUE(tokenizer.ok()) << tokenizer.status().message();
  EXPECT_EQ((*tokenizer)->Encode("abc ab xabc\xff"),
            (TokenIds{258, ' ', 256, ' ', 'x', 258, 0xff}));
  EXPECT_EQ((*tokenizer)->Encode("<|x|>"), (TokenIds{'<', '|', 'x', '|', '>'}));
  EXPECT_EQ((*tokenizer)->EncodeWithSpecials("ab<|x|>c"), (TokenIds{256, 300, 'c'}));
  EXPECT_EQ((*tokenizer)->vocab(), 301);
  EXPECT_EQ((*tokenizer)->Bytes(280), "");
  EXPECT_EQ((*tokenizer)->Bytes(0x20), " ");
  EXPECT_EQ((*tokenizer)->Bytes(0xad), "\xad");
}

TEST(TokenizerJson, IgnoreMergesDecidesForWholePieces) {
  const auto without_last = [](bool ignore) {
    return [ignore](JsonValue& root) {
      At(root, {"model", "merges"}) = ParseJson(R"([["b", "c"], ["a", "b"]])").value();
      At(root, {"model", "ignore_merges"}) = JsonValue(ignore);
    };
  };
  EXPECT_EQ(Parse(without_last(true)).value()->Encode("abc"), (TokenIds{258}));
  EXPECT_EQ(Parse(without_last(false)).value()->Encode("abc"), (TokenIds{'a', 257}));
  // Within a longer piece the merges decide either way.
  EXPECT_EQ(Parse(without_last(true)).value()->Encode("abcx"), (TokenIds{'a', 257, 'x'}));
}

TEST(TokenizerJson, MergesAsStrings) {
  const auto tokenizer = Parse([](JsonValue& root) {
    At(root, {"model", "merges"}) = ParseJson(R"(["a b", "b c"])").value();
  });
  ASSERT_TRUE(tokenizer.ok()) << tokenizer.status().message();
  EXPECT_EQ((*tokenizer)->Encode("xabc"), (TokenIds{'x', 256, 'c'}));
}

TEST(TokenizerJson, SpecialsMayAlsoStandInTheVocabulary) {
  const auto tokenizer = Parse([](JsonValue& root) {
    At(root, {"model", "vocab", "<|x|>"}) = Number(300);
    At(root, {"model", "vocab", "\u4f60"}) = Number(301);
    At(root, {"added_tokens"}) =
        ParseJson("[{\"id\": 300, \"content\": \"<|x|>\"}, {\"id\": 301, \"content\": \"\u4f60\"}]")
            .value();
  });
  ASSERT_TRUE(tokenizer.ok()) << tokenizer.status().message();
  EXPECT_EQ((*tokenizer)->Encode("<|x|>").size(), 5u);
  EXPECT_EQ((*tokenizer)->EncodeWithSpecials("\u4f60"), (TokenIds{301}));
}

TEST(TokenizerJson, TheLongestSpecialThatStartsThereWins) {
  const auto tokenizer = Parse([](JsonValue& root) {
    At(root, {"added_tokens"}) =
        ParseJson(R"([{"id": 300, "content": "<<"}, {"id": 301, "content": "<<<a"}])").value();
  });
  ASSERT_TRUE(tokenizer.ok()) << tokenizer.status().message();
  EXPECT_EQ((*tokenizer)->EncodeWithSpecials("<<<a<<<b<<"), (TokenIds{301, 300, '<', 'b', 300}));
}

TEST(TokenizerJson, RefusesBadVocabulary) {
  ExpectRefused("model.vocab is missing",
                [](JsonValue& root) { At(root, {"model", "vocab"}) = JsonValue(); });
  ExpectRefused("model.vocab is missing",
                [](JsonValue& root) { At(root, {"model", "vocab"}) = JsonValue(Array{}); });
  ExpectRefused("no token for the single byte 0", [](JsonValue& root) {
    At(root, {"model", "vocab"}) = JsonValue(Object{});
    At(root, {"model", "merges"}) = JsonValue(Array{});
  });
  ExpectRefused("the id of \"ab\" is \"256\", no whole number",
                [](JsonValue& root) { At(root, {"model", "vocab", "ab"}) = Text("256"); });
  ExpectRefused("the id of \"ab\" is 1.5", [](JsonValue& root) {
    At(root, {"model", "vocab", "ab"}) = JsonValue(JsonValue::Number{"1.5"});
  });
  ExpectRefused("\"ab\": two tokens have the id 97",
                [](JsonValue& root) { At(root, {"model", "vocab", "ab"}) = Number(97); });
  for (const char* id : {"-1", "4194304", "2147483648", "4294967296"}) {
    ExpectRefused("outside 0 to", [&](JsonValue& root) {
      At(root, {"model", "vocab", "ab"}) = JsonValue(JsonValue::Number{id});
    });
  }
  ExpectRefused("no whole number", [&](JsonValue& root) {
    At(root, {"model", "vocab", "ab"}) = JsonValue(JsonValue::Number{"99999999999999999999"});
  });
  ExpectRefused("\"a b\" is not in byte-level letters",
                [](JsonValue& root) { At(root, {"model", "vocab", "a b"}) = Number(259); });
  ExpectRefused("\"\": token 259 is empty",
                [](JsonValue& root) { At(root, {"model", "vocab", ""}) = Number(259); });
  ExpectRefused("id 256 is an ordinary token and the special token <|x|>", [](JsonValue& root) {
    At(root, {"added_tokens"}) = ParseJson(R"([{"id": 256, "content": "<|x|>"}])").value();
  });
}

TEST(TokenizerJson, RefusesBadMerges) {
  const auto merges = [](const std::string& json) {
    return [json](JsonValue& root) { At(root, {"model", "merges"}) = ParseJson(json).value(); };
  };
  ExpectRefused("model.merges is missing", merges("null"));
  ExpectRefused("model.merges is missing", merges("{}"));
  for (const char* entry : {"1", "[]", "[\"a\"]", "[\"a\", \"b\", \"c\"]", "[\"a\", 1]", "\"ab\"",
                            "\"a b c\"", "null"}) {
    ExpectRefused("entry 1 is", merges(StrCat("[[\"b\", \"c\"], ", entry, "]")));
  }
  ExpectRefused("entry 0, [\"q\",\"ab\"], names a result", merges(R"([["q", "ab"]])"));
  ExpectRefused("names a left token", merges(R"([["zz", "a"]])"));
  ExpectRefused("names a right token", merges(R"([["a", "zz"]])"));
  ExpectRefused("names a right token", merges(R"([["a", ""]])"));
  ExpectRefused("entry 0, [\"\u4f60\",\"a\"], is not in byte-level letters",
                merges("[[\"\u4f60\", \"a\"]]"));
}

TEST(TokenizerJson, RefusesOtherKinds) {
  ExpectRefused("\"model\" is missing", [](JsonValue& root) { At(root, {"model"}) = JsonValue(); });
  ExpectRefused("model.type is \"Unigram\"",
                [](JsonValue& root) { At(root, {"model", "type"}) = Text("Unigram"); });
  ExpectRefused("model.dropout is 0.1", [](JsonValue& root) {
    At(root, {"model", "dropout"}) = JsonValue(JsonValue::Number{"0.1"});
  });
  ExpectRefused("model.end_of_word_suffix is \"</w>\"",
                [](JsonValue& root) { At(root, {"model", "end_of_word_suffix"}) = Text("</w>"); });
  ExpectRefused("normalizer is {\"type\":\"NFKC\"}", [](JsonValue& root) {
    At(root, {"normalizer"}) = ParseJson(R"({"type": "NFKC"})").value();
  });
  ExpectRefused("post_processor is {\"type\":\"TemplateProcessing\"}", [](JsonValue& root) {
    At(root, {"post_processor", "type"}) = Text("TemplateProcessing");
  });
  ExpectRefused("pre_tokenizer must be",
                [](JsonValue& root) { At(root, {"pre_tokenizer"}) = JsonValue(); });
  ExpectRefused("pre_tokenizer must be", [](JsonValue& root) {
    At(root, {"pre_tokenizer"}) = ParseJson(R"({"type": "Whitespace"})").value();
  });
  ExpectRefused("the split pattern \\s+|[a-z]+ is unknown", [](JsonValue& root) {
    At(Step(root, 0), {"pattern", "Regex"}) = Text("\\s+|[a-z]+");
  });
  ExpectRefused("Split has no pattern.Regex", [](JsonValue& root) {
    At(Step(root, 0), {"pattern"}) = ParseJson(R"({"String": " "})").value();
  });
  ExpectRefused("Split.behavior is \"Removed\"",
                [](JsonValue& root) { At(Step(root, 0), {"behavior"}) = Text("Removed"); });
  ExpectRefused("Split.invert is true",
                [](JsonValue& root) { At(Step(root, 0), {"invert"}) = JsonValue(true); });
  ExpectRefused("ByteLevel.add_prefix_space is true",
                [](JsonValue& root) { At(Step(root, 1), {"add_prefix_space"}) = JsonValue(true); });
  ExpectRefused("ByteLevel.use_regex is missing", [](JsonValue& root) {
    Step(root, 1) = ParseJson(R"({"type": "ByteLevel", "add_prefix_space": false})").value();
  });
}

TEST(TokenizerJson, RefusesBadAddedTokens) {
  const auto added = [](const std::string& json) {
    return [json](JsonValue& root) { At(root, {"added_tokens"}) = ParseJson(json).value(); };
  };
  ExpectRefused("added_tokens is no array", added("{}"));
  for (const char* entry : {"1", "{}", R"({"id": 300})", R"({"content": "x"})",
                            R"({"id": "300", "content": "x"})", R"({"id": 300, "content": 1})"}) {
    ExpectRefused("needs a content and a whole id", added(StrCat("[", entry, "]")));
  }
  ExpectRefused("has an empty name", added(R"([{"id": 300, "content": ""}])"));
  ExpectRefused("which is outside 0 to", added(R"([{"id": -1, "content": "x"}])"));
  ExpectRefused("which is outside 0 to", added(R"([{"id": 4294967296, "content": "x"}])"));
  ExpectRefused("special token x has two ids, 300 and 301",
                added(R"([{"id": 300, "content": "x"}, {"id": 301, "content": "x"}])"));
  ExpectRefused("special tokens x and y have the same id 300",
                added(R"([{"id": 300, "content": "x"}, {"id": 300, "content": "y"}])"));
  EXPECT_TRUE(Parse(added(R"([{"id": 300, "content": "x"}, {"id": 300, "content": "x"}])")).ok());
  ExpectRefused("added_tokens: x.lstrip is true",
                added(R"([{"id": 300, "content": "x", "lstrip": true}])"));
}

TEST(TokenizerJson, RefusesWhatIsNoDocument) {
  for (const std::string& bad :
       {std::string(), std::string("{"), std::string("[]"), std::string("null"),
        std::string("\xff\xfe"), std::string(1000000, '['), "{\"model\":" + std::string(20, '[')}) {
    const auto parsed = ParseTokenizerJson(bad);
    ASSERT_FALSE(parsed.ok());
    EXPECT_FALSE(parsed.status().message().empty());
  }
  const std::string whole = WriteJson(Document());
  for (size_t length = 0; length < whole.size(); length += 97) {
    EXPECT_FALSE(ParseTokenizerJson(whole.substr(0, length)).ok()) << length;
  }
  std::string not_utf8 = whole;
  not_utf8[not_utf8.find("abc")] = '\xff';
  EXPECT_FALSE(ParseTokenizerJson(not_utf8).ok());
}

TEST(TokenizerJson, MessagesStayShort) {
  ExpectRefused("...", [](JsonValue& root) {
    At(Step(root, 0), {"pattern", "Regex"}) = Text(std::string(100000, 'x'));
  });
  const auto parsed =
      Parse([](JsonValue& root) { At(root, {"normalizer"}) = Text(std::string(100000, 'x')); });
  EXPECT_LT(parsed.status().message().size(), 500u);
}

}  // namespace
}  // namespace rose

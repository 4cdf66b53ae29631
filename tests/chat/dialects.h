// What the chat formats have in common, for tests that run over all of them: a tokenizer with the
// format's markers, and answers as a model of the format writes them.
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <ostream>
#include <string>
#include <vector>

#include "chat/byte_tokenizer.h"
#include "chat/chat_format.h"
#include "tokenizer/qwen.h"

namespace rose {

// What a model says: thoughts, a text, calls; empty = none.
struct ModelAnswer {
  std::string thoughts = {}, text = {};
  std::vector<ToolCall> calls = {};  // ids are not said
};

struct Dialect {
  std::string name;  // of the format
  const Tokenizer& tokenizer;
  std::string (*say)(const ModelAnswer& said);  // as text with markers
  bool says_many_calls = false;                 // in one answer

  std::unique_ptr<ChatFormat> Format() const { return CreateChatFormat(name, tokenizer).value(); }
  std::vector<int32_t> Tokens(std::string_view text) const {
    return tokenizer.EncodeWithSpecials(text);
  }
};

inline std::string SayHarmony(const ModelAnswer& said) {
  std::string out;
  const auto header = [&](std::string_view rest) {
    out += (out.empty() ? "" : "<|start|>assistant") + std::string(rest) + "<|message|>";
  };
  if (!said.thoughts.empty()) {
    header("<|channel|>analysis");
    out += said.thoughts + "<|end|>";
  }
  if (!said.text.empty() || said.calls.empty()) {
    header(said.calls.empty() ? "<|channel|>final" : "<|channel|>commentary");
    out += said.text + (said.calls.empty() ? "<|return|>" : "<|end|>");
  }
  for (const ToolCall& call : said.calls) {
    header(" to=functions." + call.name + "<|channel|>commentary <|constrain|>json");
    out += call.arguments + "<|call|>";
  }
  return out;
}

inline std::string SayQwen3(const ModelAnswer& said) {
  std::string out;
  if (!said.thoughts.empty()) out += "<think>\n" + said.thoughts + "\n</think>\n\n";
  out += said.text;
  for (size_t i = 0; i < said.calls.size(); ++i) {
    if (i > 0 || !said.text.empty()) out += "\n";
    out += "<tool_call>\n{\"name\": \"" + said.calls[i].name +
           "\", \"arguments\": " + said.calls[i].arguments + "}\n</tool_call>";
  }
  return out + "<|im_end|>";
}

inline const Dialect& HarmonyDialect() {
  static const ByteTokenizer tokenizer;
  static const Dialect dialect{"harmony", tokenizer, SayHarmony};
  return dialect;
}

inline const Dialect& Qwen3Dialect() {
  static const Dialect dialect{"qwen3", QwenToy(), SayQwen3, /*says_many_calls=*/true};
  return dialect;
}

// Made when a test asks for it: the names of tests are wanted where there are no data.
struct DialectParam {
  const char* name;
  const Dialect& (*dialect)();
};
inline void PrintTo(const DialectParam& param, std::ostream* out) {
  *out << param.name;
}

// Fixture of tests over all formats: INSTANTIATE_FORMATS(Name), TEST_P(Name, ...).
class FormatTest : public testing::TestWithParam<DialectParam> {
 protected:
  const Dialect& dialect() const { return GetParam().dialect(); }
};
#define INSTANTIATE_FORMATS(Suite)                                                  \
  INSTANTIATE_TEST_SUITE_P(Over, Suite,                                             \
                           testing::Values(DialectParam{"harmony", HarmonyDialect}, \
                                           DialectParam{"qwen3", Qwen3Dialect}),    \
                           [](const auto& info) { return info.param.name; })

}  // namespace rose

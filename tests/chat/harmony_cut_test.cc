// The reference's streams, cut at every token: what was said before the cut is never taken back.
#include <gtest/gtest.h>

#include <fstream>

#include "base/json.h"
#include "base/utf8.h"
#include "chat/harmony_parser.h"
#include "chat/parsed_messages.h"

namespace rose {
namespace {

struct Stream {
  std::string name;
  std::vector<int32_t> tokens;
  JsonValue record;
};

std::vector<Stream> GoldenStreams() {
  std::vector<Stream> out;
  std::ifstream file(ROSE_SOURCE_DIR "/tests/data/harmony/parse.jsonl");
  for (std::string line; std::getline(file, line);) {
    Stream& stream = out.emplace_back();
    stream.record = *ParseJson(line);
    stream.name = *stream.record.Find("name")->string();
    for (const JsonValue& id : *stream.record.Find("tokens")->array())
      stream.tokens.push_back(static_cast<int32_t>(*id.AsInteger()));
  }
  EXPECT_EQ(out.size(), 296u);
  return out;
}

std::unique_ptr<Tokenizer> HarmonyTokenizer() {
  return BuiltInTokenizer("o200k_harmony").value();
}

HarmonyParser NewParser(const Stream& stream, const Tokenizer& tokenizer) {
  const bool own_start = !stream.tokens.empty() && stream.tokens[0] == 200006;
  return HarmonyParser(
      *FindHarmonyIds(tokenizer), tokenizer, {},
      own_start ? HarmonyParser::Start::kBetweenMessages : HarmonyParser::Start::kAssistantHeader);
}

Parsed ParseUpTo(const Stream& stream, size_t count, const Tokenizer& tokenizer) {
  HarmonyParser parser = NewParser(stream, tokenizer);
  std::vector<ChatEvent> events;
  for (size_t i = 0; i < count; ++i) parser.Push(stream.tokens[i], events);
  parser.Finish(events);
  return Fold(events);
}

// `text` without the U+FFFD that stand for characters which the cut left incomplete.
std::string_view Certain(std::string_view text) {
  while (text.ends_with("\uFFFD")) text.remove_suffix(3);
  return text;
}

TEST(HarmonyCut, TheStartOfAStreamSaysTheStartOfWhatTheWholeSays) {
  const auto tokenizer = HarmonyTokenizer();
  for (const Stream& stream : GoldenStreams()) {
    const Parsed whole = ParseUpTo(stream, stream.tokens.size(), *tokenizer);
    for (size_t cut = 0; cut < stream.tokens.size(); ++cut) {
      Parsed part = ParseUpTo(stream, cut, *tokenizer);
      ASSERT_LE(part.messages.size(), whole.messages.size()) << stream.name << " cut at " << cut;
      for (size_t i = 0; i < part.messages.size(); ++i) {
        ParsedMessage got = part.messages[i], full = whole.messages[i];
        if (!got.complete) {
          EXPECT_EQ(i + 1, part.messages.size());
          EXPECT_TRUE(full.text.starts_with(Certain(got.text))) << stream.name << " cut at " << cut;
          got.text = full.text;
          got.complete = full.complete;
        }
        EXPECT_EQ(got, full) << stream.name << " cut at " << cut;
      }
    }
  }
}

// The text of a body, decoded in one piece.
std::string Lossy(const std::string& bytes) {
  std::string out;
  for (int64_t pos = 0; pos < static_cast<int64_t>(bytes.size());) {
    const Utf8Char next = DecodeUtf8(bytes, pos);
    AppendUtf8(out, next.code_point);
    pos += next.length;
  }
  return out;
}

// The reference's deltas lose bytes that are pending when a message ends; its messages do not.
TEST(HarmonyCut, JoinedPiecesAreTheWholeBodyWhateverItsBytes) {
  const auto tokenizer = HarmonyTokenizer();
  int compared = 0, shorter = 0;
  for (const Stream& stream : GoldenStreams()) {
    const bool is_utf8 = stream.name.starts_with("utf8/");
    if (*stream.record.Find("malformed")->boolean() && !is_utf8) continue;
    std::vector<std::string> bodies;
    bool in_body = false;
    for (const int32_t token : stream.tokens) {
      if (token == 200008) {
        in_body = true;
        bodies.emplace_back();
      } else if (token == 200007 || token == 200002 || token == 200012) {
        in_body = false;
      } else if (in_body) {
        bodies.back() += tokenizer->Bytes(token);
      }
    }
    const Parsed parsed = ParseUpTo(stream, stream.tokens.size(), *tokenizer);
    ASSERT_EQ(parsed.messages.size(), bodies.size()) << stream.name;
    for (size_t i = 0; i < bodies.size(); ++i)
      EXPECT_EQ(parsed.messages[i].text, Lossy(bodies[i])) << stream.name;
    ++compared;

    std::string theirs, ours;
    for (const JsonValue& delta : *stream.record.Find("deltas")->array())
      if (const std::string* text = (*delta.array())[3].string()) theirs += *text;
    for (const ParsedMessage& message : parsed.messages) ours += message.text;
    shorter += theirs.size() < ours.size();
  }
  EXPECT_EQ(compared, 131);
  EXPECT_GT(shorter, 0);
}

}  // namespace
}  // namespace rose

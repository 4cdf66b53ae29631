#include "load/load_bodies.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <random>

#include "base/json.h"

namespace rose {
namespace {

// One token each in most vocabularies, when a blank stands before them.
constexpr std::array<std::string_view, 64> kWords = {
    "time",    "year",    "people",   "way",    "day",    "man",     "thing",   "woman",
    "life",    "child",   "world",    "school", "state",  "family",  "student", "group",
    "country", "problem", "hand",     "part",   "place",  "case",    "week",    "company",
    "system",  "program", "question", "work",   "number", "night",   "point",   "home",
    "water",   "room",    "mother",   "area",   "money",  "story",   "fact",    "month",
    "lot",     "right",   "study",    "book",   "eye",    "job",     "word",    "business",
    "issue",   "side",    "kind",     "head",   "house",  "service", "friend",  "father",
    "power",   "hour",    "game",     "line",   "end",    "member",  "law",     "car"};

constexpr std::string_view kStream = R"("stream":true,"stream_options":{"include_usage":true})";

int64_t Draw(std::mt19937_64& random, const Range& range) {
  return range.least +
         static_cast<int64_t>(random() % static_cast<uint64_t>(range.most - range.least + 1));
}

std::string Words(std::mt19937_64& random, int64_t count) {
  std::string text;
  for (int64_t i = 0; i < count; ++i) {
    if (i > 0) text += ' ';
    text += kWords[random() % kWords.size()];
  }
  return text;
}

}  // namespace

Result<Range> ParseRange(std::string_view text) {
  Range range;
  const char* end = text.data() + text.size();
  auto read = std::from_chars(text.data(), end, range.least);
  range.most = range.least;
  if (read.ec == std::errc() && read.ptr != end && *read.ptr == ':') {
    read = std::from_chars(read.ptr + 1, end, range.most);
  }
  if (read.ec != std::errc() || read.ptr != end || range.least < 1 || range.most < range.least) {
    return InvalidArgument("'", text, "' is no length such as 128 or 100:500");
  }
  return range;
}

std::vector<LoadRequest> MakeBodies(int64_t n, const BodyOptions& options) {
  std::mt19937_64 random(options.seed);
  std::vector<LoadRequest> requests;
  for (int64_t i = 0; i < n; ++i) {
    const std::string text = Words(random, Draw(random, options.input));
    const int64_t tokens = Draw(random, options.output);
    std::string body = "{\"model\":";
    AppendJsonString(body, options.model);
    body += options.is_chat ? R"(,"messages":[{"role":"user","content":)" : R"(,"prompt":)";
    AppendJsonString(body, text);
    body += StrCat(options.is_chat ? "}]" : "", ",\"max_tokens\":", tokens, ",", kStream);
    if (options.fixed_output) body += StrCat(R"(,"ignore_eos":true,"min_tokens":)", tokens);
    if (!options.common.empty()) body += "," + options.common;
    requests.push_back({options.is_chat ? "/chat/completions" : "/completions", body + "}"});
  }
  return requests;
}

Result<std::vector<LoadRequest>> ReadBodies(std::string_view jsonl, int64_t n,
                                            const BodyOptions& options) {
  std::vector<LoadRequest> requests;
  int64_t line = 0;
  while (!jsonl.empty()) {
    const std::string_view text = jsonl.substr(0, jsonl.find('\n'));
    jsonl.remove_prefix(std::min(jsonl.size(), text.size() + 1));
    ++line;
    if (text.find_first_not_of(" \t\r") == text.npos) continue;
    const auto json = ParseJson(text);
    if (!json.ok()) return InvalidArgument("line ", line, ": ", json.status().message());
    const bool is_chat = json->Find("messages") != nullptr;
    if (!is_chat && json->Find("prompt") == nullptr) {
      return InvalidArgument("line ", line, " has neither \"messages\" nor \"prompt\"");
    }
    JsonValue::Object body;
    for (const auto& member : *json->object()) {
      if (member.first != "stream" && member.first != "stream_options") body.push_back(member);
    }
    if (json->Find("model") == nullptr) body.emplace_back("model", JsonValue(options.model));
    std::string out = WriteJson(JsonValue(std::move(body)));
    out.pop_back();
    out += StrCat(",", kStream, options.common.empty() ? "" : ",", options.common, "}");
    requests.push_back({is_chat ? "/chat/completions" : "/completions", std::move(out)});
  }
  if (requests.empty()) return InvalidArgument("the file has no request");
  if (n > 0) {
    const size_t lines = requests.size();
    while (static_cast<int64_t>(requests.size()) < n) {
      requests.push_back(requests[requests.size() % lines]);
    }
    requests.resize(n);
  }
  return requests;
}

}  // namespace rose

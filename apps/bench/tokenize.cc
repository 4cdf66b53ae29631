// rose bench tokenize: how fast text becomes tokens, side by side with tiktoken, and whether both
// give the same.
#include <time.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <fstream>
#include <iterator>

#include "base/cpu.h"
#include "base/json.h"
#include "base/utf8.h"
#include "bench/bench.h"
#include "bench/median.h"
#include "bench/texts.h"
#include "bench/tiktoken_peer.h"
#include "commands.h"
#include "tokenizer/bpe_tokenizer.h"

namespace rose {
namespace {

struct BenchTokenizeOptions {
  std::string python = "python3";
  std::vector<std::string> files;  // measured besides the texts that are made
  int64_t kilobytes = 1000;        // of each text that is made
  int64_t rounds = 11;
  int64_t tricky = 0;  // texts to compare
};

struct BenchText {
  std::string name;
  std::vector<std::string> parts;  // encoded one by one
};

// In parts that rose encodes with one thread, as tiktoken does; cut between characters.
std::vector<std::string> Parts(std::string_view text) {
  constexpr int64_t kPart = 100'000;
  static_assert(kPart + 4 < BpeTokenizer::kLongText);
  std::vector<std::string> parts;
  while (!text.empty()) {
    size_t size = std::min<size_t>(kPart, text.size());
    while (size < text.size() && (text[size] & 0xC0) == 0x80) ++size;
    parts.emplace_back(text.substr(0, size));
    text.remove_prefix(size);
  }
  return parts;
}

// The processor time of this thread, which other programs do not lengthen; tiktoken is measured the
// same way.
double ThreadSeconds() {
  timespec time;
  ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_nsec) * 1e-9;
}

int64_t BytesOf(const std::vector<std::string>& parts) {
  int64_t bytes = 0;
  for (const std::string& part : parts) bytes += std::ssize(part);
  return bytes;
}

std::vector<int32_t> EncodeAll(const Tokenizer& tokenizer, const std::vector<std::string>& parts) {
  std::vector<int32_t> ids;
  for (const std::string& part : parts) {
    const std::vector<int32_t> some = tokenizer.Encode(part);
    ids.insert(ids.end(), some.begin(), some.end());
  }
  return ids;
}

double TimeOnce(const Tokenizer& tokenizer, const std::vector<std::string>& parts) {
  const double begin = ThreadSeconds();
  for (const std::string& part : parts) tokenizer.Encode(part);
  return ThreadSeconds() - begin;
}

// Both in turn, so that both meet the same machine. The median of each round's ratio is the ratio.
Status MeasureText(const BenchText& text, int64_t rounds, const Tokenizer& tokenizer,
                   TiktokenPeer& peer) {
  ROSE_ASSIGN_OR_RETURN(const TiktokenPeer::Encoded expected, peer.Encode(text.parts));
  const bool equal = EncodeAll(tokenizer, text.parts) == expected.ids;
  std::vector<double> ours, theirs, ratios, whole;
  std::string joined;
  for (const std::string& part : text.parts) joined += part;
  for (int64_t i = 0; i < rounds; ++i) {
    ours.push_back(TimeOnce(tokenizer, text.parts));
    ROSE_ASSIGN_OR_RETURN(const double seconds, peer.Again());
    theirs.push_back(seconds);
    ratios.push_back(theirs.back() / ours.back());
    const auto begin = std::chrono::steady_clock::now();
    tokenizer.Encode(joined);
    whole.push_back(
        std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count());
  }
  const auto bytes = static_cast<double>(BytesOf(text.parts));
  std::string name;
  AppendJsonString(name, text.name);
  std::printf(
      "{\"bench\": \"tokenize\", \"text\": %s, \"bytes\": %.0f, \"texts\": %zu, \"tokens\": %zu, "
      "\"equal\": %s, \"rose_mb_per_s\": %.2f, \"tiktoken_mb_per_s\": %.2f, \"ratio\": %.2f, "
      "\"cpus\": %d, \"rose_as_one_text_mb_per_s\": %.2f, \"tiktoken\": \"%s\", \"rounds\": "
      "%lld}\n",
      name.c_str(), bytes, text.parts.size(), expected.ids.size(), equal ? "true" : "false",
      bytes / Median(ours) * 1e-6, bytes / Median(theirs) * 1e-6, Median(ratios), AvailableCpus(),
      bytes / Median(whole) * 1e-6, peer.version().c_str(), static_cast<long long>(rounds));
  std::fflush(stdout);
  if (!equal) return Status(StatusCode::kInternal, StrCat("rose and tiktoken differ on ", name));
  return {};
}

// Texts of one character, which tiktoken cannot take: rose alone, to see that time is in
// proportion.
void MeasureRun(const std::string& name, std::string_view unit, const Tokenizer& tokenizer) {
  std::string sizes, times;
  for (const double megabytes : {1.25, 2.5, 5.0, 10.0}) {
    std::vector<std::string> text(1);
    while (std::ssize(text[0]) < static_cast<int64_t>(megabytes * 1e6)) text[0] += unit;
    std::vector<double> seconds;
    for (int i = 0; i < 3; ++i) seconds.push_back(TimeOnce(tokenizer, text));
    char number[64];
    std::snprintf(number, sizeof number, "%s%g", sizes.empty() ? "" : ", ", megabytes);
    sizes += number;
    std::snprintf(number, sizeof number, "%s%.1f", times.empty() ? "" : ", ",
                  Median(seconds) * 1e3);
    times += number;
  }
  std::printf("{\"bench\": \"tokenize\", \"run_of\": \"%s\", \"mb\": [%s], \"ms\": [%s]}\n",
              name.c_str(), sizes.c_str(), times.c_str());
  std::fflush(stdout);
}

Status CompareTricky(int64_t texts, const Tokenizer& tokenizer, TiktokenPeer& peer) {
  TextMaker maker(tokenizer);
  int64_t bytes = 0;
  for (int64_t done = 0; done < texts;) {
    std::vector<std::string> some(std::min<int64_t>(2000, texts - done));
    for (std::string& text : some) text = maker.Tricky();
    ROSE_ASSIGN_OR_RETURN(const TiktokenPeer::Encoded expected, peer.Encode(some));
    auto rest = expected.ids.begin();
    for (const std::string& text : some) {
      const std::vector<int32_t> ids = tokenizer.Encode(text);
      const int64_t left = expected.ids.end() - rest;
      if (std::ssize(ids) > left || !std::equal(ids.begin(), ids.end(), rest)) {
        std::string json;
        AppendJsonString(json, text);
        return Status(StatusCode::kInternal, StrCat("rose and tiktoken differ on ", json));
      }
      rest += std::ssize(ids);
    }
    done += std::ssize(some);
    bytes += BytesOf(some);
  }
  std::printf(
      "{\"bench\": \"tokenize\", \"compared_texts\": %lld, \"bytes\": %lld, \"equal\": true}\n",
      static_cast<long long>(texts), static_cast<long long>(bytes));
  return {};
}

Result<std::vector<BenchText>> AllTexts(const BenchTokenizeOptions& options,
                                        const Tokenizer& tokenizer) {
  TextMaker maker(tokenizer);
  const int64_t bytes = options.kilobytes * 1000;
  std::vector<BenchText> texts = {{"english", Parts(maker.English(bytes))},
                                  {"code", Parts(maker.Code(bytes))},
                                  {"chinese", Parts(maker.Chinese(bytes))},
                                  {"random_utf8", Parts(maker.RandomUtf8(bytes))},
                                  {"random_mixed_utf8", Parts(maker.RandomMixedUtf8(bytes))},
                                  {"chat", maker.Chat(5 * options.kilobytes)}};
  for (const std::string& name : options.files) {
    std::ifstream file(name, std::ios::binary);
    std::string content(std::istreambuf_iterator<char>(file), {});
    if (!file) return InvalidArgument("cannot read ", name);
    if (!IsValidUtf8(content)) {
      return InvalidArgument(name, " is no valid UTF-8, which tiktoken needs");
    }
    texts.push_back({name, Parts(content)});
  }
  return texts;
}

Status RunBenchTokenize(const BenchTokenizeOptions& options) {
  ROSE_ASSIGN_OR_RETURN(const std::unique_ptr<Tokenizer> tokenizer,
                        BuiltInTokenizer("o200k_harmony"));
  ROSE_ASSIGN_OR_RETURN(const std::vector<BenchText> texts, AllTexts(options, *tokenizer));
  ROSE_ASSIGN_OR_RETURN(const std::unique_ptr<TiktokenPeer> peer,
                        TiktokenPeer::Start(options.python));
  if (options.tricky > 0) return CompareTricky(options.tricky, *tokenizer, *peer);
  for (const BenchText& text : texts) {
    ROSE_RETURN_IF_ERROR(MeasureText(text, options.rounds, *tokenizer, *peer));
  }
  MeasureRun("letter a", "a", *tokenizer);
  MeasureRun("space", " ", *tokenizer);
  MeasureRun("emoji U+1F999", "\U0001F999", *tokenizer);
  return {};
}

}  // namespace

void AddBenchTokenize(CLI::App& bench, int& exit_code) {
  auto options = std::make_shared<BenchTokenizeOptions>();  // shared with the callback
  CLI::App* command = bench.add_subcommand(
      "tokenize", "Text to tokens in one thread, side by side with tiktoken, and compared with it");
  command->add_option("--python", options->python, "A Python that has tiktoken")
      ->capture_default_str();
  command->add_option("--text", options->files, "Files of text to measure as well");
  command->add_option("--kb", options->kilobytes, "Size of each text that is made")
      ->check(CLI::Range(1, 100000))
      ->capture_default_str();
  command->add_option("--rounds", options->rounds, "Rounds of each text; medians are reported")
      ->check(CLI::Range(1, 1000))
      ->capture_default_str();
  command
      ->add_option("--compare", options->tricky,
                   "Measure nothing, but compare the ids of so many short texts")
      ->check(CLI::Range(1, 1000000000));
  command->footer(
      "Examples:\n"
      "  rose bench tokenize --python ~/venv/bin/python\n"
      "  rose bench tokenize --text README.md --text src/engine/engine.cc\n"
      "  rose bench tokenize --compare 200000");
  command->callback([options, &exit_code] {
    if (const Status status = RunBenchTokenize(*options); !status.ok())
      exit_code = ReportFailure(status);
  });
}

}  // namespace rose

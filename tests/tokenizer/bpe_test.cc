#include "tokenizer/bpe.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <string>

#include "tokenizer/harmony.h"

namespace rose {
namespace {

using TokenIds = std::vector<int32_t>;

// All single bytes (id = byte), then `more` from 256 on.
Vocabulary Letters(const std::vector<std::string>& more) {
  Vocabulary tokens;
  for (int byte = 0; byte < 256; ++byte) {
    EXPECT_TRUE(tokens.Add(std::string(1, static_cast<char>(byte)), byte).ok());
  }
  for (size_t i = 0; i < more.size(); ++i) EXPECT_TRUE(tokens.Add(more[i], 256 + i).ok());
  EXPECT_TRUE(tokens.Index().ok());
  return tokens;
}

struct MergedPiece {
  TokenIds ids;
  int64_t looked_up;
};

MergedPiece Appended(const Merger& merger, std::string_view piece) {
  const std::string readable = std::string(piece) + std::string(Merger::kReadAhead, '\x80');
  TokenIds ids(piece.size());
  IdWriter out{ids.data()};
  merger.Append(std::string_view(readable).substr(0, piece.size()), out);
  ids.resize(out.end - ids.data());
  return {ids, out.looked_up};
}

TokenIds Merged(const Vocabulary& tokens, const MergeTable* merges, std::string_view piece) {
  return Appended(Merger(tokens, merges), piece).ids;
}

// As the rule is written: join the pair of lowest rank, leftmost, until there is none.
TokenIds NaiveMerged(const Vocabulary& tokens, const MergeTable* merges, std::string_view piece) {
  TokenIds ids;
  for (const char c : piece) ids.push_back(static_cast<uint8_t>(c));
  while (true) {
    int32_t best = -1;
    size_t best_at = 0;
    for (size_t at = 0; at + 1 < ids.size(); ++at) {
      const std::string joined =
          std::string(tokens.Bytes(ids[at])) + std::string(tokens.Bytes(ids[at + 1]));
      const int32_t rank = merges ? merges->Rank(ids[at], ids[at + 1]) : tokens.Find(joined);
      if (rank >= 0 && (best < 0 || rank < best)) {
        best = rank;
        best_at = at;
      }
    }
    if (best < 0) return ids;
    ids[best_at] = merges ? merges->Joined(best) : best;
    ids.erase(ids.begin() + static_cast<int64_t>(best_at) + 1);
  }
}

TEST(Bpe, LowestRankThenLeftmost) {
  const Vocabulary tokens = Letters({"ab", "bc", "aa"});
  EXPECT_EQ(Merged(tokens, nullptr, "abc"), (TokenIds{256, 'c'}));
  EXPECT_EQ(Merged(tokens, nullptr, "aaa"), (TokenIds{258, 'a'}));
  EXPECT_EQ(Merged(tokens, nullptr, "x"), (TokenIds{'x'}));
}

TEST(Bpe, MergesDecideByTheirPlace) {
  const Vocabulary tokens = Letters({"ab", "bc", "abc"});
  MergeTable merges(3);
  merges.Set('b', 'c', 0, 257);
  merges.Set('a', 'b', 1, 256);
  EXPECT_EQ(Merged(tokens, &merges, "abc"), (TokenIds{'a', 257}));
  // By ranks the same vocabulary gives another answer.
  EXPECT_EQ(Merged(tokens, nullptr, "abc"), (TokenIds{258}));
  merges.Set('a', 257, 2, 258);
  EXPECT_EQ(Merged(tokens, &merges, "abc"), (TokenIds{258}));
}

// Random tokens made of `letters`, and merges that lead to some of them in random order. Every
// token is joined from two that are there already, as a trainer does, if `grown`; else from any
// letters.
struct RandomRules {
  Vocabulary tokens;
  MergeTable merges{64};
};

RandomRules MakeRules(std::mt19937& random, const std::vector<std::string>& letters, bool grown) {
  std::vector<std::string> all(letters), more;
  for (const std::string& letter : letters) {
    if (letter.size() > 1 && random() % 4 != 0) more.push_back(letter);
  }
  for (int i = 0; i < 24; ++i) {
    std::string token;
    for (int k = grown ? 2 : 2 + random() % 5; k > 0; --k) {
      token += grown ? all[random() % all.size()] : letters[random() % letters.size()];
    }
    if (token.size() < 2 || std::find(all.begin(), all.end(), token) != all.end()) continue;
    all.push_back(token);
    more.push_back(token);
  }
  RandomRules rules{.tokens = Letters(more)};
  for (int rank = 0; rank < 60; ++rank) {
    const std::string& joined = more[random() % more.size()];
    const size_t cut = 1 + random() % (joined.size() - 1);
    const int32_t left = rules.tokens.Find(joined.substr(0, cut));
    const int32_t right = rules.tokens.Find(joined.substr(cut));
    if (left >= 0 && right >= 0) rules.merges.Set(left, right, rank, rules.tokens.Find(joined));
  }
  return rules;
}

// Pieces on both sides of the borders between the ways of merging.
void ExpectTheRule(const std::vector<std::string>& letters, bool grown,
                   const std::vector<int>& lengths, int rounds) {
  std::mt19937 random(1);
  for (int round = 0; round < rounds; ++round) {
    const RandomRules rules = MakeRules(random, letters, grown);
    const Merger by_ids(rules.tokens, nullptr), by_places(rules.tokens, &rules.merges);
    for (const int length : lengths) {
      std::string piece;
      while (static_cast<int>(piece.size()) < length) piece += letters[random() % letters.size()];
      ASSERT_EQ(Appended(by_ids, piece).ids, NaiveMerged(rules.tokens, nullptr, piece)) << piece;
      ASSERT_EQ(Appended(by_places, piece).ids, NaiveMerged(rules.tokens, &rules.merges, piece))
          << piece;
    }
  }
}

TEST(Bpe, EqualToTheRuleAsWritten) {
  ExpectTheRule({"a", "b"}, /*grown=*/false, {2, 7, 63, 64, 65, 66, 300}, 200);
  ExpectTheRule({"a", "b"}, /*grown=*/true, {2, 7, 64, 65, 300}, 100);
}

TEST(Bpe, EqualToTheRuleInWindows) {
  ExpectTheRule({"a", "b"}, /*grown=*/false, {2047, 2049, 3073}, 12);
  ExpectTheRule({"a"}, /*grown=*/true, {2048, 2049, 3071, 5000}, 6);
}

// Bytes of characters as letters: tokens begin and end within characters, so that some characters
// are a unit to start from and some are not.
TEST(Bpe, EqualToTheRuleInCharacters) {
  for (const bool grown : {false, true}) {
    ExpectTheRule({"\u00e9", "\u00ea", "a"}, grown, {4, 9, 30, 130}, 100);
    ExpectTheRule({"\u4e2d", "\u4e2e", "\u6587"}, grown, {6, 12, 63, 64, 192, 195, 260}, 100);
    ExpectTheRule({"\xe4", "\xb8", "\xad", "\u4e2d"}, grown, {6, 12, 30, 65}, 100);
    // Beyond the Basic Multilingual Plane, and beside the others.
    ExpectTheRule({"\U0001f602", "\U0001f642", "\u4e2d"}, grown, {8, 12, 40, 64, 200}, 100);
    ExpectTheRule({"\U0001f602", "\xf0\x9f", "\x82", "\u00c2", " "}, grown, {4, 9, 30, 65}, 200);
    // Characters that are tokens too late to start from, in some neighbourhoods.
    ExpectTheRule({"\xe5\xbd", "\xa9", "\u5f69", "\u7968", "\xe7\xa5", "\xa8"}, grown,
                  {5, 9, 24, 40}, 300);
  }
}

// Counted, since time depends on the machine: whatever the piece, work is in proportion to it.
TEST(Case060, WorkIsInProportionToTheLength) {
  Vocabulary tokens;
  for (int32_t id = 0; id < 199998; ++id) ASSERT_TRUE(tokens.Add(Harmony().Bytes(id), id).ok());
  ASSERT_TRUE(tokens.Index().ok());
  const Merger merger(tokens, nullptr);
  for (const std::string unit :
       {"a", " ", "\n", "\U0001F999", "ab", "=-", "\u4e2d", "\xff", "e\u0301"}) {
    std::string text;
    while (text.size() < 400000) text += unit;
    EXPECT_LE(Appended(merger, text).looked_up, 4 * std::ssize(text)) << unit;
  }
}

TEST(Vocabulary, RefusesWhatCannotBe) {
  Vocabulary tokens;
  EXPECT_TRUE(tokens.Add("a", 5).ok());
  EXPECT_EQ(tokens.Add("b", 5).message(), "two tokens have the id 5");
  EXPECT_EQ(tokens.Add("", 6).message(), "token 6 is empty");
  EXPECT_FALSE(tokens.Add("c", -1).ok());
  EXPECT_FALSE(tokens.Add("c", Vocabulary::kMaxTokens).ok());
  EXPECT_TRUE(tokens.Index().ok());
  EXPECT_EQ(tokens.Find("a"), 5);
  EXPECT_EQ(tokens.Find("c"), -1);
  EXPECT_EQ(tokens.Bytes(4), "");
  EXPECT_EQ(tokens.ids(), 6);
  EXPECT_TRUE(tokens.Add("a", 6).ok());
  EXPECT_EQ(tokens.Index().message(), "tokens 5 and 6 are the same bytes");
}

TEST(Vocabulary, TokensOfManyLengthsAreFound) {
  Vocabulary tokens;
  const std::string text(100, 'x');
  for (int length = 1; length <= 100; ++length) {
    ASSERT_TRUE(tokens.Add(std::string_view(text).substr(0, length), 3 * length).ok());
  }
  ASSERT_TRUE(tokens.Index().ok());
  EXPECT_EQ(tokens.Find(text + "x"), -1);
  for (int length = 1; length <= 100; ++length) {
    EXPECT_EQ(tokens.Find(std::string_view(text).substr(0, length)), 3 * length);
    std::string other = text.substr(0, length);
    other[length / 2] = 'y';
    EXPECT_EQ(tokens.Find(other), -1);
    EXPECT_EQ(tokens.Bytes(3 * length).size(), static_cast<size_t>(length));
  }
}

}  // namespace
}  // namespace rose

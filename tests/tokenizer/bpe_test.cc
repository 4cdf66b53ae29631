#include "tokenizer/bpe.h"

#include <gtest/gtest.h>

#include <random>
#include <string>

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

std::array<int32_t, 256> ByteIds() {
  std::array<int32_t, 256> ids;
  for (int byte = 0; byte < 256; ++byte) ids[byte] = byte;
  return ids;
}

TokenIds Merged(const Vocabulary& tokens, const MergeTable* merges, std::string_view piece) {
  const std::array<int32_t, 256> byte_ids = ByteIds();
  TokenIds ids;
  MergePiece({.tokens = &tokens, .merges = merges, .byte_ids = &byte_ids}, piece, ids);
  return ids;
}

// As the rule is written: join the pair of lowest rank, leftmost, until there is none.
TokenIds NaiveMerged(const Vocabulary& tokens, const MergeTable* merges, std::string_view piece) {
  TokenIds ids;
  for (const char c : piece) ids.push_back(static_cast<uint8_t>(c));
  while (true) {
    Merge best;
    size_t best_at = 0;
    for (size_t at = 0; at + 1 < ids.size(); ++at) {
      Merge merge;
      if (merges) {
        merge = merges->Find(ids[at], ids[at + 1]);
      } else {
        const std::string joined =
            std::string(tokens.Bytes(ids[at])) + std::string(tokens.Bytes(ids[at + 1]));
        if (const int32_t id = tokens.Find(joined); id >= 0) merge = {id, id};
      }
      if (merge.rank < best.rank) {
        best = merge;
        best_at = at;
      }
    }
    if (best.rank == Merge::kNone) return ids;
    ids[best_at] = best.id;
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
  merges.Set('b', 'c', {0, 257});
  merges.Set('a', 'b', {1, 256});
  EXPECT_EQ(Merged(tokens, &merges, "abc"), (TokenIds{'a', 257}));
  // By ranks the same vocabulary gives another answer.
  EXPECT_EQ(Merged(tokens, nullptr, "abc"), (TokenIds{258}));
  merges.Set('a', 257, {2, 258});
  EXPECT_EQ(Merged(tokens, &merges, "abc"), (TokenIds{258}));
}

// Random vocabularies over two letters; pieces on both sides of the border between loop and heap.
TEST(Bpe, EqualToTheRuleAsWritten) {
  std::mt19937 random(1);
  for (int round = 0; round < 300; ++round) {
    std::vector<std::string> more;
    const std::string letters = "ab";
    for (int i = 0; i < 12; ++i) {
      std::string token;
      for (int k = 2 + random() % 5; k > 0; --k) token += letters[random() % 2];
      if (std::find(more.begin(), more.end(), token) == more.end()) more.push_back(token);
    }
    const Vocabulary tokens = Letters(more);
    MergeTable merges(64);
    for (int rank = 0; rank < 30; ++rank) {
      const std::string& joined = more[random() % more.size()];
      const size_t cut = 1 + random() % (joined.size() - 1);
      const int32_t left = tokens.Find(joined.substr(0, cut));
      const int32_t right = tokens.Find(joined.substr(cut));
      if (left >= 0 && right >= 0) merges.Set(left, right, {rank, tokens.Find(joined)});
    }
    for (const int length : {2, 7, 63, 64, 65, 66, 300}) {
      std::string piece;
      for (int i = 0; i < length; ++i) piece += letters[random() % 2];
      ASSERT_EQ(Merged(tokens, nullptr, piece), NaiveMerged(tokens, nullptr, piece)) << piece;
      ASSERT_EQ(Merged(tokens, &merges, piece), NaiveMerged(tokens, &merges, piece)) << piece;
    }
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

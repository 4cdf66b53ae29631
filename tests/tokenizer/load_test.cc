// LoadTokenizer: folders and files, whole and damaged.
#include <filesystem>

#include "tokenizer/bpe_tokenizer.h"
#include "tokenizer/harmony.h"
#include "tokenizer/o200k_ranks.h"

namespace rose {
namespace {

namespace fs = std::filesystem;

class LoadTest : public testing::Test {
 protected:
  void SetUp() override {
    folder_ =
        fs::path(testing::TempDir()) /
        (std::string("rose_load_") + testing::UnitTest::GetInstance()->current_test_info()->name());
    fs::remove_all(folder_);
    fs::create_directories(folder_);
  }
  void TearDown() override { fs::remove_all(folder_); }

  void Write(const std::string& name, std::string_view content) {
    std::ofstream(folder_ / name, std::ios::binary) << content;
  }
  std::string Error(const fs::path& path) { return LoadTokenizer(path).status().message(); }

  fs::path folder_;
};

TEST_F(LoadTest, RanksFromAFolder) {
  Write("any.tiktoken", O200kRanks());
  const auto tokenizer = LoadTokenizer(folder_);
  ASSERT_TRUE(tokenizer.ok()) << tokenizer.status().message();
  EXPECT_EQ((*tokenizer)->Encode("hello world"), (std::vector<int32_t>{24912, 2375}));
  EXPECT_EQ((*tokenizer)->SpecialId("<|call|>"), 200012);
  Write("b.tiktoken", O200kRanks());
  EXPECT_NE(Error(folder_).find("several *.tiktoken files, such as any.tiktoken and b.tiktoken"),
            std::string::npos);
  EXPECT_TRUE(LoadTokenizer(folder_ / "b.tiktoken").ok());
}

TEST_F(LoadTest, TokenizerJsonComesFirst) {
  Write("any.tiktoken", O200kRanks());
  Write("tokenizer.json", "{}");
  EXPECT_NE(Error(folder_).find("tokenizer.json: pre_tokenizer must be"), std::string::npos);
}

TEST_F(LoadTest, Case065MissingFilesAreNamed) {
  const auto missing = LoadTokenizer(folder_ / "no");
  EXPECT_EQ(missing.status().code(), StatusCode::kNotFound);
  EXPECT_NE(missing.status().message().find("no"), std::string::npos);
  EXPECT_EQ(LoadTokenizer(folder_).status().code(), StatusCode::kNotFound);
  Write("x.txt", "");
  EXPECT_NE(Error(folder_ / "x.txt").find("neither a .json nor a .tiktoken"), std::string::npos);
  EXPECT_EQ(BuiltInTokenizer("gpt2").status().code(), StatusCode::kNotFound);
}

TEST(Case065, DamagedRanksAreRefused) {
  const std::string whole(O200kRanks());
  const auto error = [](std::string_view ranks) {
    const auto parsed = ParseTiktoken(ranks);
    return parsed.ok() ? std::string() : parsed.status().message();
  };
  EXPECT_EQ(error(whole), "");
  EXPECT_EQ(error(""),
            "it has 0 ranks up to -1; o200k_base has 199998 without gaps, so the file is "
            "cut short or of another vocabulary");
  EXPECT_NE(error(whole.substr(0, whole.size() / 2)), "");
  std::string gap = whole;  // without the second line
  gap.erase(gap.find('\n') + 1, gap.find('\n', gap.find('\n') + 1) - gap.find('\n'));
  EXPECT_EQ(error(gap).substr(0, 32), "it has 199997 ranks up to 199997");
  EXPECT_EQ(error("IQ== 0\nIg= 1\n"), "line 2: expected a token in base64, a space and its rank");
  EXPECT_EQ(error("IQ==\n"), "line 1: expected a token in base64, a space and its rank");
  EXPECT_EQ(error("IQ== \n"), "line 1: the rank is not a whole number");
  EXPECT_EQ(error("IQ== 0x\n"), "line 1: the rank is not a whole number");
  std::string twice = whole;  // the first token also has the second's rank
  twice.replace(twice.find('\n') + 1, 4, twice, 0, 4);
  EXPECT_EQ(error(twice), "tokens 0 and 1 are the same bytes");
  EXPECT_EQ(error("IQ== 0\nIg== 0\n"), "line 2: two tokens have the id 0");
  EXPECT_EQ(error("==== 0\n"), "line 1: expected a token in base64, a space and its rank");
  // One letter of the last token: still a vocabulary, but not the published one.
  std::string swapped = whole;
  const size_t at = swapped.rfind('\n', swapped.size() - 2) + 1;
  swapped[at] = swapped[at] == 'B' ? 'C' : 'B';
  EXPECT_NE(error(swapped).find("is not that of o200k_base"), std::string::npos) << error(swapped);
}

TEST(Case065, WindowsLineEndsDoNoHarm) {
  std::string ranks;
  for (const char c : O200kRanks()) {
    if (c == '\n') ranks += '\r';
    ranks += c;
  }
  EXPECT_TRUE(ParseTiktoken(ranks).ok());
}

}  // namespace
}  // namespace rose

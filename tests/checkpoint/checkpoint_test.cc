#include "checkpoint/checkpoint.h"

#include <gtest/gtest.h>

#include "checkpoint/checkpoint_folder.h"
#include "expect_says.h"

namespace rose {
namespace {

namespace fs = std::filesystem;

std::string Problem(const std::string& folder, StatusCode code) {
  const auto checkpoint = OpenCheckpoint(folder);
  EXPECT_FALSE(checkpoint.ok());
  if (checkpoint.ok()) return "";
  EXPECT_EQ(checkpoint.status().code(), code) << checkpoint.status().message();
  return checkpoint.status().message();
}

// A folder with tensor `name` alone in each file.
void SaveOne(CheckpointFolder& folder, const std::string& name, const std::string& file) {
  folder.Add(name, DType::kBf16, {3}, Bf16Ramp(3));
  folder.Save(file);
}

void WriteIndex(const CheckpointFolder& folder, const std::string& weight_map) {
  folder.Write("model.safetensors.index.json",
               R"({"metadata":{"total_size":12},"weight_map":{)" + weight_map + "}}");
}

TEST(CheckpointTest, OpensASingleFile) {
  CheckpointFolder folder;
  folder.Add("a", DType::kBf16, {2, 3}, Bf16Ramp(6));
  folder.Add("scalar", DType::kF32, {}, std::vector<float>{2.5f});
  folder.Save();
  const auto checkpoint = OpenCheckpoint(folder.path() + "/");
  ASSERT_TRUE(checkpoint.ok()) << checkpoint.status().message();
  EXPECT_EQ((*checkpoint)->folder(), folder.path());
  EXPECT_EQ((*checkpoint)->config_json(), "{}");
  EXPECT_EQ((*checkpoint)->bytes(), 16);
  EXPECT_EQ((*checkpoint)->files(), std::vector<std::string>{"model.safetensors"});
  EXPECT_EQ((*checkpoint)->Data("a").ToString(), "BF16 [2, 3]");
  EXPECT_EQ(ToFloat((*checkpoint)->Data("a").data<Bf16>()[5]), 5.0f);
  EXPECT_EQ((*checkpoint)->Data("scalar").ToString(), "F32 [1]");
  EXPECT_THROW((*checkpoint)->Data("b"), CheckFailure);
}

TEST(CheckpointTest, OpensIndexedShardsWhoseTotalIsTheLastIndex) {
  CheckpointFolder folder;
  SaveOne(folder, "a", "model-00000-of-00001.safetensors");
  SaveOne(folder, "b", "model-00001-of-00001.safetensors");
  WriteIndex(folder,
             R"("a":"model-00000-of-00001.safetensors","b":"model-00001-of-00001.safetensors")");
  const auto checkpoint = OpenCheckpoint(folder.path());
  ASSERT_TRUE(checkpoint.ok()) << checkpoint.status().message();
  EXPECT_EQ((*checkpoint)->tensors().size(), 2u);
  EXPECT_EQ((*checkpoint)->files().size(), 2u);
}

TEST(CheckpointTest, OpensNumberedShardsInTheFolderOriginal) {
  CheckpointFolder folder;
  fs::remove(folder.path() + "/config.json");
  fs::create_directory(folder.path() + "/original");
  folder.Write("original/config.json", R"({"original":1})");
  SaveOne(folder, "a", "original/model--00001-of-00002.safetensors");
  SaveOne(folder, "b", "original/model--00002-of-00002.safetensors");
  const auto checkpoint = OpenCheckpoint(folder.path());
  ASSERT_TRUE(checkpoint.ok()) << checkpoint.status().message();
  EXPECT_EQ((*checkpoint)->folder(), folder.path() + "/original");
  EXPECT_EQ((*checkpoint)->config_json(), R"({"original":1})");
  EXPECT_EQ((*checkpoint)->tensors().size(), 2u);
  fs::remove(folder.path() + "/original/model--00001-of-00002.safetensors");
  EXPECT_SAYS(Problem(folder.path(), StatusCode::kNotFound),
              "1 of 2 shards missing; is the download complete?\n"
              "  model--00001-of-00002.safetensors");
  SaveOne(folder, "c", "original/model--00001-of-00003.safetensors");
  EXPECT_SAYS(Problem(folder.path(), StatusCode::kInvalidArgument), "more than one set");
}

TEST(CheckpointTest, SaysWhatAFolderLacks) {
  EXPECT_SAYS(Problem("/nonexistent-folder", StatusCode::kNotFound), "no such folder");
  CheckpointFolder folder;
  EXPECT_SAYS(Problem(folder.path() + "/config.json", StatusCode::kInvalidArgument),
              "not a folder");
  EXPECT_SAYS(Problem(folder.path(), StatusCode::kNotFound), "has no model.safetensors, no ");
  fs::remove(folder.path() + "/config.json");
  EXPECT_SAYS(Problem(folder.path(), StatusCode::kNotFound),
              "has neither config.json nor original/config.json");
}

TEST(CheckpointTest, HeaderProblemsNameTheFile) {
  CheckpointFolder folder;
  folder.Write("model.safetensors", "1234");
  EXPECT_SAYS(Problem(folder.path(), StatusCode::kInvalidArgument),
              folder.path() + "/model.safetensors: the file is cut short: it has 4 bytes");
  folder.Write("model.safetensors", "");
  EXPECT_SAYS(Problem(folder.path(), StatusCode::kInvalidArgument), "it has 0 bytes");
  fs::remove(folder.path() + "/model.safetensors");
  fs::create_directory(folder.path() + "/model.safetensors");
  EXPECT_SAYS(Problem(folder.path(), StatusCode::kIo), "not a regular file");
}

TEST(CheckpointTest, AnIndexStaysInsideItsFolder) {
  CheckpointFolder folder;
  SaveOne(folder, "a", "s.safetensors");
  for (const char* file : {"../s.safetensors", "/etc/passwd", "sub/s.safetensors", "..", ".", "",
                           "..\\\\s.safetensors", "a\\u0000b"}) {
    WriteIndex(folder, StrCat(R"("a":")", file, "\""));
    EXPECT_SAYS(Problem(folder.path(), StatusCode::kInvalidArgument), "is outside the folder");
  }
}

TEST(CheckpointTest, RefusesBadIndexes) {
  CheckpointFolder folder;
  SaveOne(folder, "a", "s.safetensors");
  const auto index_problem = [&](const std::string& text) {
    folder.Write("model.safetensors.index.json", text);
    return Problem(folder.path(), StatusCode::kInvalidArgument);
  };
  EXPECT_SAYS(index_problem("{"), "model.safetensors.index.json: not JSON");
  EXPECT_SAYS(index_problem(std::string(100000, '[')), "not JSON");
  EXPECT_SAYS(index_problem("[]"), "has no object 'weight_map'");
  EXPECT_SAYS(index_problem("{}"), "has no object 'weight_map'");
  EXPECT_SAYS(index_problem(R"({"weight_map":{}})"), "'weight_map' is empty");
  EXPECT_SAYS(index_problem(R"({"weight_map":{"a":7}})"), "the file of tensor 'a' is not a string");
}

TEST(CheckpointTest, NamesMissingShards) {
  CheckpointFolder folder;
  SaveOne(folder, "a", "s.safetensors");
  WriteIndex(folder, R"("a":"s.safetensors","b":"t.safetensors")");
  EXPECT_SAYS(Problem(folder.path(), StatusCode::kNotFound),
              "1 of 2 shards missing; is the download complete?\n  t.safetensors");
}

TEST(CheckpointTest, IndexAndShardsMustTellTheSame) {
  CheckpointFolder folder;
  SaveOne(folder, "a", "s.safetensors");
  SaveOne(folder, "b", "t.safetensors");
  WriteIndex(folder, R"("a":"t.safetensors","b":"t.safetensors","c":"s.safetensors")");
  const std::string problem = Problem(folder.path(), StatusCode::kInvalidArgument);
  EXPECT_SAYS(problem, "2 tensors are not where the index says");
  EXPECT_SAYS(problem, "'a' is not in t.safetensors");
  EXPECT_SAYS(problem, "'c' is not in s.safetensors");
  WriteIndex(folder, R"("a":"s.safetensors","x":"t.safetensors")");
  EXPECT_SAYS(Problem(folder.path(), StatusCode::kInvalidArgument),
              "'b' is in t.safetensors but not in the index");
  SaveOne(folder, "a", "t.safetensors");
  WriteIndex(folder, R"("a":"s.safetensors","b":"t.safetensors")");
  EXPECT_SAYS(Problem(folder.path(), StatusCode::kInvalidArgument), "tensor 'a' is also in ");
}

}  // namespace
}  // namespace rose

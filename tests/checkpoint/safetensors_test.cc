#include "checkpoint/safetensors.h"

#include "checkpoint/checkpoint_folder.h"
#include "expect_says.h"
#include "gtest/gtest.h"

namespace rose {
namespace {

Result<SafetensorsHeader> Parse(const std::string& file) {
  return ParseSafetensors({reinterpret_cast<const uint8_t*>(file.data()), file.size()});
}

std::string Problem(const std::string& file) {
  const Result<SafetensorsHeader> header = Parse(file);
  EXPECT_FALSE(header.ok());
  if (header.ok()) return "";
  EXPECT_EQ(header.status().code(), StatusCode::kInvalidArgument);
  return header.status().message();
}

std::string HeaderProblem(const std::string& header, size_t data_bytes) {
  return Problem(RawSafetensors(header, std::string(data_bytes, 'x')));
}

TEST(SafetensorsTest, ReadsNamesTypesShapesAndPlaces) {
  const std::string file = RawSafetensors(
      R"({"__metadata__":{"format":"pt"},"b":{"dtype":"U8","shape":[2,3],"data_offsets":[4,10]},)"
      R"("a":{"shape":[2],"data_offsets":[0,4],"dtype":"BF16"},)"
      R"("empty":{"dtype":"F32","shape":[0,7],"data_offsets":[10,10]},)"
      R"("scalar":{"dtype":"F32","shape":[],"data_offsets":[10,14]}}   )",
      "0123456789abcd");
  const Result<SafetensorsHeader> header = Parse(file);
  ASSERT_TRUE(header.ok()) << header.status().message();
  ASSERT_EQ(header->entries.size(), 4u);
  EXPECT_EQ(header->metadata.at("format"), "pt");
  EXPECT_EQ(header->entries[0].tensor.name, "a");
  EXPECT_EQ(header->entries[0].tensor.dtype, DType::kBf16);
  EXPECT_EQ(header->entries[1].tensor.shape, (std::vector<int64_t>{2, 3}));
  EXPECT_EQ(file.substr(header->entries[1].begin, 6), "456789");
  EXPECT_EQ(header->entries[2].tensor.name, "empty");
  EXPECT_EQ(header->entries[3].end, static_cast<int64_t>(file.size()));
}

TEST(SafetensorsTest, RefusesACutFile) {
  EXPECT_SAYS(Problem(""), "cut short: it has 0 bytes");
  EXPECT_SAYS(Problem("1234567"), "cut short: it has 7 bytes");
  const std::string whole =
      RawSafetensors(R"({"a":{"dtype":"U8","shape":[4],"data_offsets":[0,4]}})", "1234");
  ASSERT_TRUE(Parse(whole).ok());
  for (size_t size = 0; size < whole.size(); ++size) {
    EXPECT_SAYS(Problem(whole.substr(0, size)), "cut short");
  }
  EXPECT_SAYS(Problem(whole + "5"), "1 bytes that belong to no tensor after tensor 'a'");
}

TEST(SafetensorsTest, RefusesAnOversizedHeader) {
  std::string file(16, '\0');
  const int64_t length = SafetensorsHeader::kMaxHeaderBytes + 1;
  std::memcpy(file.data(), &length, 8);
  EXPECT_SAYS(Problem(file), "more than the limit of 100000000");
  std::memset(file.data(), 255, 8);
  EXPECT_SAYS(Problem(file), "claims 18446744073709551615 bytes, more than the limit");
}

TEST(SafetensorsTest, RefusesWhatIsNotTheFormat) {
  const std::string not_object = "not the JSON object of a safetensors file";
  for (const char* text :
       {"", "   ", "[]", "7", "\"a\"", "null", "{", "{\"a\":", "{}x", "{\"a\":7}", "{\"a\":[]}",
        "{\"a\":{\"dtype\":{}}}", "{\"a\":null}", "{} {}", "\xff", "{\"__metadata__\":{\"n\":1}}",
        "{\"__metadata__\":[]}"}) {
    EXPECT_SAYS(HeaderProblem(text, 0), not_object);
  }
  EXPECT_SAYS(HeaderProblem(std::string(200000, '['), 0), not_object);
  std::string deep;
  for (int i = 0; i < 100000; ++i) deep += "{\"a\":";
  EXPECT_SAYS(HeaderProblem(deep, 0), not_object);
  EXPECT_SAYS(HeaderProblem(R"({"a":{"shape":[1],"data_offsets":[0,1]}})", 1), "'a' has no dtype");
  EXPECT_SAYS(HeaderProblem(R"({"a":{"dtype":"U8","data_offsets":[0,1]}})", 1), "'a' has no shape");
  EXPECT_SAYS(HeaderProblem(R"({"a":{"dtype":"U8","shape":[1]}})", 1), "'a' has no data_offsets");
  EXPECT_SAYS(HeaderProblem(R"({"a":{"dtype":"U8","shape":[1],"data_offsets":[0]}})", 1),
              "data_offsets has 1 numbers");
  EXPECT_SAYS(HeaderProblem(R"({"a":{"dtype":"U8","shape":1,"data_offsets":[0,1]}})", 1),
              "a number where none is expected");
  EXPECT_SAYS(HeaderProblem(R"({"a":{"dtype":"U8","more":1}})", 1), "unknown key 'more'");
}

TEST(SafetensorsTest, RefusesNamesTwice) {
  const std::string a = R"("a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]})";
  EXPECT_SAYS(HeaderProblem("{" + a + "," + a + "}", 1), "tensor 'a' occurs twice");
  EXPECT_SAYS(HeaderProblem(R"({"a":{"dtype":"U8","dtype":"U8"}})", 1), "'dtype' occurs twice");
  EXPECT_SAYS(HeaderProblem(R"({"__metadata__":{},"__metadata__":{}})", 0),
              "__metadata__ occurs twice");
}

TEST(SafetensorsTest, RefusesUnknownTypes) {
  for (const char* type : {"F16", "F64", "f32", "", "BF17"}) {
    const std::string header =
        StrCat(R"({"a":{"dtype":")", type, R"(","shape":[1],"data_offsets":[0,2]}})");
    EXPECT_SAYS(HeaderProblem(header, 2),
                StrCat("'a' has the element type '", type, "'; rose reads"));
  }
}

TEST(SafetensorsTest, RefusesBadShapes) {
  const auto with_shape = [](const std::string& shape) {
    return HeaderProblem(
        R"({"a":{"dtype":"BF16","shape":[)" + shape + R"(],"data_offsets":[0,4]}})", 4);
  };
  EXPECT_SAYS(with_shape("-2"), "'a': shape holds -2");
  EXPECT_SAYS(with_shape("2.5"), "not a whole one");
  EXPECT_SAYS(with_shape("1e0"), "not a whole one");
  EXPECT_SAYS(with_shape("18446744073709551615"), "too large");
  EXPECT_SAYS(with_shape("9223372036854775807,2"), "is too large");
  EXPECT_SAYS(with_shape("4294967296,4294967296,4294967296"), "is too large");
  EXPECT_SAYS(with_shape("1,1,1,1,2"), "has 5 axes; rose reads at most 4");
  EXPECT_SAYS(with_shape("1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1"), "more than 16 numbers");
  EXPECT_SAYS(with_shape("3"), "are 4 bytes, but BF16 [3] takes 6");
  EXPECT_SAYS(with_shape("\"2\""), "a string where none is expected");
}

TEST(SafetensorsTest, RefusesBadOffsets) {
  const auto one = [](const std::string& offsets) {
    return HeaderProblem(R"({"a":{"dtype":"U8","shape":[4],"data_offsets":[)" + offsets + "]}}", 4);
  };
  EXPECT_SAYS(one("0,5"), "reach beyond the file, which has 4 bytes of data");
  EXPECT_SAYS(one("9223372036854775803,9223372036854775807"), "reach beyond the file");
  EXPECT_SAYS(one("4,0"), "end before they begin");
  EXPECT_SAYS(one("-4,0"), "holds -4");
  EXPECT_SAYS(one("0,3"), "are 3 bytes, but U8 [4] takes 4");
  const auto two = [](const std::string& a, const std::string& b) {
    return HeaderProblem(R"({"a":{"dtype":"U8","shape":[4],"data_offsets":[)" + a +
                             R"(]},"b":{"dtype":"U8","shape":[4],"data_offsets":[)" + b + "]}}",
                         10);
  };
  EXPECT_SAYS(two("0,4", "2,6"), "'b' overlaps that of tensor 'a'");
  EXPECT_SAYS(two("0,4", "0,4"), "'b' overlaps that of tensor 'a'");
  EXPECT_SAYS(two("0,4", "6,10"), "a gap of 2 bytes between tensor 'a' and the data of tensor 'b'");
  EXPECT_SAYS(two("2,6", "6,10"), "a gap of 2 bytes between the header");
}

TEST(SafetensorsTest, WrittenHeadersAreReadBack) {
  const std::vector<StoredTensor> tensors = {{"x \"quoted\" \xc3\xa9\n", DType::kBf16, {3, 5}},
                                             {"scalar", DType::kF32, {}},
                                             {"fp8", DType::kE4m3, {2, 1, 1, 3}}};
  const std::string bytes = SafetensorsHeaderBytes(tensors);
  EXPECT_EQ(bytes.size() % 64, 0u);
  const Result<SafetensorsHeader> header = Parse(bytes + std::string(30 + 4 + 6, '\0'));
  ASSERT_TRUE(header.ok()) << header.status().message();
  ASSERT_EQ(header->entries.size(), tensors.size());
  for (size_t i = 0; i < tensors.size(); ++i) {
    EXPECT_EQ(header->entries[i].tensor.name, tensors[i].name);
    EXPECT_EQ(header->entries[i].tensor.dtype, tensors[i].dtype);
    EXPECT_EQ(header->entries[i].tensor.shape, tensors[i].shape);
  }
}

}  // namespace
}  // namespace rose

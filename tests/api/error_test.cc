#include "api/error.h"

#include <gtest/gtest.h>

#include "api/chat_fixture.h"
#include "api/models.h"
#include "base/utf8.h"

namespace rose {
namespace {

TEST(ApiErrors, HaveOneShape) {
  EXPECT_EQ(ErrorBody({.http_status = 400, .message = "a \"b\"", .param = "n"}),
            R"({"error":{"message":"a \"b\"","type":"BadRequestError","param":"n","code":null}})");
  EXPECT_EQ(ErrorBody({.http_status = 500, .message = "m", .code = "c"}),
            R"({"error":{"message":"m","type":"InternalServerError","param":null,"code":"c"}})");
  EXPECT_EQ(ErrorFromStatus(InvalidArgument("x")).http_status, 400);
  EXPECT_EQ(ErrorFromStatus(Unsupported("x")).http_status, 400);
  EXPECT_EQ(ErrorFromStatus(NotFound("x")).http_status, 404);
  EXPECT_EQ(ErrorFromStatus(Unavailable("x")).http_status, 503);
  EXPECT_EQ(ErrorFromStatus(IoError("x")).http_status, 500);
}

TEST(ApiErrors, QuoteNoMoreThanIsRead) {
  std::string name(1 << 20, 'x');
  name.replace(1990, 4, "\U0001F999");
  const std::string body = ErrorBody({.message = name, .param = name});
  EXPECT_LT(body.size(), 4200u);
  EXPECT_TRUE(ParseJson(body).ok());
  for (size_t bytes = 1996; bytes < 2004; ++bytes) {
    const std::string text = std::string(bytes, 'a') + "\U0001F999";
    EXPECT_TRUE(IsValidUtf8(ErrorBody({.message = text}))) << bytes;
  }
}

TEST(ApiModels, ListAndLookUp) {
  ChatFixture chat;
  const auto list = ParseJson(ModelsBody(chat.context(), 5));
  ASSERT_TRUE(list.ok());
  EXPECT_EQ(Text(*list, "data.1.id"), "\"alias\"");
  EXPECT_EQ(Text(*list, "data.0.max_model_len"), "100000");
  EXPECT_EQ(Text(*list, "data.0.created"), "5");
  EXPECT_TRUE(std::holds_alternative<std::string>(ModelBody(chat.context(), "alias", 5)));
  const auto missing = ModelBody(chat.context(), "x", 5);
  EXPECT_EQ(std::get<ApiError>(missing).http_status, 404);
}

}  // namespace
}  // namespace rose

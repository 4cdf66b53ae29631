#include "server/access_log.h"

#include <gtest/gtest.h>

#include "base/json.h"

namespace rose {
namespace {

TEST(AccessLog, WritesOneLineOfJson) {
  AccessRecord record;
  record.request_id = "abc";
  record.remote = "127.0.0.1:5";
  record.method = "POST";
  record.path = "/v1/chat/completions";
  record.status = 200;
  record.request_bytes = 10;
  record.response_bytes = 20;
  record.first_byte_ms = 1.5;
  record.total_ms = 2.25;
  record.stats = {.model = "m",
                  .prompt_tokens = 7,
                  .cached_tokens = 0,
                  .completion_tokens = 5,
                  .finish = "stop",
                  .queued_ms = 0.25,
                  .first_token_ms = 1.25,
                  .dropped_bytes = 3};
  EXPECT_EQ(FormatAccessLine(record, 1'764'400'000'123),
            R"({"time":"2025-11-29T07:06:40.123Z","request_id":"abc","remote":"127.0.0.1:5",)"
            R"("method":"POST","path":"/v1/chat/completions","status":200,"bytes_in":10,)"
            R"("bytes_out":20,"first_byte_ms":1.500,"total_ms":2.250,"model":"m",)"
            R"("prompt_tokens":7,"cached_tokens":0,"completion_tokens":5,"queued_ms":0.250,)"
            R"("first_token_ms":1.250,"dropped_bytes":3,"finish":"stop"})");
}

TEST(AccessLog, StaysJsonWhateverThePathHolds) {
  AccessRecord record;
  record.path = "/\"\\\n\x01\xff\xed\xa0\x80" + std::string(1000, 'x');
  record.client_left = true;
  record.cut_off = "stopped";
  const std::string line = FormatAccessLine(record, 0);
  EXPECT_LT(line.size(), 500u);
  EXPECT_EQ(line.find('\n'), std::string::npos);
  const auto json = ParseJson(line);
  ASSERT_TRUE(json.ok()) << json.status().message() << line;
  EXPECT_TRUE(json->Find("path")->string()->starts_with("/\"\\\n\x01\xEF\xBF\xBD"));
  EXPECT_TRUE(*json->Find("client_left")->boolean());
  EXPECT_EQ(json->Find("first_byte_ms"), nullptr);
}

TEST(AccessLog, SaysThatItCannotBeWritten) {
  EXPECT_TRUE(AccessLog::Open("off").ok());
  const auto log = AccessLog::Open("/no such folder/log");
  ASSERT_FALSE(log.ok());
  EXPECT_NE(log.status().message().find("/no such folder/log"), std::string::npos);
}

}  // namespace
}  // namespace rose

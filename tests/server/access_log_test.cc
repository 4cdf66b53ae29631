#include "server/access_log.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <filesystem>
#include <fstream>

#include "base/json.h"
#include "expect_says.h"
#include "temp_path.h"

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

TEST(AccessLog, SaysOnceThatLinesAreLost) {
  AccessLog log = AccessLog::Open("/dev/full").value();
  testing::internal::CaptureStderr();
  for (int i = 0; i < 3; ++i) EXPECT_FALSE(log.Write({}));
  const std::string said = testing::internal::GetCapturedStderr();
  EXPECT_SAYS(said, "rose: the access log '/dev/full' cannot be written: No space left on device");
  EXPECT_EQ(std::count(said.begin(), said.end(), '\n'), 1);
  AccessLog off = AccessLog::Open("off").value();
  EXPECT_TRUE(off.Write({}));
}

// Must: nothing hangs. Who reads standard error may stop, as a pager does, or the keeper of a log.
TEST(AccessLog, DoesNotWaitForAReaderWhoStopped) {
  const std::string path = TempPath("access_log");
  ASSERT_EQ(::mkfifo(path.c_str(), 0600), 0);
  const int reader = ::open(path.c_str(), O_RDONLY | O_NONBLOCK);
  AccessLog log = AccessLog::Open(path).value();
  testing::internal::CaptureStderr();
  int64_t written = 0, lost = 0;
  ::alarm(60);
  for (int i = 0; i < 1000; ++i) ++(log.Write({}) ? written : lost);
  EXPECT_GT(written, 0);
  EXPECT_GT(lost, 0);
  std::string text(1 << 20, '\0');
  text.resize(::read(reader, text.data(), text.size()));
  EXPECT_TRUE(log.Write({}));
  ::alarm(0);
  const std::string said = testing::internal::GetCapturedStderr();
  EXPECT_SAYS(said, "cannot be written: nobody reads it");
  EXPECT_SAYS(said, StrCat("is written again; ", lost, " lines were lost"));
  EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), written);
  EXPECT_EQ(text.back(), '\n');
  ::close(reader);
  std::filesystem::remove(path);
}

// A limit on the size of files stands for a disk that is full for a while.
TEST(AccessLog, IsWholeAgainBehindATornLine) {
  const std::string path = TempPath("access_log");
  AccessLog log = AccessLog::Open(path).value();
  EXPECT_TRUE(log.Write({}));
  const auto line = static_cast<rlim_t>(std::filesystem::file_size(path));
  const auto before = std::signal(SIGXFSZ, SIG_IGN);
  rlimit limit{};
  getrlimit(RLIMIT_FSIZE, &limit);
  const rlimit small{line + line / 2, limit.rlim_max};
  setrlimit(RLIMIT_FSIZE, &small);
  testing::internal::CaptureStderr();
  EXPECT_FALSE(log.Write({}));
  EXPECT_FALSE(log.Write({}));
  setrlimit(RLIMIT_FSIZE, &limit);
  std::signal(SIGXFSZ, before);
  EXPECT_TRUE(log.Write({}));
  EXPECT_TRUE(log.Write({}));
  EXPECT_SAYS(testing::internal::GetCapturedStderr(), "is written again; 2 lines were lost");
  std::vector<bool> whole;
  std::ifstream file(path);
  for (std::string text; std::getline(file, text);) whole.push_back(ParseJson(text).ok());
  EXPECT_EQ(whole, (std::vector{true, false, true, true}));
  std::filesystem::remove(path);
}

}  // namespace
}  // namespace rose

// Clients that mean harm, or are badly broken: each is refused or served, others go on meanwhile,
// and the memory of the process stays what it was.
#include <gtest/gtest.h>
#include <malloc.h>
#include <unistd.h>

#include <cstdio>
#include <fstream>
#include <string>
#include <vector>

#include "base/json.h"
#include "base/memory.h"
#include "server/stub_backend.h"

namespace rose {
namespace {

constexpr std::string_view kChat = "/v1/chat/completions";
constexpr int64_t kMiB = 1 << 20;

// A line of /proc/self/status, in bytes: "VmRSS" now, "VmHWM" at most since ForgetPeak.
int64_t Memory(const std::string& what) {
  std::ifstream file("/proc/self/status");
  for (std::string line; std::getline(file, line);) {
    if (line.starts_with(what + ":")) return std::stoll(line.substr(what.size() + 1)) * 1024;
  }
  return 0;
}

void ForgetPeak() {
  malloc_trim(0);
  std::ofstream("/proc/self/clear_refs") << "5";
}

// Sanitizers keep what was freed.
bool MemoryIsMeasured() {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  return false;
#else
  return true;
#endif
}

std::string Question(std::string_view content) {
  return StrCat(R"({"messages":[{"role":"user","content":")", content, "\"}]}");
}

class HostileClients : public testing::Test {
 protected:
  HostileClients() {
    HttpServerConfig http;
    ReturnLargeBlocks();  // as the program does
    http.header_timeout_ms = 1'000;
    http.linger_ms = 60'000;
    backend_.emplace([](const std::string&) { return "fine"; }, /*tokens_per_second=*/0,
                     EngineConfig(), http);
    EXPECT_EQ(Ask(Question("warm-up")).status, 200);
    ForgetPeak();
    before_ = Memory("VmRSS");
  }
  void TearDown() override {
    // Another client is served as ever.
    EXPECT_EQ(Ask(Question("hello")).status, 200);
    malloc_trim(0);
    if (MemoryIsMeasured()) {
      EXPECT_LT(Memory("VmRSS") - before_, 8 * kMiB);
    }
  }

  HttpReply Ask(const std::string& body) {
    HttpClient client = backend_->Connect();
    return client.Ask("POST", kChat, body).value();
  }
  // The error of a body that is refused.
  std::string Refusal(const std::string& body) {
    const HttpReply reply = Ask(body);
    EXPECT_EQ(reply.status, 400) << reply.body;
    const auto json = ParseJson(reply.body);
    if (!json.ok() || json->Find("error") == nullptr) return "no error: " + reply.body;
    EXPECT_EQ(*json->Find("error")->Find("type")->string(), "BadRequestError");
    return *json->Find("error")->Find("message")->string();
  }

  std::optional<StubBackend> backend_;
  int64_t before_ = 0;
};

TEST_F(HostileClients, ABodyOfAGibibyteIsRefusedBeforeItIsSent) {
  HttpClient client = backend_->Connect();
  ASSERT_TRUE(client
                  .SendRaw(StrCat("POST ", kChat, " HTTP/1.1\r\nHost: h\r\nContent-Length: ",
                                  int64_t{1} << 30, "\r\nExpect: 100-continue\r\n\r\n"))
                  .ok());
  EXPECT_EQ(client.ReadReply()->status, 413);
  if (MemoryIsMeasured()) {
    EXPECT_LT(Memory("VmHWM") - before_, 4 * kMiB);
  }
}

TEST_F(HostileClients, ABodyOfAGibibyteIsRefusedWhileItIsSent) {
  HttpClient client = backend_->Connect();
  ASSERT_TRUE(client
                  .SendRaw(StrCat("POST ", kChat,
                                  " HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n"))
                  .ok());
  const std::string chunk = StrCat("100000\r\n", std::string(kMiB, ' '), "\r\n");
  // What comes after the answer is thrown away, for as long as that is read.
  for (int sent = 0; sent < 1024 && client.SendRaw(chunk).ok(); ++sent) {
  }
  EXPECT_EQ(client.ReadReply()->status, 413);
  if (MemoryIsMeasured()) {
    // The limit of 64 MiB, and twice that while the text grows.
    EXPECT_LT(Memory("VmHWM") - before_, 200 * kMiB);
  }
}

// Five hundred that send a byte and then nothing hold up nobody, and are sent away.
TEST_F(HostileClients, SlowClientsHoldNobodyUp) {
  std::vector<HttpClient> slow;
  for (int i = 0; i < 500; ++i) {
    slow.push_back(backend_->Connect());
    ASSERT_TRUE(slow.back().SendRaw(i % 2 == 0 ? "P" : "POST / HTTP/1.1\r\nHost: h\r\nX: ").ok());
  }
  EXPECT_EQ(Ask(Question("meanwhile")).status, 200);
  for (HttpClient& client : slow) EXPECT_EQ(client.ReadReply()->status, 408);
  slow.clear();
}

TEST_F(HostileClients, NestedBracketsAreRefused) {
  const std::string brackets(100'000, '['), braces = [] {
    std::string text;
    for (int i = 0; i < 100'000; ++i) text += R"({"a":)";
    return text;
  }();
  for (const std::string& deep : {brackets, braces}) {
    for (const std::string& body :
         {deep, R"({"messages":)" + deep, R"({"unknown":)" + deep,
          R"({"messages":[{"role":"user","content":"a"}],"response_format":)" + deep}) {
      EXPECT_NE(Refusal(body).find("deep"), std::string::npos) << Refusal(body);
    }
  }
  // Closed properly they are no better.
  Refusal(R"({"unknown":)" + brackets + std::string(100'000, ']') + "}");
}

TEST_F(HostileClients, InvalidTextIsRefusedOrReplaced) {
  for (const char* bytes : {"\xff", "\xc0\x80", "\xed\xa0\x80", "\xf4\x90\x80\x80", "\xe2\x82"}) {
    EXPECT_NE(Refusal(Question(bytes)).find("UTF-8"), std::string::npos) << bytes;
  }
  // Lone surrogates are what broken clients make of cut emoji: they become U+FFFD.
  for (const char* escaped : {R"(\ud83d)", R"(\ude00)", R"(\ude00\ud83d)", R"(a\ud83d\n)"}) {
    EXPECT_EQ(Ask(Question(escaped)).status, 200) << escaped;
  }
  // A NUL is a character like others if it is escaped, and no JSON if it is not.
  EXPECT_EQ(Ask(Question(R"(a\u0000b)")).status, 200);
  Refusal(Question(std::string_view("a\0b", 3)));
  Refusal(std::string(1000, '\0'));
}

TEST_F(HostileClients, OfRepeatedKeysTheLastCounts) {
  EXPECT_EQ(Ask(R"({"messages":1,"messages":[{"role":"user","content":"a"}],"n":0,"n":1})").status,
            200);
  Refusal(R"({"messages":[{"role":"user","content":"a"}],"n":1,"n":0})");
  std::string many = R"({"messages":[{"role":"user","content":"a"}])";
  for (int i = 0; i < 100'000; ++i) many += R"(,"x":1)";
  EXPECT_EQ(Ask(many + "}").status, 200);
}

TEST_F(HostileClients, HugeNumbersAreRefusedWhereTheyMatter) {
  const std::string digits(100'000, '9');
  for (const char* field : {"temperature", "max_tokens", "n", "seed", "top_logprobs"}) {
    for (const std::string& number : {digits, std::string("1e999"), "-" + digits, "1e" + digits}) {
      const std::string body =
          StrCat(R"({"messages":[{"role":"user","content":"a"}],")", field, "\":", number, "}");
      EXPECT_NE(Refusal(body).find(field), std::string::npos) << field;
    }
  }
  EXPECT_EQ(Ask(R"({"messages":[{"role":"user","content":"a"}],"unknown":)" + digits + "}").status,
            200);
}

// Bytes without a meaning, in front of a request and instead of one.
TEST_F(HostileClients, NoiseIsRefused) {
  for (const std::string& noise :
       {std::string(100'000, '\0'), std::string(100'000, '\n'), std::string("\x80\xff\xfe\r\n\r\n"),
        "GET " + std::string(100, '\xff') + " HTTP/1.1\r\n\r\n",
        std::string("GET / HTTP/1.1\r\nHost: a\r\nA\0: b\r\n\r\n", 34)}) {
    HttpClient client = backend_->Connect();
    (void)client.SendRaw(noise);
    const auto reply = client.ReadReply();
    if (reply.ok()) {
      EXPECT_GE(reply->status, 400);
      EXPECT_LT(reply->status, 500);
    }
  }
}

}  // namespace
}  // namespace rose

// The commands serve and chat as a user runs them, with the shipped model.
#include <gtest/gtest.h>

#include <algorithm>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <string>

#include "e2e/program.h"
#include "server/http_client.h"
#include "temp_path.h"

namespace rose {
namespace {

constexpr char kModel[] = ROSE_SOURCE_DIR "/models/rosebud";

// The port in "... at http://127.0.0.1:8000/v1 ...", once the program says it.
int PortOf(Program& program) {
  EXPECT_TRUE(program.WaitForError("/v1 (Ctrl-C stops)")) << program.errors();
  const size_t host = program.errors().find("http://127.0.0.1:");
  if (host == std::string::npos) return 0;
  return std::stoi(program.errors().substr(host + 17));
}

std::string Question(const std::string& more) {
  return R"({"messages":[{"role":"user","content":"What is 2 + 3?"}],"temperature":0)" + more + "}";
}

TEST(Serve, AnswersUntilASignal) {
  Program serve({"serve", kModel, "--port", "0"});
  const int port = PortOf(serve);
  HttpClient client = HttpClient::Connect("127.0.0.1", port).value();
  EXPECT_EQ(client.Ask("GET", "/health")->status, 200);
  const auto reply = client.Ask("POST", "/v1/chat/completions", Question(""));
  EXPECT_EQ(reply->status, 200);
  EXPECT_NE(reply->body.find(R"("finish_reason":"stop")"), std::string::npos) << reply->body;
  serve.Signal(SIGTERM);
  EXPECT_EQ(serve.Wait(), 0) << serve.errors();
  EXPECT_NE(serve.errors().find(R"("path":"/v1/chat/completions","status":200)"), std::string::npos)
      << serve.errors();
  // Never content.
  EXPECT_EQ(serve.errors().find("2 + 3"), std::string::npos);
  EXPECT_EQ(serve.output(), "");
}

TEST(Serve, GoesOnWithoutItsLog) {
  Program serve({"serve", kModel, "--port", "0", "--access-log", "/dev/full"});
  HttpClient client = HttpClient::Connect("127.0.0.1", PortOf(serve)).value();
  for (int i = 0; i < 3; ++i) EXPECT_EQ(client.Ask("GET", "/health")->status, 200);
  EXPECT_NE(client.Ask("GET", "/metrics")->body.find("rose:access_log_lines_lost_total 3\n"),
            std::string::npos);
  serve.Signal(SIGTERM);
  EXPECT_EQ(serve.Wait(), 0);
  const std::string& said = serve.errors();
  const size_t first = said.find("the access log '/dev/full' cannot be written");
  EXPECT_NE(first, std::string::npos) << said;
  EXPECT_EQ(said.find("access log", first + 20), std::string::npos) << said;
}

TEST(Serve, SaysThatItsCheckpointWasCutShort) {
  namespace fs = std::filesystem;
  const fs::path folder = TempPath("cut_checkpoint");
  fs::copy(kModel, folder, fs::copy_options::recursive);
  Program serve({"serve", folder, "--port", "0", "--device", "cpu"});
  HttpClient client = HttpClient::Connect("127.0.0.1", PortOf(serve)).value();
  fs::resize_file(folder / "model.safetensors", 4096);
  (void)client.Ask("POST", "/v1/chat/completions", Question(""));
  EXPECT_EQ(serve.Wait(), 1);
  EXPECT_NE(serve.errors().find("was cut short"), std::string::npos) << serve.errors();
  fs::remove_all(folder);
}

TEST(Serve, TakesKeysFromAFile) {
  const std::string file = TempPath("keys");
  {
    std::ofstream out(file);
    out << "# keys\n\nfirst-key\r\nsecond-key \n";
  }
  Program serve({"serve", kModel, "--port", "0", "--api-key-file", file, "--api-key", "third-key"});
  HttpClient client = HttpClient::Connect("127.0.0.1", PortOf(serve)).value();
  EXPECT_EQ(client.Ask("GET", "/health")->status, 200);
  EXPECT_EQ(client.Ask("GET", "/v1/models")->status, 401);
  for (const char* key : {"first-key", "second-key", "third-key"}) {
    const HttpHeaders headers = {{"Authorization", std::string("Bearer ") + key}};
    EXPECT_EQ(client.Ask("GET", "/v1/models", "", headers)->status, 200) << key;
  }
  EXPECT_EQ(client.Ask("GET", "/v1/models", "", {{"Authorization", "Bearer # keys"}})->status, 401);
  serve.Signal(SIGTERM);
  EXPECT_EQ(serve.Wait(), 0);
  // The log names no key.
  EXPECT_EQ(serve.errors().find("-key"), std::string::npos) << serve.errors();
}

TEST(Serve, FinishesAnAnswerAfterTheFirstSignal) {
  Program serve({"serve", kModel, "--port", "0"});
  HttpClient client = HttpClient::Connect("127.0.0.1", PortOf(serve)).value();
  ASSERT_TRUE(client
                  .SendRequest("POST", "/v1/chat/completions",
                               Question(R"(,"stream":true,"min_tokens":300,"max_tokens":300)"))
                  .ok());
  bool signalled = false;
  const auto reply = client.ReadReply([&](std::string_view) {
    if (!signalled) serve.Signal(SIGINT);
    signalled = true;
    return true;
  });
  ASSERT_TRUE(reply.ok()) << reply.status().message();
  EXPECT_TRUE(reply->body.ends_with("data: [DONE]\n\n")) << reply->body;
  EXPECT_EQ(serve.Wait(), 0) << serve.errors();
}

TEST(Serve, EndsAtOnceAtTheSecondSignal) {
  Program serve({"serve", kModel, "--port", "0"});
  HttpClient client = HttpClient::Connect("127.0.0.1", PortOf(serve)).value();
  ASSERT_TRUE(client
                  .SendRequest("POST", "/v1/chat/completions",
                               Question(R"(,"stream":true,"min_tokens":100000)"))
                  .ok());
  const auto reply = client.ReadReply([&](std::string_view) { return false; });
  EXPECT_FALSE(reply.ok());  // this reader stopped
  serve.Signal(SIGTERM);
  EXPECT_TRUE(serve.WaitForError("Stopping")) << serve.errors();
  serve.Signal(SIGTERM);
  EXPECT_EQ(serve.Wait(), 1);
}

TEST(Serve, SaysWhatIsWrongWithItsArguments) {
  {
    Program serve({"serve", "/no/such/folder"});
    EXPECT_EQ(serve.Wait(), 2);
    EXPECT_NE(serve.errors().find("/no/such/folder"), std::string::npos) << serve.errors();
  }
  {
    Program serve({"serve", "--port", "70000"});
    EXPECT_EQ(serve.Wait(), 2);
  }
  {
    Program serve({"serve", "--host", "300.1.1.1"});
    EXPECT_EQ(serve.Wait(), 2);
    EXPECT_NE(serve.errors().find("300.1.1.1"), std::string::npos) << serve.errors();
  }
  for (const char* size : {"0", "-5", "x"}) {
    Program serve({"serve", kModel, "--port", "0", "--max-body", size});
    EXPECT_EQ(serve.Wait(), 2) << size;
    EXPECT_NE(serve.errors().find("--max-body"), std::string::npos) << serve.errors();
  }
  {
    const std::string file = TempPath("no_keys");
    std::ofstream(file) << "# none\n";
    Program serve({"serve", kModel, "--port", "0", "--api-key-file", file});
    EXPECT_EQ(serve.Wait(), 2);
    EXPECT_NE(serve.errors().find("holds no key"), std::string::npos) << serve.errors();
  }
  {
    Program serve({"serve", kModel, "--port", "0", "--kv-memory", "1K"});
    EXPECT_EQ(serve.Wait(), 2);
    EXPECT_NE(serve.errors().find("KV"), std::string::npos) << serve.errors();
  }
}

TEST(Serve, SaysThatThePortIsInUse) {
  Program first({"serve", kModel, "--port", "0"});
  const std::string port = std::to_string(PortOf(first));
  Program second({"serve", kModel, "--port", port});
  EXPECT_EQ(second.Wait(), 1);
  EXPECT_EQ(second.errors(), "rose: port " + port +
                                 " on 127.0.0.1 is in use; stop the other program or choose "
                                 "another with --port\n");
}

TEST(Serve, PutsAnIpv6AddressInBrackets) {
  Program serve({"serve", kModel, "--host", "::1", "--port", "0"});
  if (!serve.WaitForError("(Ctrl-C stops)")) GTEST_SKIP() << "no IPv6 here: " << serve.errors();
  EXPECT_NE(serve.errors().find("http://[::1]:"), std::string::npos) << serve.errors();
  serve.Signal(SIGTERM);
  EXPECT_EQ(serve.Wait(), 0);
}

TEST(Serve, DemonstratesWithoutATerminal) {
  Program demo({"serve", kModel, "--demo"});
  EXPECT_EQ(demo.Wait(), 0) << demo.errors();
  EXPECT_NE(demo.output().find("> What is 347 + 586?"), std::string::npos) << demo.output();
  EXPECT_NE(demo.output().find("curl http://127.0.0.1:"), std::string::npos) << demo.output();
  EXPECT_NE(demo.output().find("from openai import OpenAI"), std::string::npos) << demo.output();
  // No colours.
  EXPECT_EQ(demo.output().find('\033'), std::string::npos) << demo.output();
}

TEST(Chat, AnswersLinesOfAPipe) {
  Program chat({"chat", kModel, "--temperature", "0", "--max-tokens", "300"},
               "What is 2 + 3?\n\n/effort low\n/effort huge\n/nonsense\n/reset\nWhat is 4 + 4?\n"
               "/quit\nWhat is 5 + 5?\n");
  EXPECT_EQ(chat.Wait(), 0) << chat.errors();
  // An answer is a line here; nothing but answers is on stdout.
  const std::string& output = chat.output();
  EXPECT_EQ(std::count(output.begin(), output.end(), '\n'), 2) << output;
  EXPECT_NE(chat.errors().find("Effort: low."), std::string::npos) << chat.errors();
  EXPECT_NE(chat.errors().find("not 'huge'"), std::string::npos) << chat.errors();
  EXPECT_NE(chat.errors().find("/nonsense"), std::string::npos) << chat.errors();
}

TEST(Chat, RefusesAQuestionLongerThanTheContext) {
  Program chat({"chat", kModel, "--max-context", "200"}, std::string(3000, 'a') + "\n");
  EXPECT_EQ(chat.Wait(), 2);
  EXPECT_NE(chat.errors().find("200 tokens"), std::string::npos) << chat.errors();
}

}  // namespace
}  // namespace rose

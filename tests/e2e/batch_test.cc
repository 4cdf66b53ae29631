// rose batch: a file of requests answered without a server, interrupted, taken up again.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <thread>

#include "apps/run_program.h"
#include "base/json.h"
#include "e2e/program.h"

namespace rose {
namespace {

constexpr char kModel[] = ROSE_SOURCE_DIR "/models/rosebud";

class BatchTest : public testing::Test {
 protected:
  BatchTest() {
    std::string name = (std::filesystem::temp_directory_path() / "rose-batch-XXXXXX").string();
    folder_ = mkdtemp(name.data());
  }
  ~BatchTest() override { std::filesystem::remove_all(folder_); }

  std::string in() const { return folder_ / "in.jsonl"; }
  std::string out() const { return folder_ / "out.jsonl"; }
  void WaitForAnswers() const {
    while (!std::filesystem::exists(out()) || std::filesystem::file_size(out()) == 0)
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  std::vector<std::string> Arguments() const {
    return {"batch", in(), out(), kModel, "--kv-memory", "64M", "--threads", "1"};
  }
  ProgramResult Run() const { return RunProgram(Arguments()); }

  static void Write(const std::string& path, const std::string& text) {
    std::ofstream(path, std::ios::binary) << text;
  }
  static std::string Read(const std::string& path) {
    std::ifstream file(path, std::ios::binary);
    return {std::istreambuf_iterator<char>(file), {}};
  }
  // A request for a sum; `fields` are further ones of the body.
  static std::string Sum(const std::string& id, int a, int b, const std::string& fields = "") {
    return StrCat(R"({"custom_id":")", id, R"(","method":"POST","url":"/v1/chat/completions",)",
                  R"("body":{"temperature":0,"reasoning_effort":"low","messages":[{"role":"user",)",
                  R"("content":"What is )", a, " + ", b, "?\"}]", fields, "}}\n");
  }
  // By custom_id. Every line must be whole, and no id answered twice.
  std::map<std::string, JsonValue> Answers() const {
    std::map<std::string, JsonValue> answers;
    std::ifstream file(out());
    for (std::string line; std::getline(file, line);) {
      const auto json = ParseJson(line);
      EXPECT_TRUE(json.ok()) << line;
      if (!json.ok()) continue;
      EXPECT_TRUE(answers.emplace(*json->Find("custom_id")->string(), *json).second) << line;
    }
    return answers;
  }
  static std::string Text(const JsonValue& value, std::initializer_list<const char*> path) {
    const JsonValue* at = &value;
    for (const char* name : path) {
      const bool first = std::string(name) == "0";
      at = first ? (at->array() && !at->array()->empty() ? &(*at->array())[0] : nullptr)
                 : at->Find(name);
      if (at == nullptr) return "nothing";
    }
    return at->string() ? *at->string() : WriteJson(*at);
  }

  std::filesystem::path folder_;
};

TEST_F(BatchTest, AnswersEveryLine) {
  const std::string schema =
      R"(,"response_format":{"type":"json_schema","json_schema":{"name":"n","schema":{"type":)"
      R"("object","properties":{"sum":{"const":7}},"required":["sum"],)"
      R"("additionalProperties":false}}})";
  // The first line has the mark that some editors begin a file of UTF-8 with.
  Write(in(),
        "\xEF\xBB\xBF" + Sum("a", 2, 3) + "\n" + Sum("b", 20, 30) + Sum("json", 1, 1, schema) +
            R"({"custom_id":"text","method":"POST","url":"/v1/completions","body":)"
            R"({"prompt":"Once","max_tokens":4}})"
            "\n"
            R"({"custom_id":"response","method":"POST","url":"/v1/responses","body":)"
            R"({"input":"What is 4 + 4?","temperature":0}})"
            "\n"
            R"({"custom_id":"c","method":"POST","url":"/v1/messages","body":{"max_tokens":99,)"
            R"("messages":[{"role":"user","content":"What is 5 + 4?"}],"temperature":0}})");
  const ProgramResult result = Run();
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_EQ(result.out, "");
  EXPECT_NE(result.err.find("6 answered, 0 failed."), std::string::npos) << result.err;
  const auto answers = Answers();
  ASSERT_EQ(answers.size(), 6u);
  const JsonValue& a = answers.at("a");
  EXPECT_EQ(Text(a, {"response", "status_code"}), "200");
  EXPECT_EQ(Text(a, {"error"}), "null");
  EXPECT_EQ(Text(a, {"response", "body", "choices", "0", "message", "content"}), "2 + 3 = 5");
  EXPECT_EQ(Text(a, {"id"}).substr(0, 10), "batch_req_");
  EXPECT_EQ(Text(answers.at("b"), {"response", "body", "choices", "0", "message", "content"}),
            "20 + 30 = 50");
  EXPECT_EQ(Text(answers.at("c"), {"response", "body", "content", "0", "text"}), "5 + 4 = 9");
  EXPECT_EQ(Text(answers.at("json"), {"response", "body", "choices", "0", "message", "content"}),
            R"({"sum":7})");
  EXPECT_EQ(Text(answers.at("text"), {"response", "status_code"}), "200");
  EXPECT_EQ(Text(answers.at("text"), {"response", "body", "object"}), "text_completion");
  EXPECT_EQ(Text(answers.at("response"), {"response", "body", "status"}), "completed");
}

TEST_F(BatchTest, AFailureIsALineAndTheOthersGoOn) {
  Write(in(), R"({"custom_id":"url","method":"POST","url":"/v1/nothing","body":{}})"
              "\n"
              R"({"custom_id":"method","method":"GET","url":"/v1/chat/completions","body":{}})"
              "\n"
              R"({"custom_id":"empty","method":"POST","url":"/v1/chat/completions","body":{}})"
              "\n" +
                  Sum("stream", 1, 2, R"(,"stream":true)") +
                  Sum("model", 1, 2, R"(,"model":"other")") + Sum("good", 2, 2));
  const ProgramResult result = Run();
  EXPECT_EQ(result.exit_code, 1);
  EXPECT_NE(result.err.find("1 answered, 5 failed."), std::string::npos) << result.err;
  const auto answers = Answers();
  ASSERT_EQ(answers.size(), 6u);
  EXPECT_EQ(Text(answers.at("url"), {"error", "code"}), "invalid_url");
  EXPECT_EQ(Text(answers.at("url"), {"response"}), "null");
  EXPECT_EQ(Text(answers.at("method"), {"error", "code"}), "invalid_method");
  EXPECT_EQ(Text(answers.at("empty"), {"response", "status_code"}), "400");
  EXPECT_EQ(Text(answers.at("empty"), {"response", "body", "error", "param"}), "messages");
  EXPECT_EQ(Text(answers.at("stream"), {"response", "body", "error", "param"}), "stream");
  EXPECT_EQ(Text(answers.at("model"), {"response", "status_code"}), "404");
  EXPECT_EQ(Text(answers.at("good"), {"response", "status_code"}), "200");
}

TEST_F(BatchTest, RefusesFilesThatCannotBeABatch) {
  const auto refused = [this](const std::string& words) {
    const ProgramResult result = Run();
    EXPECT_EQ(result.exit_code, 2);
    EXPECT_NE(result.err.find(words), std::string::npos) << result.err;
  };
  refused("cannot be opened");
  Write(in(), Sum("a", 1, 2) + Sum("a", 3, 4));
  refused("line 2: the custom_id \"a\" was there before");
  Write(in(), Sum("a", 1, 2) + "{\"custom_id\":");
  refused("line 2: ");
  Write(in(), "{\"method\":\"POST\"}\n");
  refused("line 1: must be an object with a custom_id");
  for (const char* body : {"", R"(,"body":null)", R"(,"body":[1])", R"(,"body":"x")"}) {
    Write(in(), Sum("a", 1, 2) +
                    StrCat(R"({"custom_id":"b","method":"POST","url":"/v1/chat/completions")", body,
                           "}\n"));
    refused("line 2: must have a body");
  }
  EXPECT_FALSE(std::filesystem::exists(out()));
  Write(in(), Sum("a", 1, 2));
  Write(out(), "{\"custom_id\":\"other\"}\n");
  refused("answers \"other\", which");
  Write(out(), "some text\n");
  refused("line 1: ");
  EXPECT_EQ(Read(out()), "some text\n");
  const ProgramResult same = RunProgram({"batch", in(), in(), kModel});
  EXPECT_EQ(same.exit_code, 2);
  EXPECT_NE(same.err.find("holds the requests"), std::string::npos) << same.err;
}

TEST_F(BatchTest, TakesUpWhatStandsWholeAndCutsTheTornLine) {
  Write(in(), Sum("a", 1, 2) + Sum("b", 3, 4) + Sum("c", 5, 6));
  const std::string kept = "{\"custom_id\":\"b\",\"response\":\"kept\"}\n";
  Write(out(), kept + R"({"custom_id":"c","resp)");
  const ProgramResult result = Run();
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_NE(result.err.find("2 answered, 0 failed, 1 were there before."), std::string::npos)
      << result.err;
  const std::string first = Read(out());
  EXPECT_TRUE(first.starts_with(kept));
  EXPECT_EQ(Answers().size(), 3u);
  // Once more: nothing is left to do, and nothing changes.
  EXPECT_EQ(Run().exit_code, 0);
  EXPECT_EQ(Read(out()), first);
}

std::string ManySums(int count, const std::function<std::string(const std::string&, int)>& sum) {
  std::string text;
  for (int i = 0; i < count; ++i) text += sum("r" + std::to_string(i), i);
  return text;
}

TEST_F(BatchTest, GoesOnAfterItWasKilled) {
  constexpr int kRequests = 60;
  Write(in(),
        ManySums(kRequests, [](const std::string& id, int i) { return Sum(id, 100 + i, i); }));
  auto arguments = Arguments();
  arguments.insert(arguments.end(), {"--max-running", "2"});
  {
    Program batch(arguments);
    // Until it has answered something; its destructor kills it.
    WaitForAnswers();
  }
  const std::string before = Read(out());
  const ProgramResult result = RunProgram(arguments);
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_NE(result.err.find("were there before"), std::string::npos) << result.err;
  EXPECT_TRUE(Read(out()).starts_with(before.substr(0, before.rfind('\n') + 1)));
  EXPECT_EQ(Answers().size(), static_cast<size_t>(kRequests));
}

TEST_F(BatchTest, ASignalFinishesWhatRuns) {
  constexpr int kRequests = 400;
  Write(in(),
        ManySums(kRequests, [](const std::string& id, int i) { return Sum(id, 100 + i, i); }));
  auto arguments = Arguments();
  arguments.insert(arguments.end(), {"--max-running", "2"});
  Program batch(arguments);
  WaitForAnswers();
  batch.Signal(SIGINT);
  EXPECT_EQ(batch.Wait(), 1);
  EXPECT_NE(batch.errors().find("left: the same command goes on"), std::string::npos)
      << batch.errors();
  const auto answers = Answers();
  EXPECT_GT(answers.size(), 0u);
  EXPECT_LT(answers.size(), static_cast<size_t>(kRequests));
  EXPECT_TRUE(Read(out()).ends_with("\n"));
}

TEST_F(BatchTest, OneRunAtATimeWritesAFile) {
  Write(in(), ManySums(200, [](const std::string& id, int i) { return Sum(id, 100 + i, i); }));
  auto arguments = Arguments();
  arguments.insert(arguments.end(), {"--max-running", "2"});
  Program batch(arguments);
  WaitForAnswers();
  const ProgramResult second = RunProgram(arguments);
  EXPECT_EQ(second.exit_code, 1);
  EXPECT_NE(second.err.find("another run is writing"), std::string::npos) << second.err;
}

}  // namespace
}  // namespace rose

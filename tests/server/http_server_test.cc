// The HTTP layer over loopback, with handlers made for the purpose.
#include "server/http_server.h"

#include <gtest/gtest.h>

#include <condition_variable>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "server/http_client.h"

namespace rose {
namespace {

// A value that one thread sets and another waits for.
template <typename T>
class Mailbox {
 public:
  void Put(T value) {
    const std::lock_guard lock(mutex_);
    value_ = std::move(value);
    full_ = true;
    changed_.notify_all();
  }
  T Take() {
    std::unique_lock lock(mutex_);
    if (!changed_.wait_for(lock, std::chrono::seconds(60), [&] { return full_; })) {
      ADD_FAILURE() << "nothing came";
    }
    full_ = false;
    return std::move(value_);
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  T value_{};
  bool full_ = false;
};

using Writer = std::shared_ptr<ResponseWriter>;

HttpServerConfig TestConfig() {
  HttpServerConfig config;
  config.port = 0;
  return config;
}

HttpClient Connect(const HttpServer& server) {
  return HttpClient::Connect("127.0.0.1", server.port()).value();
}

// Answers with method, path, query and body.
void Echo(HttpRequest request, Writer writer) {
  HttpResponse response;
  response.content_type = "text/plain";
  response.body = StrCat(request.method, " ", request.path, " ?", request.query, " ", request.body);
  writer->Send(std::move(response));
}

class EchoTest : public testing::Test {
 protected:
  EchoTest() : server_(TestConfig(), Echo) { EXPECT_TRUE(server_.Start().ok()); }

  // The status of the only reply to `bytes`; the connection must end after it.
  int StatusOfLast(const std::string& bytes) {
    HttpClient client = Connect(server_);
    EXPECT_TRUE(client.SendRaw(bytes).ok());
    const auto reply = client.ReadReply();
    if (!reply.ok()) return 0;
    EXPECT_EQ(FindHeader(reply->headers, "Connection"), "close");
    EXPECT_TRUE(client.AtEnd());
    return reply->status;
  }

  HttpServer server_;
};

TEST_F(EchoTest, KeepsAConnectionForSeveralRequests) {
  HttpClient client = Connect(server_);
  for (int i = 0; i < 3; ++i) {
    const auto reply = client.Ask("POST", "/a%20b%2Fc?x=%20", "body");
    ASSERT_TRUE(reply.ok()) << reply.status().message();
    EXPECT_EQ(reply->status, 200);
    EXPECT_EQ(reply->body, "POST /a b/c ?x=%20 body");
    EXPECT_EQ(FindHeader(reply->headers, "content-type"), "text/plain");
    EXPECT_EQ(FindHeader(reply->headers, "connection"), "keep-alive");
  }
  EXPECT_EQ(server_.connections(), 1);
}

TEST_F(EchoTest, EchoesTheRequestId) {
  HttpClient client = Connect(server_);
  auto reply = client.Ask("GET", "/", "", {{"x-request-id", "abc-123"}});
  EXPECT_EQ(FindHeader(reply->headers, "X-Request-Id"), "abc-123");
  // Unusable ones and missing ones are replaced.
  reply = client.Ask("GET", "/", "", {{"X-Request-Id", "a b\tc"}});
  EXPECT_EQ(FindHeader(reply->headers, "X-Request-Id").size(), 32u);
  reply = client.Ask("GET", "/");
  EXPECT_EQ(FindHeader(reply->headers, "X-Request-Id").size(), 32u);
}

TEST_F(EchoTest, AnswersRequestsSentAheadInOrder) {
  HttpClient client = Connect(server_);
  std::string all;
  for (int i = 0; i < 100; ++i) {
    all += StrCat("POST /", i, " HTTP/1.1\r\nHost: h\r\nContent-Length: 3\r\n\r\nabc");
  }
  ASSERT_TRUE(client.SendRaw(all).ok());
  for (int i = 0; i < 100; ++i) {
    const auto reply = client.ReadReply();
    ASSERT_TRUE(reply.ok());
    EXPECT_EQ(reply->body, StrCat("POST /", i, " ? abc"));
  }
}

TEST_F(EchoTest, TakesRequestsByteByByte) {
  HttpClient client = Connect(server_);
  const std::string request =
      "POST /x HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n"
      "3\r\nabc\r\n2;ext=1\r\nde\r\n0\r\nTrailer: 1\r\n\r\nGET /y HTTP/1.1\r\nHost: h\r\n\r\n";
  for (const char c : request) ASSERT_TRUE(client.SendRaw({&c, 1}).ok());
  EXPECT_EQ(client.ReadReply()->body, "POST /x ? abcde");
  EXPECT_EQ(client.ReadReply()->body, "GET /y ? ");
}

TEST_F(EchoTest, TakesAnEmptyChunkedBodyByteByByte) {
  HttpClient client = Connect(server_);
  const std::string request =
      "POST /x HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n";
  // One after the other, each seen alone.
  for (const char c : request) {
    ASSERT_TRUE(client.SendRaw({&c, 1}).ok());
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  EXPECT_EQ(client.ReadReply()->body, "POST /x ? ");
}

TEST_F(EchoTest, SaysContinueToWhoWaitsForIt) {
  HttpClient client = Connect(server_);
  ASSERT_TRUE(client
                  .SendRaw("POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 2\r\n"
                           "Expect: 100-continue\r\n\r\n")
                  .ok());
  EXPECT_EQ(client.ReadReply()->status, 100);
  ASSERT_TRUE(client.SendRaw("ok").ok());
  EXPECT_EQ(client.ReadReply()->body, "POST / ? ok");
}

TEST_F(EchoTest, HeadHasNoBody) {
  HttpClient client = Connect(server_);
  const auto reply = client.Ask("HEAD", "/");
  EXPECT_EQ(FindHeader(reply->headers, "Content-Length"), "9");
  EXPECT_EQ(client.Ask("GET", "/z")->body, "GET /z ? ");
}

TEST_F(EchoTest, AnswersHttp10AndCloses) {
  EXPECT_EQ(StatusOfLast("GET / HTTP/1.0\r\n\r\n"), 200);
  EXPECT_EQ(StatusOfLast("GET / HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n"), 200);
}

TEST_F(EchoTest, TakesTheAbsoluteForm) {
  HttpClient client = Connect(server_);
  EXPECT_EQ(client.Ask("GET", "http://proxy:80/a?b")->body, "GET /a ?b ");
  EXPECT_EQ(client.Ask("GET", "http://proxy")->body, "GET / ? ");
}

TEST_F(EchoTest, RefusesWhatIsNoRequest) {
  EXPECT_EQ(StatusOfLast("garbage\r\n\r\n"), 400);
  EXPECT_EQ(StatusOfLast("\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03"), 400);  // TLS
  EXPECT_EQ(StatusOfLast(std::string(20, '\0')), 400);
  EXPECT_EQ(StatusOfLast("GET / HTTP/1.1\r\n\r\n"), 400);  // no Host
  EXPECT_EQ(StatusOfLast("GET / HTTP/2.0\r\nHost: h\r\n\r\n"), 505);
  EXPECT_EQ(StatusOfLast("GET / HTTP/1.1\r\nHost: h\r\nno colon\r\n\r\n"), 400);
}

// What one server takes for the end of a request, another must not take for its middle.
TEST_F(EchoTest, RefusesBodiesOfUnclearLength) {
  const std::string start = "POST / HTTP/1.1\r\nHost: h\r\n";
  EXPECT_EQ(StatusOfLast(start + "Content-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\nabc"),
            400);
  EXPECT_EQ(StatusOfLast(start + "Content-Length: 3\r\nContent-Length: 4\r\n\r\nabcd"), 400);
  EXPECT_EQ(StatusOfLast(start + "Content-Length: -1\r\n\r\n"), 400);
  EXPECT_EQ(StatusOfLast(start + "Content-Length: 99999999999999999999\r\n\r\n"), 400);
  EXPECT_EQ(StatusOfLast(start + "Transfer-Encoding: gzip\r\n\r\n"), 501);
  EXPECT_EQ(StatusOfLast(start + "Transfer-Encoding: chunked\r\n\r\nxyz\r\n"), 400);
  EXPECT_EQ(StatusOfLast(start + "Content-Encoding: gzip\r\nContent-Length: 1\r\n\r\na"), 415);
  EXPECT_EQ(StatusOfLast(start + "Expect: tea\r\nContent-Length: 1\r\n\r\na"), 417);
}

// A chunk that begins with anything but its size is refused at once, not when more has come.
TEST_F(EchoTest, RefusesAChunkWithoutItsSize) {
  const std::string head = "POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n";
  for (const char* body : {"zz", "z", "zz\r\n", "zzzzzzzz", "-1\r\n", "5x", "5\r\nhello\r\nzz",
                           "5\r\nhelloz", "5\r\nhello\rz", "\r\n", "0x5"}) {
    HttpClient client = Connect(server_);
    ASSERT_TRUE(client.SendRaw(head + body).ok());
    const auto reply = client.ReadReply();
    ASSERT_TRUE(reply.ok()) << body;
    EXPECT_EQ(reply->status, 400) << body;
  }
  // What may still become a chunk is waited for.
  const char* halves[][2] = {{"", "5\r\nhello\r\n0\r\n\r\n"},
                             {"5", "\r\nhello\r\n0\r\n\r\n"},
                             {"5;a=b\r\nhello\r\n", "0\r\n\r\n"},
                             {"5\r\nhello\r", "\n0\r\n\r\n"},
                             {"0A", "\r\nhellohello\r\n0\r\n\r\n"}};
  for (const auto& [begin, rest] : halves) {
    HttpClient client = Connect(server_);
    ASSERT_TRUE(client.SendRaw(head + begin).ok());
    ASSERT_TRUE(Connect(server_).Ask("POST", "/", "x").ok());
    ASSERT_TRUE(client.SendRaw(rest).ok());
    EXPECT_EQ(client.ReadReply()->status, 200) << begin;
  }
}

TEST_F(EchoTest, RefusesTooLongHeaders) {
  const std::string start = "GET / HTTP/1.1\r\nHost: h\r\nX: ";
  EXPECT_EQ(StatusOfLast(start + std::string(33 << 10, 'a')), 431);
  EXPECT_EQ(StatusOfLast(start + std::string(33 << 10, 'a') + "\r\n\r\n"), 431);
  EXPECT_EQ(StatusOfLast("GET /" + std::string(33 << 10, 'a')), 414);
}

// Chunk extensions and trailers count as headers do, and change nothing of the request.
TEST_F(EchoTest, BoundsWhatStandsAroundChunks) {
  const std::string start = "POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n";
  EXPECT_EQ(StatusOfLast(start + "1;" + std::string(40 << 10, 'a')), 431);
  EXPECT_EQ(StatusOfLast(start + "0\r\nT: " + std::string(40 << 10, 'a')), 431);
  HttpClient client = Connect(server_);
  ASSERT_TRUE(client.SendRaw(start + "0\r\nX-Request-Id: trailer\r\n\r\n").ok());
  EXPECT_NE(FindHeader(client.ReadReply()->headers, "X-Request-Id"), "trailer");
  // No Host among the headers is not mended by one among the trailers.
  EXPECT_EQ(StatusOfLast("POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n"
                         "0\r\nHost: h\r\n\r\n"),
            400);
}

TEST(HttpServer, RefusesTooLongBodies) {
  HttpServerConfig config = TestConfig();
  config.limits.body_bytes = 1000;
  HttpServer server(config, Echo);
  ASSERT_TRUE(server.Start().ok());
  const std::string start = "POST / HTTP/1.1\r\nHost: h\r\n";
  {
    HttpClient client = Connect(server);
    ASSERT_TRUE(client.SendRequest("POST", "/", std::string(1000, 'a')).ok());
    EXPECT_EQ(client.ReadReply()->status, 200);
  }
  for (const std::string& request :
       {start + "Content-Length: 1001\r\nExpect: 100-continue\r\n\r\n",
        start + "Content-Length: 100000\r\n\r\n" + std::string(100000, 'a'),
        start + "Transfer-Encoding: chunked\r\n\r\n3e9\r\n" + std::string(1001, 'a')}) {
    HttpClient client = Connect(server);
    ASSERT_TRUE(client.SendRaw(request).ok());
    const auto reply = client.ReadReply();
    ASSERT_TRUE(reply.ok()) << reply.status().message();
    EXPECT_EQ(reply->status, 413);
    EXPECT_NE(reply->body.find(R"("type":"BadRequestError")"), std::string::npos) << reply->body;
  }
}

// A request that is refused anyway is refused before its body comes, and needs no room for it.
TEST(HttpServer, AsksForAKeyBeforeTheBody) {
  HttpServerConfig config = TestConfig();
  config.access.keys = {"secret"};
  HttpServer server(config, Echo);
  ASSERT_TRUE(server.Start().ok());
  HttpClient client = Connect(server);
  ASSERT_TRUE(client
                  .SendRaw("POST /v1/x HTTP/1.1\r\nHost: h\r\nX-Request-Id: me\r\n"
                           "Content-Length: 1000000\r\n\r\nabc")
                  .ok());
  const auto refused = client.ReadReply();
  ASSERT_TRUE(refused.ok()) << refused.status().message();
  EXPECT_EQ(refused->status, 401);
  EXPECT_EQ(FindHeader(refused->headers, "X-Request-Id"), "me");
  EXPECT_EQ(FindHeader(refused->headers, "Connection"), "close");
  // With a whole request the connection goes on.
  HttpClient other = Connect(server);
  EXPECT_EQ(other.Ask("POST", "/v1/x", "abc")->status, 401);
  EXPECT_EQ(other.Ask("POST", "/%761/x", "abc")->status, 401);  // the same path
  EXPECT_EQ(other.Ask("POST", "/v1/x", "abc", {{"Authorization", "Bearer secret"}})->body,
            "POST /v1/x ? abc");
  EXPECT_EQ(other.Ask("GET", "/health")->status, 200);
}

TEST(HttpServer, LetsAllowedPagesReadEveryAnswer) {
  HttpServerConfig config = TestConfig();
  config.access.origins = {"https://app.example"};
  config.limits.body_bytes = 10;
  HttpServer server(config, [](HttpRequest request, Writer writer) {
    if (request.path != "/stream") return Echo(std::move(request), std::move(writer));
    writer->BeginStream({});
    writer->Write("x");
    writer->EndStream();
  });
  ASSERT_TRUE(server.Start().ok());
  const HttpHeaders page = {{"Origin", "https://app.example"}};
  const auto allowed = [](const Result<HttpReply>& reply) {
    return std::string(FindHeader(reply->headers, "Access-Control-Allow-Origin"));
  };
  HttpClient client = Connect(server);
  EXPECT_EQ(allowed(client.Ask("GET", "/", "", page)), "https://app.example");
  EXPECT_EQ(allowed(client.Ask("GET", "/stream", "", page)), "https://app.example");
  EXPECT_EQ(allowed(client.Ask("GET", "/", "", {{"Origin", "https://x"}})), "");
  EXPECT_EQ(allowed(client.Ask("GET", "/")), "");
  const auto preflight =
      client.Ask("OPTIONS", "/v1/x", "",
                 {{"Origin", "https://app.example"}, {"Access-Control-Request-Method", "POST"}});
  EXPECT_EQ(preflight->status, 204);
  EXPECT_EQ(allowed(preflight), "https://app.example");
  const auto too_long = client.Ask("POST", "/", std::string(11, 'a'), page);
  EXPECT_EQ(too_long->status, 413);
  EXPECT_EQ(allowed(too_long), "https://app.example");
}

// Bodies that arrive slowly on many connections must not fill the memory.
TEST(HttpServer, BoundsAllBodiesTogether) {
  HttpServerConfig config = TestConfig();
  config.max_receiving_bytes = 1000;
  HttpServer server(config, Echo);
  ASSERT_TRUE(server.Start().ok());
  const std::string start = "POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 800\r\n\r\n";
  HttpClient first = Connect(server), second = Connect(server);
  ASSERT_TRUE(first.SendRaw(start + std::string(700, 'a')).ok());
  EXPECT_EQ(second.Ask("GET", "/")->status, 200);  // the first body has come
  ASSERT_TRUE(second.SendRaw(start + std::string(700, 'a')).ok());
  EXPECT_EQ(second.ReadReply()->status, 503);
  // The first one is not harmed, and leaves room when it is done.
  ASSERT_TRUE(first.SendRaw(std::string(100, 'a')).ok());
  EXPECT_EQ(first.ReadReply()->status, 200);
  ASSERT_TRUE(first.SendRaw(start + std::string(700, 'a')).ok());
  ASSERT_TRUE(first.SendRaw(std::string(100, 'a')).ok());
  EXPECT_EQ(first.ReadReply()->status, 200);
}

TEST(HttpServer, TellsSlowClientsToHurry) {
  HttpServerConfig config = TestConfig();
  config.header_timeout_ms = 50;
  config.body_timeout_ms = 50;
  config.idle_timeout_ms = 50;
  HttpServer server(config, Echo);
  ASSERT_TRUE(server.Start().ok());
  HttpClient header = Connect(server), body = Connect(server), idle = Connect(server);
  ASSERT_TRUE(header.SendRaw("GET / HTT").ok());
  ASSERT_TRUE(body.SendRaw("POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 9\r\n\r\na").ok());
  EXPECT_EQ(header.ReadReply()->status, 408);
  EXPECT_EQ(body.ReadReply()->status, 408);
  EXPECT_TRUE(idle.AtEnd());
}

TEST(HttpServer, RefusesConnectionsOverTheLimit) {
  HttpServerConfig config = TestConfig();
  config.max_connections = 2;
  HttpServer server(config, Echo);
  ASSERT_TRUE(server.Start().ok());
  HttpClient a = Connect(server), b = Connect(server);
  EXPECT_EQ(a.Ask("GET", "/")->status, 200);
  EXPECT_EQ(b.Ask("GET", "/")->status, 200);
  HttpClient c = Connect(server);
  const auto refused = c.Ask("GET", "/");
  EXPECT_EQ(refused->status, 503);
  EXPECT_EQ(FindHeader(refused->headers, "Retry-After"), "1");
  EXPECT_EQ(a.Ask("GET", "/")->status, 200);
}

TEST(HttpServer, SaysThatAPortIsInUse) {
  HttpServer first(TestConfig(), Echo);
  ASSERT_TRUE(first.Start().ok());
  HttpServerConfig config = TestConfig();
  config.port = first.port();
  HttpServer second(config, Echo);
  const Status status = second.Start();
  EXPECT_EQ(status.code(), StatusCode::kUnavailable);
  EXPECT_NE(status.message().find("is in use"), std::string::npos) << status.message();
  config.host = "no such host";
  HttpServer third(config, Echo);
  EXPECT_EQ(third.Start().code(), StatusCode::kInvalidArgument);
}

TEST(HttpServer, StreamsPiecesAsTheyCome) {
  Mailbox<Writer> handled;
  HttpServer server(TestConfig(), [&](HttpRequest, Writer writer) { handled.Put(writer); });
  ASSERT_TRUE(server.Start().ok());
  HttpClient client = Connect(server);
  ASSERT_TRUE(client.SendRequest("GET", "/").ok());
  const Writer writer = handled.Take();
  writer->BeginStream({.content_type = "text/event-stream"});
  writer->Write("data: 0\n\n");
  // Each piece is written only after the one before has arrived.
  std::vector<std::string> pieces;
  const auto reply = client.ReadReply([&](std::string_view piece) {
    pieces.emplace_back(piece);
    if (pieces.size() < 3) {
      writer->Write(StrCat("data: ", pieces.size(), "\n\n"));
    } else {
      writer->EndStream();
    }
    return true;
  });
  ASSERT_TRUE(reply.ok()) << reply.status().message();
  EXPECT_EQ(pieces, (std::vector<std::string>{"data: 0\n\n", "data: 1\n\n", "data: 2\n\n"}));
  EXPECT_EQ(client.SendRequest("GET", "/").ok(), true);
  handled.Take()->Send({.status = 204});
  EXPECT_EQ(client.ReadReply()->status, 204);
}

TEST(HttpServer, StreamsToHttp10UntilTheEndOfTheConnection) {
  HttpServer server(TestConfig(), [&](HttpRequest, Writer writer) {
    writer->BeginStream({});
    writer->Write("one ");
    writer->Post([writer] {
      writer->Write("two");
      writer->EndStream();
    });
  });
  ASSERT_TRUE(server.Start().ok());
  HttpClient client = Connect(server);
  ASSERT_TRUE(client.SendRaw("GET / HTTP/1.0\r\n\r\n").ok());
  EXPECT_EQ(client.ReadReply()->body, "one two");
}

TEST(HttpServer, NoticesAClientThatLeaves) {
  for (const bool streaming : {false, true}) {
    Mailbox<Writer> handled;
    Mailbox<bool> left;
    HttpServer server(TestConfig(), [&](HttpRequest, Writer writer) {
      writer->OnDisconnect([&] { left.Put(true); });
      if (streaming) {
        writer->BeginStream({});
        writer->Write("x");
      }
      handled.Put(writer);
    });
    ASSERT_TRUE(server.Start().ok());
    HttpClient client = Connect(server);
    ASSERT_TRUE(client.SendRequest("GET", "/").ok());
    const Writer writer = handled.Take();
    client.Close();
    EXPECT_TRUE(left.Take());
    // Registered too late: called all the same.
    writer->OnDisconnect([&] { left.Put(true); });
    EXPECT_TRUE(left.Take());
    writer->Write("y");
    writer->EndStream();
    writer->Send({});
  }
}

TEST(HttpServer, CutsOffAReaderThatFallsBehind) {
  HttpServerConfig config = TestConfig();
  config.max_backlog_bytes = 100'000;
  Mailbox<Writer> handled;
  Mailbox<bool> left;
  HttpServer server(config, [&](HttpRequest, Writer writer) {
    writer->OnDisconnect([&] { left.Put(true); });
    writer->BeginStream({});
    handled.Put(writer);
  });
  ASSERT_TRUE(server.Start().ok());
  HttpClient client = Connect(server);
  ASSERT_TRUE(client.SendRequest("GET", "/").ok());
  const Writer writer = handled.Take();
  // More than the kernel buffers of a loopback connection and the backlog together.
  for (int i = 0; i < 2000; ++i) writer->Write(std::string(10'000, 'x'));
  EXPECT_TRUE(left.Take());
}

TEST(HttpServer, AnswersForAHandlerThatFails) {
  HttpServer server(TestConfig(), [&](HttpRequest request, Writer writer) {
    if (request.path == "/throw") throw CheckFailure("broken on purpose");
    if (request.path == "/stream") writer->BeginStream({});
  });
  ASSERT_TRUE(server.Start().ok());
  for (const char* path : {"/throw", "/drop"}) {
    HttpClient client = Connect(server);
    EXPECT_EQ(client.Ask("GET", path)->status, 500) << path;
    EXPECT_EQ(client.Ask("GET", path)->status, 500) << path;
  }
  HttpClient client = Connect(server);
  EXPECT_FALSE(client.Ask("GET", "/stream").ok());
}

TEST(HttpServer, DrainsWhatIsUnderWay) {
  Mailbox<Writer> handled;
  HttpServer server(TestConfig(), [&](HttpRequest, Writer writer) { handled.Put(writer); });
  ASSERT_TRUE(server.Start().ok());
  HttpClient busy = Connect(server), idle = Connect(server);
  ASSERT_TRUE(busy.SendRequest("GET", "/").ok());
  const Writer writer = handled.Take();
  EXPECT_FALSE(server.Drain(/*timeout_ms=*/1));
  EXPECT_TRUE(idle.AtEnd());
  writer->BeginStream({});
  writer->Write("all");
  writer->EndStream();
  EXPECT_TRUE(server.Drain(/*timeout_ms=*/60'000));
  EXPECT_EQ(busy.ReadReply()->body, "all");
  EXPECT_TRUE(busy.AtEnd());
  server.Stop();
  EXPECT_FALSE(HttpClient::Connect("127.0.0.1", server.port()).ok());
}

TEST(HttpServer, ReportsEachRequestOnce) {
  std::mutex mutex;
  std::vector<AccessRecord> records;
  HttpServerConfig config = TestConfig();
  config.on_finished = [&](const AccessRecord& record) {
    const std::lock_guard lock(mutex);
    records.push_back(record);
  };
  {
    HttpServer server(config, [](HttpRequest, Writer writer) {
      writer->SetStats({.model = "m", .prompt_tokens = 3, .finish = "stop"});
      writer->Send({.body = "hello"});
    });
    ASSERT_TRUE(server.Start().ok());
    HttpClient client = Connect(server);
    EXPECT_EQ(client.Ask("POST", "/p?secret=1", "abc")->status, 200);
    EXPECT_EQ(client.Ask("GET", "/q")->status, 200);
    client.Close();
    EXPECT_EQ(StrCat("", Connect(server).SendRaw("x\r\n\r\n").ok()), "1");
    server.Drain(60'000);
  }
  ASSERT_GE(records.size(), 2u);
  EXPECT_EQ(records[0].method, "POST");
  EXPECT_EQ(records[0].path, "/p");
  EXPECT_EQ(records[0].status, 200);
  EXPECT_EQ(records[0].request_bytes, 3);
  EXPECT_GT(records[0].response_bytes, 5);
  EXPECT_EQ(records[0].stats.prompt_tokens, 3);
  EXPECT_FALSE(records[0].client_left);
  EXPECT_EQ(records[1].path, "/q");
}

}  // namespace
}  // namespace rose

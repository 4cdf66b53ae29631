// HTTPS over loopback, with a client of OpenSSL.
#include "server/tls.h"

#include <gtest/gtest.h>
#include <openssl/err.h>
#include <openssl/ssl.h>

#include <memory>
#include <string>

#include "server/http_client.h"
#include "server/http_server.h"

namespace rose {
namespace {

constexpr char kCertificate[] = ROSE_SOURCE_DIR "/tests/data/tls/certificate.pem";
constexpr char kKey[] = ROSE_SOURCE_DIR "/tests/data/tls/key.pem";

// A blocking client. The server's certificate must be the one of the test data.
class TlsClient {
 public:
  explicit TlsClient(int port) : client_(HttpClient::Connect("127.0.0.1", port).value()) {
    context_ = SSL_CTX_new(TLS_client_method());
    SSL_CTX_load_verify_locations(context_, kCertificate, nullptr);
    SSL_CTX_set_verify(context_, SSL_VERIFY_PEER, nullptr);
    session_ = SSL_new(context_);
    SSL_set_fd(session_, client_.socket());
  }
  ~TlsClient() {
    SSL_free(session_);
    SSL_CTX_free(context_);
  }
  TlsClient(const TlsClient&) = delete;
  TlsClient& operator=(const TlsClient&) = delete;

  bool Handshake() { return SSL_connect(session_) == 1; }
  void Send(const std::string& text) {
    EXPECT_EQ(SSL_write(session_, text.data(), static_cast<int>(text.size())),
              static_cast<int>(text.size()));
  }
  // Reads until `end` has come, or the end of the session.
  std::string ReadUntil(const std::string& end) {
    std::string all;
    std::string piece(16 << 10, '\0');
    while (end.empty() || all.find(end) == std::string::npos) {
      const int size = SSL_read(session_, piece.data(), static_cast<int>(piece.size()));
      if (size <= 0) {
        ended_properly_ = SSL_get_error(session_, size) == SSL_ERROR_ZERO_RETURN;
        break;
      }
      all.append(piece.data(), static_cast<size_t>(size));
    }
    return all;
  }
  bool ended_properly() const { return ended_properly_; }
  SSL* session() { return session_; }

 private:
  HttpClient client_;
  SSL_CTX* context_;
  SSL* session_;
  bool ended_properly_ = false;
};

std::unique_ptr<HttpServer> Serve(HttpHandler handler, int64_t max_connections = 100) {
  HttpServerConfig config;
  config.port = 0;
  config.max_connections = max_connections;
  config.header_timeout_ms = 1'000;
  config.tls = TlsContext::Load(kCertificate, kKey).value();
  auto server = std::make_unique<HttpServer>(config, std::move(handler));
  EXPECT_TRUE(server->Start().ok());
  return server;
}

void Echo(HttpRequest request, std::shared_ptr<ResponseWriter> writer) {
  writer->Send({.content_type = "text/plain", .body = request.body + "|"});
}

TEST(Tls, CarriesRequestsAndAnswers) {
  const auto server = Serve(Echo);
  TlsClient client(server->port());
  ASSERT_TRUE(client.Handshake());
  // Longer than a record, several times on one connection.
  for (const size_t size : {3, 1'000'000, 5}) {
    client.Send(StrCat("POST / HTTP/1.1\r\nHost: h\r\nContent-Length: ", size, "\r\n\r\n",
                       std::string(size, 'x')));
    const std::string reply = client.ReadUntil("|");
    EXPECT_TRUE(reply.starts_with("HTTP/1.1 200 OK\r\n")) << reply.substr(0, 100);
    EXPECT_TRUE(reply.ends_with("\r\n\r\n" + std::string(size, 'x') + "|"));
  }
  client.Send("GET / HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n");
  EXPECT_TRUE(client.ReadUntil("").ends_with("|"));
  EXPECT_TRUE(client.ended_properly());
}

TEST(Tls, CarriesStreams) {
  const auto server = Serve([](HttpRequest, std::shared_ptr<ResponseWriter> writer) {
    writer->BeginStream({});
    for (int i = 0; i < 100; ++i) writer->Write(StrCat("<", i, ">"));
    writer->EndStream();
  });
  TlsClient client(server->port());
  ASSERT_TRUE(client.Handshake());
  client.Send("GET / HTTP/1.1\r\nHost: h\r\n\r\n");
  const std::string reply = client.ReadUntil("0\r\n\r\n");
  for (int i = 0; i < 100; ++i) EXPECT_NE(reply.find(StrCat("<", i, ">")), std::string::npos);
}

TEST(Tls, SpeaksHttp11WhenAsked) {
  const auto server = Serve(Echo);
  TlsClient client(server->port());
  const std::string offered = "\x02h2\x08http/1.1";
  SSL_set_alpn_protos(client.session(), reinterpret_cast<const unsigned char*>(offered.data()),
                      static_cast<unsigned>(offered.size()));
  ASSERT_TRUE(client.Handshake());
  const unsigned char* chosen = nullptr;
  unsigned size = 0;
  SSL_get0_alpn_selected(client.session(), &chosen, &size);
  EXPECT_EQ(std::string(reinterpret_cast<const char*>(chosen), size), "http/1.1");
}

// Old versions, plain HTTP, noise, and silence end the connection and nothing else.
TEST(Tls, RefusesWhatIsNoTls) {
  const auto server = Serve(Echo);
  {
    TlsClient old(server->port());
    SSL_set_min_proto_version(old.session(), TLS1_VERSION);
    SSL_set_max_proto_version(old.session(), TLS1_1_VERSION);
    EXPECT_FALSE(old.Handshake());
  }
  for (const std::string& noise : {std::string("GET / HTTP/1.1\r\nHost: h\r\n\r\n"),
                                   std::string(10'000, '\xff'), std::string("\x16\x03\x01")}) {
    HttpClient client = HttpClient::Connect("127.0.0.1", server->port()).value();
    (void)client.SendRaw(noise);
    EXPECT_FALSE(client.ReadReply().ok());
  }
  TlsClient client(server->port());
  ASSERT_TRUE(client.Handshake());
  client.Send("GET / HTTP/1.1\r\nHost: h\r\n\r\n");
  EXPECT_TRUE(client.ReadUntil("|").starts_with("HTTP/1.1 200"));
}

TEST(Tls, SaysWhichFileIsWrong) {
  const auto message = [](const char* certificate, const char* key) {
    return TlsContext::Load(certificate, key).status().message();
  };
  EXPECT_NE(message("/no/such", kKey).find("'/no/such' is no certificate"), std::string::npos);
  EXPECT_NE(message(kKey, kKey).find("is no certificate"), std::string::npos);
  EXPECT_NE(message(kCertificate, kCertificate).find("is no key"), std::string::npos);
}

}  // namespace
}  // namespace rose

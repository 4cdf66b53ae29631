#include "server/request_parser.h"

#include <boost/asio/buffer.hpp>
#include <boost/beast/core/string.hpp>
#include <boost/beast/http/error.hpp>
#include <boost/beast/http/parser.hpp>
#include <boost/beast/http/string_body.hpp>
#include <utility>

#include "base/check.h"

namespace rose {
namespace http = boost::beast::http;

struct RequestParser::Impl {
  http::request_parser<http::string_body> parser;
};

namespace {

std::string_view View(boost::beast::string_view text) {
  return {text.data(), text.size()};
}

// The path of a request target: origin form ("/a?b"), or the absolute form that proxies send.
std::string_view StripAuthority(std::string_view target) {
  const size_t scheme = target.find("://");
  if (target.starts_with('/') || scheme == std::string_view::npos) return target;
  const size_t path = target.find('/', scheme + 3);
  return path == std::string_view::npos ? std::string_view("/") : target.substr(path);
}

}  // namespace

RequestParser::RequestParser(const HttpLimits& limits)
    : impl_(std::make_unique<Impl>()), limits_(limits) {
  impl_->parser.header_limit(static_cast<std::uint32_t>(limits.header_bytes));
  impl_->parser.body_limit(static_cast<std::uint64_t>(limits.body_bytes));
  impl_->parser.eager(true);
}

RequestParser::~RequestParser() = default;

void RequestParser::Fail(int status, std::string_view message) {
  stage_ = Stage::kFailed;
  error_ = ErrorResponse(status, message);
}

size_t RequestParser::Push(std::string_view bytes) {
  size_t used = 0;
  while (used < bytes.size() && stage_ != Stage::kDone && stage_ != Stage::kFailed) {
    boost::beast::error_code error;
    const size_t step = impl_->parser.put(
        boost::asio::const_buffer(bytes.data() + used, bytes.size() - used), error);
    used += step;
    if (error == http::error::header_limit) {
      Fail(431, StrCat("The request's headers are longer than ", limits_.header_bytes, " bytes."));
    } else if (error == http::error::body_limit) {
      Fail(413, StrCat("The request's body is longer than ", limits_.body_bytes,
                       " bytes, the limit of this server."));
    } else if (error == http::error::bad_version) {
      Fail(505, "This server speaks HTTP/1.1 and HTTP/1.0.");
    } else if (error && error != http::error::need_more) {
      Fail(400, StrCat("This is not a valid HTTP request: ", error.message(), "."));
    } else {
      if (stage_ == Stage::kHeader && impl_->parser.is_header_done()) CheckHeader();
      if (stage_ == Stage::kBody && impl_->parser.is_done()) stage_ = Stage::kDone;
      if (error == http::error::need_more || step == 0) break;
    }
  }
  return used;
}

void RequestParser::CheckHeader() {
  const auto& header = impl_->parser.get();
  stage_ = Stage::kBody;
  if (header.version() == 11 && header.find(http::field::host) == header.end()) {
    Fail(400, "An HTTP/1.1 request needs a Host header.");
  } else if (header.find(http::field::transfer_encoding) != header.end() &&
             !impl_->parser.chunked()) {
    Fail(501, "The only transfer encoding that this server takes is chunked.");
  } else if (const auto encoding = header[http::field::content_encoding];
             !encoding.empty() && !boost::beast::iequals(encoding, "identity")) {
    Fail(415, "Compressed request bodies are not taken; send the body without Content-Encoding.");
  } else if (const auto expect = header[http::field::expect];
             !expect.empty() && !boost::beast::iequals(expect, "100-continue")) {
    Fail(417, "The only expectation that this server meets is 100-continue.");
  }
}

bool RequestParser::expects_continue() const {
  return stage_ == Stage::kBody && impl_->parser.get().version() == 11 &&
         !impl_->parser.get()[http::field::expect].empty();
}

HttpRequest RequestParser::Take() {
  ROSE_CHECK(stage_ == Stage::kDone, "no whole request yet");
  auto message = impl_->parser.release();
  HttpRequest request;
  request.method = View(message.method_string());
  const std::string_view target = StripAuthority(View(message.target()));
  const size_t query = target.find('?');
  request.path = PercentDecode(target.substr(0, query));
  if (query != std::string_view::npos) request.query = target.substr(query + 1);
  request.keep_alive = message.keep_alive();
  request.http10 = message.version() == 10;
  for (const auto& field : message) {
    request.headers.emplace_back(View(field.name_string()), View(field.value()));
  }
  request.id = UsableRequestId(FindHeader(request.headers, "X-Request-Id"));
  request.body = std::move(message.body());
  return request;
}

}  // namespace rose

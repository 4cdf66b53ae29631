#include "server/request_parser.h"

#include <algorithm>
#include <boost/asio/buffer.hpp>
#include <boost/beast/core/string.hpp>
#include <boost/beast/http/error.hpp>
#include <boost/beast/http/parser.hpp>
#include <boost/beast/http/string_body.hpp>
#include <functional>
#include <utility>

#include "base/check.h"

namespace rose {
namespace http = boost::beast::http;

struct RequestParser::Impl {
  http::request_parser<http::string_body> parser;
  HttpRequest request;     // from the header; trailers behind a chunked body change nothing
  uint64_t announced = 0;  // bytes of the body, by the chunks' headers so far
  std::function<void(std::uint64_t, boost::beast::string_view, boost::beast::error_code&)> on_chunk;
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

// Whether a chunk's header may begin like this: its size in hexadecimal digits, behind the line end
// of the chunk before it, if there is one.
bool MayBeginChunk(std::string_view bytes, bool has_one_before) {
  for (const char end : std::string_view(has_one_before ? "\r\n" : "")) {
    if (bytes.empty()) return true;
    if (bytes.front() != end) return false;
    bytes.remove_prefix(1);
  }
  const size_t size = std::min(bytes.find_first_not_of("0123456789abcdefABCDEF"), bytes.size());
  if (size == bytes.size()) return true;
  return size > 0 && std::string_view("\r; \t").find(bytes[size]) != std::string_view::npos;
}

}  // namespace

RequestParser::RequestParser(const HttpLimits& limits)
    : impl_(std::make_unique<Impl>()), limits_(limits) {
  impl_->parser.header_limit(static_cast<std::uint32_t>(limits.header_bytes));
  impl_->parser.body_limit(static_cast<std::uint64_t>(limits.body_bytes));
  impl_->on_chunk = [impl = impl_.get()](std::uint64_t size, boost::beast::string_view,
                                         boost::beast::error_code&) { impl->announced += size; };
  impl_->parser.on_chunk_header(impl_->on_chunk);
}

RequestParser::~RequestParser() = default;

void RequestParser::Fail(int status, std::string message) {
  stage_ = Stage::kFailed;
  error_ = ErrorResponseAt(head().path, {.http_status = status, .message = std::move(message)});
}

size_t RequestParser::Push(std::string_view bytes) {
  size_t used = 0;
  while (used < bytes.size() && stage_ != Stage::kDone && stage_ != Stage::kFailed) {
    // Beast 1.81 asserts that it sees a last chunk whole, "0", CRLF and CRLF. No valid chunked body
    // has less than that left before its end, so less than that can wait.
    constexpr size_t kLeastOfChunkedBody = 5;
    if (stage_ == Stage::kBody && impl_->parser.chunked() &&
        bytes.size() - used < kLeastOfChunkedBody) {
      CheckChunk(bytes.substr(used));
      break;
    }
    // Beast checks its limit for headers only when it lacks bytes; the slice makes it exact.
    const bool in_header = stage_ == Stage::kHeader;
    const std::string_view rest = bytes.substr(used);
    const std::string_view slice =
        in_header ? rest.substr(0, static_cast<size_t>(limits_.header_bytes) - header_used_) : rest;
    boost::beast::error_code error;
    const size_t step =
        impl_->parser.put(boost::asio::const_buffer(slice.data(), slice.size()), error);
    used += step;
    if (in_header) header_used_ += step;
    if (in_header) request_line_seen_ |= slice.find('\n') != std::string_view::npos;
    if (error == http::error::need_more && in_header && slice.size() < rest.size()) {
      error = http::error::header_limit;
    }
    if (error == http::error::header_limit && !request_line_seen_) {
      Fail(414, StrCat("The request line is longer than ", limits_.header_bytes, " bytes."));
    } else if (error == http::error::header_limit) {
      Fail(431, StrCat("The request's headers are longer than ", limits_.header_bytes, " bytes."));
    } else if (error == http::error::body_limit) {
      if (in_header) TakeHeader();  // declared too long: the fields are there
      Fail(413, StrCat("The request's body is longer than ", limits_.body_bytes,
                       " bytes, the limit of this server."));
    } else if (error == http::error::bad_version) {
      Fail(505, "This server speaks HTTP/1.1 and HTTP/1.0.");
    } else if (error && error != http::error::need_more) {
      Fail(400, StrCat("This is not a valid HTTP request: ", error.message(), "."));
    } else {
      if (stage_ == Stage::kHeader && impl_->parser.is_header_done()) CheckHeader();
      if (stage_ == Stage::kBody && impl_->parser.is_done()) stage_ = Stage::kDone;
      if (error == http::error::need_more && stage_ == Stage::kBody &&
          bytes.size() - used > static_cast<size_t>(limits_.header_bytes)) {
        Fail(431, StrCat("A chunk's header or the trailers are longer than ", limits_.header_bytes,
                         " bytes."));
      }
      if (error == http::error::need_more || step == 0) {
        CheckChunk(bytes.substr(used));
        break;
      }
    }
  }
  return used;
}

// Bytes that wait for more behind them may be wrong already: no need to wait, then.
void RequestParser::CheckChunk(std::string_view rest) {
  if (stage_ != Stage::kBody || !impl_->parser.chunked()) return;
  const uint64_t taken = impl_->parser.get().body().size();
  if (taken == impl_->announced && !MayBeginChunk(rest, taken > 0))
    Fail(400, "This is not a valid HTTP request: a chunk must begin with its size.");
}

void RequestParser::CheckHeader() {
  const auto& header = impl_->parser.get();
  stage_ = Stage::kBody;
  impl_->parser.eager(true);
  TakeHeader();
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
  return stage_ == Stage::kBody && !impl_->request.http10 &&
         !FindHeader(impl_->request.headers, "Expect").empty();
}

void RequestParser::TakeHeader() {
  const auto& header = impl_->parser.get();
  HttpRequest& request = impl_->request;
  request.method = View(header.method_string());
  const std::string_view target = StripAuthority(View(header.target()));
  const size_t query = target.find('?');
  request.path = PercentDecode(target.substr(0, query));
  if (query != std::string_view::npos) request.query = target.substr(query + 1);
  request.keep_alive = header.keep_alive();
  request.http10 = header.version() == 10;
  for (const auto& field : header) {
    request.headers.emplace_back(View(field.name_string()), View(field.value()));
  }
  request.id = UsableRequestId(FindHeader(request.headers, "X-Request-Id"));
}

const HttpRequest& RequestParser::head() const {
  return impl_->request;
}

int64_t RequestParser::body_bytes() const {
  return static_cast<int64_t>(impl_->parser.get().body().size());
}

HttpRequest RequestParser::Take() {
  ROSE_CHECK(stage_ == Stage::kDone, "no whole request yet");
  impl_->request.body = std::move(impl_->parser.get().body());
  return std::move(impl_->request);
}

}  // namespace rose

// Any bytes, cut anywhere, give requests, a refusal, or a wish for more: never a crash, and what a
// whole request holds does not depend on where its bytes were cut.
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/check.h"
#include "server/request_parser.h"

namespace {

using rose::RequestParser;

constexpr rose::HttpLimits kLimits{.header_bytes = 1024, .body_bytes = 4096};

// What comes out of `input`, fed in pieces of `cut` bytes.
std::vector<std::string> ParseAll(std::string_view input, size_t cut) {
  std::vector<std::string> outcome;
  RequestParser parser(kLimits);
  std::string held;
  while (!input.empty()) {
    held += input.substr(0, cut);
    input.remove_prefix(std::min(cut, input.size()));
    held.erase(0, parser.Push(held));
    if (parser.stage() == RequestParser::Stage::kDone) {
      const rose::HttpRequest request = parser.Take();
      outcome.push_back(request.method + " " + request.path + "?" + request.query + " " +
                        request.body);
      return outcome;
    }
    if (parser.stage() == RequestParser::Stage::kFailed) {
      outcome.push_back(std::to_string(parser.error().status));
      return outcome;
    }
  }
  return outcome;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view input(reinterpret_cast<const char*>(data), size);
  const auto whole = ParseAll(input, input.size() + 1);
  const auto cut = ParseAll(input, size % 7 + 1);
  // A refusal may come sooner when the bytes come singly, and for another of several reasons.
  const bool request = !whole.empty() && whole[0].size() > 3;
  if (request) ROSE_CHECK(whole == cut, whole[0]);
  return 0;
}

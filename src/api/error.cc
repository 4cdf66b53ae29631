#include "api/error.h"

#include "api/json_writer.h"

namespace rose {
namespace {

std::string_view TypeOf(int http_status) {
  switch (http_status) {
    case 401:
      return "AuthenticationError";
    case 404:
      return "NotFoundError";
    case 403:
      return "PermissionDeniedError";
    case 422:
      return "UnprocessableEntityError";
    case 429:
      return "RateLimitError";
    case 501:
      return "NotImplementedError";
    case 505:
      return "BadRequestError";  // the client's choice
    case 503:
      return "ServiceUnavailableError";
    default:
      return http_status < 500 ? "BadRequestError" : "InternalServerError";
  }
}

// What an error quotes may be of any length: cut to what a person reads.
std::string Shortened(std::string_view text) {
  constexpr size_t kMost = 2000;
  if (text.size() <= kMost) return std::string(text);
  size_t end = kMost;
  while ((static_cast<unsigned char>(text[end]) & 0xC0) == 0x80) --end;
  return StrCat(text.substr(0, end), "...");
}

}  // namespace

std::string ErrorBody(const ApiError& error) {
  std::string out;
  JsonWriter json(out);
  json.BeginObject().Key("error").BeginObject();
  json.Key("message").String(Shortened(error.message));
  json.Key("type").String(error.type.empty() ? TypeOf(error.http_status) : error.type);
  json.Key("param").StringOrNull(Shortened(error.param));
  json.Key("code").StringOrNull(error.code);
  json.EndObject().EndObject();
  return out;
}

ApiError UnknownModel(std::string_view name) {
  return {
      .http_status = 404,
      .message = StrCat("The model `", name, "` does not exist; /v1/models lists those that do."),
      .param = "model",
      .code = "model_not_found"};
}

ApiError ErrorFromStatus(const Status& status) {
  ROSE_CHECK(!status.ok(), "an error needs a failed Status");
  ApiError error{.http_status = 500, .message = status.message()};
  switch (status.code()) {
    case StatusCode::kInvalidArgument:
    case StatusCode::kUnsupported:
      error.http_status = 400;
      break;
    case StatusCode::kNotFound:
      error.http_status = 404;
      break;
    case StatusCode::kUnavailable:
      error.http_status = 503;
      break;
    case StatusCode::kOk:
    case StatusCode::kIo:
    case StatusCode::kInternal:
      break;
  }
  return error;
}

}  // namespace rose

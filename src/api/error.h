// What a failed request is answered with (spec E.12): an HTTP status and a JSON body.
#pragma once

#include <string>
#include <string_view>

#include "base/status.h"

namespace rose {

struct ApiError {
  int http_status = 400;
  std::string message;    // a sentence that says what to do
  std::string param;      // the field at fault, such as "messages[2].role"; empty = null
  std::string code;       // such as "context_length_exceeded"; empty = null
  std::string type = {};  // empty: follows from the HTTP status
};

// {"error": {"message", "type", "param", "code"}}. The type follows from the HTTP status. Valid
// JSON whatever the texts hold. Also the payload of an event that ends a stream which had begun.
std::string ErrorBody(const ApiError& error);

// 404 for a name that is not served.
ApiError UnknownModel(std::string_view name);

// The answer to a failure from below: kInvalidArgument and kUnsupported 400, kNotFound 404,
// kUnavailable 503, others 500.
ApiError ErrorFromStatus(const Status& status);

}  // namespace rose

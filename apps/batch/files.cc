#include "batch/files.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <span>
#include <utility>

#include "base/file.h"
#include "base/json.h"

namespace rose {
namespace {

bool IsBlank(const std::string& line) {
  return line.find_first_not_of(" \t\r") == line.npos;
}

std::string StringOf(const JsonValue& json, std::string_view name) {
  const JsonValue* value = json.Find(name);
  return value != nullptr && value->string() != nullptr ? *value->string() : "";
}

// The mark that some editors begin a file of UTF-8 with is no part of its first line.
bool GetLine(std::istream& file, std::string& text, int64_t line) {
  if (!std::getline(file, text)) return false;
  if (line == 1 && text.starts_with("\xEF\xBB\xBF")) text.erase(0, 3);
  return true;
}

// One line of a batch file; what is wrong with it is told with its place.
Result<JsonValue> ReadLine(const std::string& text, const std::string& path, int64_t line) {
  const auto json = ParseJson(text);
  if (!json.ok()) return InvalidArgument(path, " line ", line, ": ", json.status().message());
  if (json->object() == nullptr || StringOf(*json, "custom_id").empty())
    return InvalidArgument(path, " line ", line, ": must be an object with a custom_id, a string");
  return *json;
}

}  // namespace

Result<BatchInput> BatchInput::Open(const std::string& path) {
  BatchInput input;
  input.path_ = path;
  input.file_.open(path, std::ios::binary);
  if (!input.file_) return NotFound(path, ": cannot be opened for reading");
  std::string text;
  for (int64_t line = 1; GetLine(input.file_, text, line); ++line) {
    if (IsBlank(text)) continue;
    ROSE_ASSIGN_OR_RETURN(const JsonValue json, ReadLine(text, path, line));
    const JsonValue* body = json.Find("body");
    if (body == nullptr || body->object() == nullptr)
      return InvalidArgument(path, " line ", line, ": must have a body, the request as an object");
    std::string id = StringOf(json, "custom_id");
    if (!input.ids_.insert(id).second) {
      return InvalidArgument(path, " line ", line, ": the custom_id \"", id,
                             "\" was there before; each needs its own");
    }
  }
  if (input.file_.bad()) return FileError(path, "be read");
  input.file_.clear();
  input.file_.seekg(0);
  return input;
}

Result<std::optional<BatchRequest>> BatchInput::Next() {
  std::string text;
  while (GetLine(file_, text, line_ + 1)) {
    ++line_;
    if (IsBlank(text)) continue;
    ROSE_ASSIGN_OR_RETURN(const JsonValue json, ReadLine(text, path_, line_));
    BatchRequest request{.custom_id = StringOf(json, "custom_id"),
                         .method = StringOf(json, "method"),
                         .url = StringOf(json, "url"),
                         .body = {}};
    if (const JsonValue* body = json.Find("body"); body != nullptr && body->object() != nullptr)
      request.body = WriteJson(*body);
    return std::optional(std::move(request));
  }
  if (file_.bad()) return FileError(path_, "be read");
  return std::optional<BatchRequest>();
}

Result<BatchOutput> BatchOutput::Open(const std::string& path, const BatchInput& input) {
  BatchOutput output(path, open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644));
  if (output.file_ < 0) return FileError(path, "be opened for writing");
  struct stat theirs{}, ours{};
  if (stat(input.path().c_str(), &theirs) == 0 && fstat(output.file_, &ours) == 0 &&
      theirs.st_dev == ours.st_dev && theirs.st_ino == ours.st_ino)
    return InvalidArgument(path, ": holds the requests; name another file for the answers");
  if (flock(output.file_, LOCK_EX | LOCK_NB) != 0)
    return Unavailable(path, ": another run is writing to it");
  ROSE_RETURN_IF_ERROR(output.TakeUp(input));
  return output;
}

BatchOutput::BatchOutput(BatchOutput&& other) noexcept
    : path_(std::move(other.path_)),
      file_(std::exchange(other.file_, -1)),
      size_(other.size_),
      answered_(std::move(other.answered_)) {}

BatchOutput::~BatchOutput() {
  if (file_ >= 0) close(file_);
}

Status BatchOutput::TakeUp(const BatchInput& input) {
  std::ifstream file(path_, std::ios::binary);
  std::string text;
  // A line without its end was being written when the run ended.
  for (int64_t line = 1; std::getline(file, text) && !file.eof(); ++line) {
    size_ += static_cast<int64_t>(text.size()) + 1;
    if (IsBlank(text)) continue;
    ROSE_ASSIGN_OR_RETURN(const JsonValue json, ReadLine(text, path_, line));
    std::string id = StringOf(json, "custom_id");
    if (!input.Asks(id)) {
      return InvalidArgument(path_, " line ", line, ": answers \"", id, "\", which ", input.path(),
                             " does not ask; name another file for the answers");
    }
    answered_.insert(std::move(id));
  }
  if (file.bad()) return FileError(path_, "be read");
  if (ftruncate(file_, size_) != 0 || lseek(file_, size_, SEEK_SET) < 0)
    return FileError(path_, "be cut behind its last whole line");
  return Status();
}

Status BatchOutput::Write(const std::string& line) {
  const std::string text = line + '\n';
  const Status written =
      WriteAll(file_, path_, {reinterpret_cast<const uint8_t*>(text.data()), text.size()});
  if (!written.ok()) {
    if (ftruncate(file_, size_) != 0) return FileError(path_, "be written");
    return written;
  }
  size_ += static_cast<int64_t>(text.size());
  return Status();
}

}  // namespace rose

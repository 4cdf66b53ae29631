#include "checkpoint/convert_journal.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <boost/json/parse.hpp>
#include <boost/json/serialize.hpp>
#include <utility>

#include "base/file.h"

namespace rose {

namespace json = boost::json;

Result<ConvertJournal> ConvertJournal::Open(const std::string& folder,
                                            const std::string& identity) {
  ConvertJournal journal;
  journal.path_ = folder + "/" + kName;
  journal.identity_ = identity;
  journal.file_ = ::open(journal.path_.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644);
  if (journal.file_ < 0) return FileError(journal.path_, "open for writing");
  if (::flock(journal.file_, LOCK_EX | LOCK_NB) != 0)
    return Unavailable(folder, ": another conversion is at work there");
  constexpr int64_t kMaxBytes = int64_t{1} << 31;
  ROSE_ASSIGN_OR_RETURN(const std::string text, ReadFile(journal.path_, kMaxBytes));
  journal.Read(text);
  if (journal.valid_bytes_ == 0) {
    ROSE_RETURN_IF_ERROR(journal.Restart());
  } else if (::ftruncate(journal.file_, journal.valid_bytes_) != 0 ||
             ::lseek(journal.file_, journal.valid_bytes_, SEEK_SET) < 0) {
    return FileError(journal.path_, "cut");
  }
  return journal;
}

ConvertJournal& ConvertJournal::operator=(ConvertJournal&& other) noexcept {
  std::swap(path_, other.path_);
  std::swap(identity_, other.identity_);
  std::swap(file_, other.file_);
  std::swap(valid_bytes_, other.valid_bytes_);
  std::swap(done_, other.done_);
  std::swap(reports_, other.reports_);
  return *this;
}

ConvertJournal::~ConvertJournal() {
  if (file_ >= 0) ::close(file_);
}

// Takes in complete lines as long as they make sense.
void ConvertJournal::Read(const std::string& text) {
  size_t begin = 0;
  for (size_t end = text.find('\n'); end != text.npos; end = text.find('\n', begin)) {
    const std::string_view line(text.data() + begin, end - begin);
    if (begin == 0) {
      if (line != identity_) return;
    } else {
      boost::system::error_code error;
      json::value value = json::parse(json::string_view(line.data(), line.size()), error);
      if (error || !value.is_object()) return;
      const json::value* done = value.get_object().if_contains("done");
      json::value* report = value.get_object().if_contains("report");
      if (done == nullptr || report == nullptr || !done->is_int64()) return;
      if (done->get_int64() <= done_) return;
      done_ = done->get_int64();
      if (!report->is_null()) reports_.push_back(std::move(*report));
    }
    begin = end + 1;
    valid_bytes_ = static_cast<int64_t>(begin);
  }
}

Status ConvertJournal::Commit(int64_t done, json::value report) {
  ROSE_CHECK_GT(done, done_);
  const json::value line = {{"done", done}, {"report", report}};
  ROSE_RETURN_IF_ERROR(Write(json::serialize(line)));
  done_ = done;
  if (!report.is_null()) reports_.push_back(std::move(report));
  return Status();
}

Status ConvertJournal::Restart() {
  done_ = 0;
  reports_.clear();
  if (::ftruncate(file_, 0) != 0 || ::lseek(file_, 0, SEEK_SET) < 0) return FileError(path_, "cut");
  return Write(identity_);
}

Status ConvertJournal::Write(const std::string& line) {
  const std::string text = line + "\n";
  ROSE_RETURN_IF_ERROR(
      WriteAll(file_, path_, {reinterpret_cast<const uint8_t*>(text.data()), text.size()}));
  if (::fdatasync(file_) != 0) return FileError(path_, "write");
  return Status();
}

}  // namespace rose

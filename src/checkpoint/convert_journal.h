// The journal of a conversion: which of its jobs are safely on the disk, and their reports.
#pragma once

#include <boost/json/value.hpp>
#include <cstdint>
#include <string>
#include <vector>

#include "base/status.h"

namespace rose {

// A text file in the folder being written: first a line that identifies source and format, then a
// line for every stretch of finished jobs. A line counts when its newline is there.
class ConvertJournal {
 public:
  // Opens or makes `folder`/convert.journal and locks it; kUnavailable if another process has. What
  // it holds under another identity is forgotten.
  static Result<ConvertJournal> Open(const std::string& folder, const std::string& identity);

  ConvertJournal(ConvertJournal&& other) noexcept { *this = std::move(other); }
  ConvertJournal& operator=(ConvertJournal&& other) noexcept;
  ~ConvertJournal();

  int64_t done() const { return done_; }  // jobs 0 .. done-1 are on the disk
  const std::vector<boost::json::value>& reports() const { return reports_; }

  // Jobs up to `done` are on the disk; `report` (null if none) is that of the last.
  Status Commit(int64_t done, boost::json::value report);
  // Forgets all jobs.
  Status Restart();

  static constexpr char kName[] = "convert.journal";

 private:
  ConvertJournal() = default;
  Status Write(const std::string& line);
  void Read(const std::string& text);

  std::string path_;
  std::string identity_;
  int file_ = -1;
  int64_t valid_bytes_ = 0;  // of the file: complete lines
  int64_t done_ = 0;
  std::vector<boost::json::value> reports_;
};

}  // namespace rose

#include "checkpoint/disk_space.h"

#include <sys/statvfs.h>

#include "base/file.h"
#include "base/progress.h"

namespace rose {

Status CheckDiskSpace(const std::string& folder, int64_t needed) {
  struct statvfs info{};
  if (::statvfs(folder.c_str(), &info) != 0) return FileError(folder, "ask for free space");
  const int64_t free_bytes = static_cast<int64_t>(info.f_bavail) * info.f_frsize;
  if (needed <= free_bytes) return Status();
  return IoError(folder, ": the disk is too full: ", BytesText(needed), " are needed, ",
                 BytesText(free_bytes), " are free");
}

}  // namespace rose

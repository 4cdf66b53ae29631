#include "base/file.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

namespace rose {
namespace {

// Opens a file in a process whose standard streams are closed. Exits with 0 if it has a number of
// its own; with 10 for each standard stream that can be read or written.
[[noreturn]] void OpenAFile(bool is_filled) {
  for (const int stream : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) ::close(stream);
  if (is_filled) FillStandardStreams();
  const int file = ::open("/dev/null", O_RDWR | O_CLOEXEC);
  char byte = 0;
  int working = ::read(STDIN_FILENO, &byte, 1) >= 0 ? 10 : 0;
  for (const int stream : {STDOUT_FILENO, STDERR_FILENO})
    working += ::write(stream, &byte, 1) >= 0 ? 10 : 0;
  ::_exit(working > 0 ? working : file > STDERR_FILENO ? 0 : 1);
}

// Else a server whose standard error is closed writes its log to a connection, or to a checkpoint.
TEST(FillStandardStreams, NoFileGetsTheNumberOfOneThatIsClosed) {
  EXPECT_EXIT(OpenAFile(/*is_filled=*/true), testing::ExitedWithCode(0), "");
  EXPECT_EXIT(OpenAFile(/*is_filled=*/false), testing::ExitedWithCode(10), "");
}

}  // namespace
}  // namespace rose

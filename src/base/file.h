// Files: small ones read and written whole, and what writing needs to be safe.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "base/status.h"

namespace rose {

// The bytes of a file of at most `max_bytes`. kNotFound if there is none, kInvalidArgument if it is
// larger, kIo if it cannot be read.
Result<std::string> ReadFile(const std::string& path, int64_t max_bytes);

// The same for what a user names on the command line, which may be a pipe: rose ... <(command).
Result<std::string> ReadFileOrPipe(const std::string& path, int64_t max_bytes);

// The name under which a file is written before it is complete.
std::string PartialName(const std::string& path);

// A small file, whole or not at all: written under its PartialName, then renamed.
Status WriteFileAtomically(const std::string& path, std::string_view text);

// All of `bytes` to an open file. kIo when the file system says no, such as a full disk.
Status WriteAll(int file, const std::string& path, std::span<const uint8_t> bytes);

// Whether an open file takes bytes within so long. A pipe or terminal that nobody reads does not,
// and a write to it would wait for ever; where it does, one of at most PIPE_BUF bytes does not
// wait.
bool TakesBytes(int file, int milliseconds);

// Where standard input, output or error is closed, puts something in its place that can neither be
// read nor written. Otherwise the next file or connection that is opened would get its number, and
// what is meant for the terminal. For the begin of a program.
void FillStandardStreams();

// kIo "path: cannot <what>: <the reason in errno>".
Status FileError(const std::string& path, const char* what);

}  // namespace rose

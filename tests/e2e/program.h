// Runs build/rose as a user does: arguments, stdin, signals; what it printed and its exit code.
#pragma once

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/types.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "base/check.h"

namespace rose {

class Program {
 public:
  // Starts the program that was built beside these tests, with `input` (less than a pipe holds,
  // 64 KiB) on its stdin.
  explicit Program(const std::vector<std::string>& arguments, const std::string& input = {}) {
    const auto path = std::filesystem::read_symlink("/proc/self/exe").parent_path() / "rose";
    std::vector<std::string> words = {path.string()};
    words.insert(words.end(), arguments.begin(), arguments.end());
    std::vector<char*> argv;
    for (std::string& word : words) argv.push_back(word.data());
    argv.push_back(nullptr);
    std::array<int, 2> in, out, error;
    ROSE_CHECK(pipe2(in.data(), O_CLOEXEC) == 0 && pipe2(out.data(), O_CLOEXEC) == 0 &&
                   pipe2(error.data(), O_CLOEXEC) == 0,
               "no file descriptors left");
    pid_ = fork();
    ROSE_CHECK(pid_ >= 0, "cannot fork");
    if (pid_ == 0) {
      dup2(in[0], STDIN_FILENO);
      dup2(out[1], STDOUT_FILENO);
      dup2(error[1], STDERR_FILENO);
      execv(argv[0], argv.data());
      _exit(127);
    }
    for (const int theirs : {in[0], out[1], error[1]}) close(theirs);
    stdout_ = out[0];
    stderr_ = error[0];
    ROSE_CHECK_EQ(write(in[1], input.data(), input.size()), static_cast<ssize_t>(input.size()));
    close(in[1]);
  }
  ~Program() {  // kills what still runs
    if (pid_ > 0) {
      kill(pid_, SIGKILL);
      waitpid(pid_, nullptr, 0);
    }
    close(stdout_);
    close(stderr_);
  }
  Program(const Program&) = delete;
  Program& operator=(const Program&) = delete;

  // Reads until `text` stands in stderr; false if it ended, or was silent for a minute, without.
  bool WaitForError(const std::string& text) {
    while (errors_.find(text) == std::string::npos) {
      if (!ReadSome()) return false;
    }
    return true;
  }

  void Signal(int signal) const { kill(pid_, signal); }

  // Reads to the end and gives the exit code; 128 + the signal that ended it.
  int Wait() {
    while (ReadSome()) {
    }
    int status = 0;
    waitpid(std::exchange(pid_, -1), &status, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  }

  const std::string& output() const { return output_; }  // stdout, so far
  const std::string& errors() const { return errors_; }  // stderr, so far

 private:
  // False at the end of both streams, or after a minute without news.
  bool ReadSome() {
    std::array<pollfd, 2> waited{pollfd{stdout_ended_ ? -1 : stdout_, POLLIN, 0},
                                 pollfd{stderr_ended_ ? -1 : stderr_, POLLIN, 0}};
    if (stdout_ended_ && stderr_ended_) return false;
    if (poll(waited.data(), waited.size(), 60'000) <= 0) return false;
    if (waited[0].revents != 0) stdout_ended_ = !Append(stdout_, output_);
    if (waited[1].revents != 0) stderr_ended_ = !Append(stderr_, errors_);
    return true;
  }

  static bool Append(int file, std::string& text) {
    std::array<char, 4096> bytes;
    const ssize_t size = read(file, bytes.data(), bytes.size());
    if (size > 0) text.append(bytes.data(), static_cast<size_t>(size));
    return size > 0;
  }

  pid_t pid_ = -1;
  int stdout_ = -1, stderr_ = -1;
  bool stdout_ended_ = false, stderr_ended_ = false;
  std::string output_, errors_;
};

}  // namespace rose

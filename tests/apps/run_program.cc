#include "apps/run_program.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <iterator>

namespace rose {
namespace {

namespace fs = std::filesystem;

std::string Content(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

}  // namespace

ProgramResult RunProgram(const std::vector<std::string>& arguments, const std::string& input) {
  // Files instead of pipes: neither side can block the other.
  const fs::path folder = fs::path(testing::TempDir()) / ("rose_run_" + std::to_string(::getpid()));
  fs::create_directories(folder);
  const std::string in = folder / "in", out = folder / "out", err = folder / "err";
  std::ofstream(in, std::ios::binary) << input;

  std::vector<std::string> words = {fs::read_symlink("/proc/self/exe").parent_path() / "rose"};
  words.insert(words.end(), arguments.begin(), arguments.end());
  std::vector<char*> argv;
  for (std::string& word : words) argv.push_back(word.data());
  argv.push_back(nullptr);

  const pid_t child = ::fork();
  if (child == 0) {
    ::dup2(::open(in.c_str(), O_RDONLY), 0);
    ::dup2(::open(out.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600), 1);
    ::dup2(::open(err.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600), 2);
    ::execv(argv[0], argv.data());
    ::_exit(127);
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  ProgramResult result{.exit_code = WIFEXITED(status) ? WEXITSTATUS(status) : -1,
                       .out = Content(out),
                       .err = Content(err)};
  fs::remove_all(folder);
  return result;
}

}  // namespace rose

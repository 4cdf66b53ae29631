// Runs the program that was built beside the tests.
#pragma once

#include <string>
#include <vector>

namespace rose {

struct ProgramResult {
  int exit_code = -1;  // -1: ended by a signal
  std::string out;
  std::string err;
};

// `rose` with these arguments and this standard input; waits for its end.
ProgramResult RunProgram(const std::vector<std::string>& arguments, const std::string& input = "");

}  // namespace rose

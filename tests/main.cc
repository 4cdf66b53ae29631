// Runs the tests from the root of the checkout, so that they name their data by relative paths
// (ROSE_SOURCE_DIR) wherever they are started.
#include <gtest/gtest.h>

#include <cstdio>
#include <filesystem>
#include <system_error>

int main(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  std::error_code error;
  std::filesystem::current_path(ROSE_ROOT, error);
  if (error) {
    std::fprintf(stderr, "rose_tests: the checkout is gone from " ROSE_ROOT ": %s\n",
                 error.message().c_str());
    return 1;
  }
  return RUN_ALL_TESTS();
}

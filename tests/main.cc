// Runs the tests from the root of the checkout, so that they name their data by relative paths
// (ROSE_SOURCE_DIR) wherever they are started.
#include <gtest/gtest.h>

#include <cstdio>
#include <filesystem>
#include <system_error>

namespace {

// The root is beside the build folder, also after a move to another machine, or holds the program
// itself (a carried bundle has the data and no sources); else where it was when this was compiled.
std::filesystem::path Root() {
  std::error_code error;
  const auto folder = std::filesystem::read_symlink("/proc/self/exe", error).parent_path();
  for (const auto& root : {folder.parent_path(), folder}) {
    if (std::filesystem::exists(root / "tests/data", error)) return root;
  }
  return ROSE_ROOT;
}

}  // namespace

int main(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  std::error_code error;
  std::filesystem::current_path(Root(), error);
  if (error) {
    std::fprintf(stderr, "rose_tests: the checkout is gone from %s: %s\n", ROSE_ROOT,
                 error.message().c_str());
    return 1;
  }
  return RUN_ALL_TESTS();
}

// Names for what a test writes.
#pragma once

#include <gtest/gtest.h>
#include <unistd.h>

#include <string>

namespace rose {

// A path of this process' own in the folder for such files: tests run beside each other.
inline std::string TempPath(const std::string& name) {
  return testing::TempDir() + "rose_" + std::to_string(::getpid()) + "_" + name;
}

}  // namespace rose

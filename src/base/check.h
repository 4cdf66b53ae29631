// Checks for our own bugs, on in release. A failed check throws CheckFailure with file, line,
// expression and values; it is caught only at the top of a thread and in tests.
#pragma once

#include <sstream>
#include <stdexcept>
#include <string>

namespace rose {

// The arguments written one after the other.
template <typename... Args>
std::string StrCat(const Args&... args) {
  std::ostringstream out;
  ((out << args), ...);
  return out.str();
}

class CheckFailure : public std::logic_error {
 public:
  using std::logic_error::logic_error;
};

[[noreturn]] void FailCheck(const char* file, int line, const char* expression,
                            const std::string& values);

}  // namespace rose

// ROSE_CHECK(condition, parts of a message...)
#define ROSE_CHECK(condition, ...)                                                    \
  do {                                                                                \
    if (!(condition)) [[unlikely]]                                                    \
      ::rose::FailCheck(__FILE__, __LINE__, #condition, ::rose::StrCat(__VA_ARGS__)); \
  } while (false)

#define ROSE_CHECK_OP_(a, op, b)                                                                 \
  do {                                                                                           \
    const auto& a_ = (a);                                                                        \
    const auto& b_ = (b);                                                                        \
    if (!(a_ op b_)) [[unlikely]]                                                                \
      ::rose::FailCheck(__FILE__, __LINE__, #a " " #op " " #b, ::rose::StrCat(a_, " and ", b_)); \
  } while (false)
#define ROSE_CHECK_EQ(a, b) ROSE_CHECK_OP_(a, ==, b)
#define ROSE_CHECK_NE(a, b) ROSE_CHECK_OP_(a, !=, b)
#define ROSE_CHECK_LE(a, b) ROSE_CHECK_OP_(a, <=, b)
#define ROSE_CHECK_LT(a, b) ROSE_CHECK_OP_(a, <, b)
#define ROSE_CHECK_GE(a, b) ROSE_CHECK_OP_(a, >=, b)
#define ROSE_CHECK_GT(a, b) ROSE_CHECK_OP_(a, >, b)

#include "bench/allocation_count.h"

#include <cstdlib>
#include <new>

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define ROSE_COUNT_ALLOCATIONS 0
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define ROSE_COUNT_ALLOCATIONS 0
#endif
#endif
#ifndef ROSE_COUNT_ALLOCATIONS
#define ROSE_COUNT_ALLOCATIONS 1
#endif

namespace rose {
namespace {

// Operator new has no argument to count in, and a count of all threads would be of no use.
constinit thread_local int64_t allocations = 0;

}  // namespace

int64_t AllocationsOfThread() {
  return ROSE_COUNT_ALLOCATIONS ? allocations : -1;
}

}  // namespace rose

#if ROSE_COUNT_ALLOCATIONS

// The forms for arrays and without exceptions call these two, as the standard has it.
void* operator new(std::size_t size) {
  ++rose::allocations;
  void* memory = std::malloc(size > 0 ? size : 1);
  if (memory == nullptr) throw std::bad_alloc();
  return memory;
}

void operator delete(void* memory) noexcept {
  std::free(memory);
}

void operator delete(void* memory, std::size_t /*size*/) noexcept {
  std::free(memory);
}

#endif

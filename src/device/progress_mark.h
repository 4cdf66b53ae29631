// A word of page-locked host memory into which kernels say how far a stream has come. It can still
// be read when a fault has ended the device's work.
#pragma once

#include <cstdint>

namespace rose {

struct ProgressMark {
  volatile int32_t* where = nullptr;  // null = nobody looks
  int32_t value = 0;                  // of OpRecord::mark
};

#ifdef __CUDACC__
// For one thread of a kernel, behind its wait for those before it. The store is not waited for, and
// hides behind the kernel's other work if it comes first.
__device__ inline void LeaveMark(const ProgressMark& mark) {
  if (mark.where != nullptr) *mark.where = mark.value;
}
#endif

}  // namespace rose

// How often this thread asked for memory. The program's operator new counts, so that a benchmark or
// a test can say of a piece of code that it allocates nothing.
#pragma once

#include <cstdint>

namespace rose {

// Calls of operator new on this thread since it began; -1 where a sanitizer has its own.
int64_t AllocationsOfThread();

}  // namespace rose

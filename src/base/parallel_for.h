// A loop over independent tasks of very different size, on threads of its own.
#pragma once

#include <cstdint>
#include <functional>

namespace rose {

// Calls task(0) .. task(count - 1), each once, in order of their start, on `threads` threads (at
// least one; the caller's if there is one only), and returns when all are done. What a task throws
// is thrown again here, the first one, after the others have ended.
void ParallelFor(int threads, int64_t count, const std::function<void(int64_t)>& task);

}  // namespace rose

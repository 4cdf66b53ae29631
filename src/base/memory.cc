#include "base/memory.h"

#include <malloc.h>

namespace rose {

void ReturnLargeBlocks() {
  // Setting it also stops glibc from raising it with every large block that is freed.
  mallopt(M_MMAP_THRESHOLD, 1 << 20);
}

}  // namespace rose

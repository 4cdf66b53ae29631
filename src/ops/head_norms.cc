#include "ops/head_norms.h"

#include "tensor/expect_shape.h"

namespace rose {

void CheckHeadNorms(const HeadNorms& norms, int64_t head_dim) {
  ROSE_CHECK_EQ(norms.q.empty(), norms.k.empty());
  if (norms.q.empty()) return;
  Dim dim{"head_dim", head_dim};
  ExpectShape("q norm", norms.q, {&dim});
  ExpectShape("k norm", norms.k, {&dim});
}

}  // namespace rose

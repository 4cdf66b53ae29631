// A check that all op sets make alike.
#pragma once

#include <cstdint>

#include "ops/ops.h"

namespace rose {

// ROSE_CHECK that the weights of `norms` are [head_dim], or both empty.
void CheckHeadNorms(const HeadNorms& norms, int64_t head_dim);

}  // namespace rose

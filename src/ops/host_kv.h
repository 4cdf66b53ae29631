// The KV cache of the host op sets: zero-filled pages.
#pragma once

#include <vector>

#include "base/status.h"
#include "ops/step.h"
#include "tensor/kv_layout.h"

namespace rose {

// Memory for pages[g] pages of every group; kUnavailable, saying how much was asked, if the system
// does not give it.
Result<KvCache> AllocateKvOnHost(const KvLayout& layout, const std::vector<int64_t>& pages,
                                 DType dtype);

// OpSet::CopyPages where both tiers are in host memory.
void CopyHostPages(KvCache& cache, KvCache& host, const PageCopies& copies);

}  // namespace rose

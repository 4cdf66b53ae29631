// The KV cache of the host op sets: zero-filled pages, owned here.
#pragma once

#include <cstdlib>
#include <memory>
#include <vector>

#include "base/status.h"
#include "ops/step.h"
#include "tensor/kv_layout.h"

namespace rose {

class HostKvMemory {
 public:
  // Memory for pages[g] pages of every group; kUnavailable, saying how much was asked, if the
  // system does not give it. May be called again; all caches live as long as this object.
  Result<KvCache> Allocate(const KvLayout& layout, const std::vector<int64_t>& pages, DType dtype);

 private:
  struct Free {
    void operator()(void* p) const { std::free(p); }
  };
  std::vector<std::unique_ptr<void, Free>> blocks_;
};

// OpSet::CopyPages where both tiers are in host memory.
void CopyHostPages(KvCache& cache, KvCache& host, const PageCopies& copies);

}  // namespace rose

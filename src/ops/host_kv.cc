#include "ops/host_kv.h"

#include <algorithm>
#include <cstring>

namespace rose {

Result<KvCache> HostKvMemory::Allocate(const KvLayout& layout, const std::vector<int64_t>& pages,
                                       DType dtype) {
  ROSE_CHECK_EQ(pages.size(), layout.groups.size());
  size_t layers = 0;
  for (const KvGroup& group : layout.groups) layers += group.layers.size();
  KvCache cache;
  cache.layers.resize(layers);
  for (size_t g = 0; g < layout.groups.size(); ++g) {
    const KvGroup& group = layout.groups[g];
    for (int layer : group.layers) {
      ROSE_CHECK(layer >= 0 && layer < static_cast<int>(layers), "layer ", layer, " of ", layers);
      KvLayer& kv = cache.layers[layer];
      kv.group = static_cast<int>(g);
      kv.window = group.window;
      for (Tensor* tensor : {&kv.keys, &kv.values}) {
        const int64_t elements = pages[g] * layout.kv_heads * KvLayout::kPageSize * layout.head_dim;
        const size_t bytes = std::max<int64_t>(64, elements * ElementBytes(dtype));
        // calloc: pages of the operating system arrive as they are first written.
        void* data = std::calloc(bytes, 1);
        if (data == nullptr) {
          return Unavailable("no memory for the KV cache: ", bytes, " bytes for layer ", layer);
        }
        blocks_.emplace_back(data);
        *tensor =
            Tensor(data, dtype, {pages[g], layout.kv_heads, KvLayout::kPageSize, layout.head_dim});
      }
    }
  }
  return cache;
}

void CopyHostPages(KvCache& cache, std::span<const PageCopy> copies) {
  for (const PageCopy& copy : copies) {
    for (KvLayer& layer : cache.layers) {
      if (layer.group != copy.group) continue;
      for (Tensor* tensor : {&layer.keys, &layer.values}) {
        ROSE_CHECK(copy.from < tensor->dim(0) && copy.to < tensor->dim(0), "page ", copy.from,
                   " to ", copy.to, " of ", tensor->dim(0));
        const int64_t bytes =
            tensor->dim(1) * tensor->dim(2) * tensor->dim(3) * ElementBytes(tensor->dtype());
        auto* base = static_cast<std::byte*>(tensor->raw());
        std::memcpy(base + copy.to * bytes, base + copy.from * bytes, static_cast<size_t>(bytes));
      }
    }
  }
}

}  // namespace rose

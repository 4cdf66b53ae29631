#include "ops/host_kv.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <span>

namespace rose {

Result<KvCache> AllocateKvOnHost(const KvLayout& layout, const std::vector<int64_t>& pages,
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
          return Unavailable("no memory for the KV cache: ", bytes, " bytes for layer ", layer,
                             "; lower --kv-memory or --host-cache");
        }
        cache.memory.emplace_back(data, &std::free);
        *tensor =
            Tensor(data, dtype, {pages[g], layout.kv_heads, KvLayout::kPageSize, layout.head_dim});
      }
    }
  }
  return cache;
}

namespace {

void CopyTensorPage(const Tensor& from, Tensor& to, const PageCopy& copy) {
  ROSE_CHECK(copy.from >= 0 && copy.from < from.dim(0), "page ", copy.from, " of ", from.dim(0));
  ROSE_CHECK(copy.to >= 0 && copy.to < to.dim(0), "page ", copy.to, " of ", to.dim(0));
  const int64_t bytes = to.dim(1) * to.dim(2) * to.dim(3) * ElementBytes(to.dtype());
  std::memcpy(static_cast<std::byte*>(to.raw()) + copy.to * bytes,
              static_cast<const std::byte*>(from.raw()) + copy.from * bytes,
              static_cast<size_t>(bytes));
}

void CopyAll(KvCache& from, KvCache& to, std::span<const PageCopy> copies) {
  for (const PageCopy& copy : copies) {
    ROSE_CHECK(from.layers.size() == to.layers.size(), "there is no host tier");
    for (size_t layer = 0; layer < to.layers.size(); ++layer) {
      if (to.layers[layer].group != copy.group) continue;
      CopyTensorPage(from.layers[layer].keys, to.layers[layer].keys, copy);
      CopyTensorPage(from.layers[layer].values, to.layers[layer].values, copy);
    }
  }
}

}  // namespace

void CopyHostPages(KvCache& cache, KvCache& host, const PageCopies& copies) {
  CopyAll(cache, host, copies.to_host);
  CopyAll(host, cache, copies.to_device);
  CopyAll(cache, cache, copies.within);
}

}  // namespace rose

// Weights and KV pages on the device.
#include <cstddef>

#include "device/align.h"
#include "device/cuda_check.h"
#include "kernels/random/random.h"
#include "ops/cuda/cuda_op_set.h"

namespace rose {
namespace {

std::vector<int64_t> PageShape(const KvLayout& layout, int64_t pages) {
  return {pages, layout.kv_heads, KvLayout::kPageSize, layout.head_dim};
}

// Bytes of keys (or values) of one layer.
int64_t LayerBytes(const KvLayout& layout, int64_t pages, DType dtype) {
  return AlignOnDevice(pages * layout.kv_heads * KvLayout::kPageSize * layout.head_dim *
                       ElementBytes(dtype));
}

int64_t CacheBytes(const KvLayout& layout, const std::vector<int64_t>& pages, DType dtype) {
  ROSE_CHECK_EQ(pages.size(), layout.groups.size());
  int64_t bytes = 0;
  for (size_t g = 0; g < pages.size(); ++g) {
    bytes += 2 * LayerBytes(layout, pages[g], dtype) * std::ssize(layout.groups[g].layers);
  }
  return bytes;
}

// The cache's views of one block of CacheBytes.
KvCache CutCache(const KvLayout& layout, const std::vector<int64_t>& pages, DType dtype,
                 std::byte* data) {
  size_t layers = 0;
  for (const KvGroup& group : layout.groups) layers += group.layers.size();
  KvCache cache;
  cache.layers.resize(layers);
  for (size_t g = 0; g < pages.size(); ++g) {
    const std::vector<int64_t> shape = PageShape(layout, pages[g]);
    for (int layer : layout.groups[g].layers) {
      ROSE_CHECK(layer >= 0 && layer < static_cast<int>(layers), "layer ", layer, " of ", layers);
      KvLayer& kv = cache.layers[layer];
      kv.group = static_cast<int>(g);
      kv.window = layout.groups[g].window;
      for (Tensor* tensor : {&kv.keys, &kv.values}) {
        *tensor = Tensor(data, dtype, shape);
        data += LayerBytes(layout, pages[g], dtype);
      }
    }
  }
  return cache;
}

// Appends the copy of one page of keys or values.
void AddPage(const Tensor& from, const Tensor& to, const PageCopy& copy,
             std::vector<const void*>& sources, std::vector<void*>& targets) {
  ROSE_CHECK(copy.from >= 0 && copy.from < from.dim(0), "page ", copy.from, " of ", from.dim(0));
  ROSE_CHECK(copy.to >= 0 && copy.to < to.dim(0), "page ", copy.to, " of ", to.dim(0));
  const int64_t bytes = to.bytes() / to.dim(0);
  sources.push_back(static_cast<const std::byte*>(from.raw()) + copy.from * bytes);
  targets.push_back(static_cast<std::byte*>(to.raw()) + copy.to * bytes);
}

}  // namespace

Result<DeviceMemory> CudaOps::AllocateWeight(int64_t bytes) {
  return AllocateDevice(bytes, "the weights", kWeightAdvice);
}

Result<Tensor> CudaOps::ToDevice(const Tensor& host) {
  ROSE_ASSIGN_OR_RETURN(DeviceMemory memory, AllocateWeight(host.bytes()));
  // Page by page through CUDA's own staging: the source is a mapped file.
  CudaCheck(cudaMemcpyAsync(memory.get(), host.raw(), host.bytes(), cudaMemcpyHostToDevice,
                            stream_.get()),
            "uploading weights");
  weights_.push_back(std::move(memory));
  return Tensor(weights_.back().get(), host.dtype(), host.shape());
}

// Experts are packed for their kernels; all else keeps the checkpoint's layout.
Result<Weight> CudaOps::Adopt(const Weight& host) {
  if (host.empty()) return host;
  const size_t raw = weights_.size();
  Weight weight = host;
  ROSE_ASSIGN_OR_RETURN(weight.data, ToDevice(host.data));
  if (!host.scales.empty()) {
    ROSE_ASSIGN_OR_RETURN(weight.scales, ToDevice(host.scales));
  }
  // A bias of experts has two axes.
  return host.shape.size() == 3 ? Pack(weight, raw) : weight;
}

Result<std::vector<Weight>> CudaOps::StartFetch(
    const std::vector<std::unique_ptr<WeightSource>>& sources,
    std::function<void(int64_t)> progress) {
  ROSE_CHECK(upload_ == nullptr, "weights are on their way already");
  ROSE_ASSIGN_OR_RETURN(upload_, WeightUpload::Start(sources, upload_config_, std::move(progress)));
  return upload_->weights();
}

Status CudaOps::FinishFetch() {
  ROSE_CHECK(upload_ != nullptr, "no weights are on their way");
  const std::unique_ptr<WeightUpload> upload = std::move(upload_);
  ROSE_ASSIGN_OR_RETURN(DeviceMemory memory, upload->Finish());
  weights_.push_back(std::move(memory));
  return Status();
}

Result<Weight> CudaOps::Generate(const RandomRecipe& recipe) {
  Weight weight = LayOut(recipe);
  if (!recipe.listed.empty()) {
    std::vector<uint16_t> numbers = recipe.listed;
    weight.data = Tensor(numbers.data(), DType::kBf16, recipe.shape);
    ROSE_ASSIGN_OR_RETURN(Weight adopted, Adopt(weight));
    CudaCheck(cudaStreamSynchronize(stream_.get()), "uploading weights");  // `numbers` goes
    return adopted;
  }
  const size_t raw = weights_.size();
  for (Tensor* tensor : {&weight.data, &weight.scales}) {
    if (tensor->empty()) continue;
    ROSE_ASSIGN_OR_RETURN(DeviceMemory memory, AllocateWeight(tensor->bytes()));
    *tensor = Tensor(memory.get(), tensor->dtype(), tensor->shape());
    weights_.push_back(std::move(memory));
  }
  int64_t numbers = 1;
  for (int64_t size : recipe.shape) numbers *= size;
  const Packing packing = recipe.format.packing;
  LaunchRandomData({recipe.tables, packing, weight.data.raw(), numbers}, stream_.get());
  if (!weight.scales.empty()) {
    LaunchRandomScales({recipe.tables, packing, weight.scales.raw(), weight.scales.elements()},
                       stream_.get());
  }
  return weight.shape.size() == 3 ? Pack(weight, raw) : weight;
}

Result<KvCache> CudaOps::AllocateKv(const KvLayout& layout, const std::vector<int64_t>& pages) {
  graphs_.Clear();  // they hold the addresses of another cache
  const int64_t bytes = CacheBytes(layout, pages, kv_dtype());
  ROSE_ASSIGN_OR_RETURN(DeviceMemory memory,
                        AllocateDevice(bytes, "the KV cache",
                                       "lower --kv-memory or --max-context of a "
                                       "server, users or tokens of a bench"));
  CudaCheck(cudaMemsetAsync(memory.get(), 0, bytes, stream_.get()), "zeroing the KV cache");
  KvCache cache = CutCache(layout, pages, kv_dtype(), memory.get());
  // Waits for kernels that still use it.
  cache.memory.emplace_back(memory.release(), [](void* p) { (void)cudaFree(p); });
  return cache;
}

Result<KvCache> CudaOps::AllocateHostKv(const KvLayout& layout, const std::vector<int64_t>& pages) {
  ROSE_ASSIGN_OR_RETURN(LargePinnedMemory memory,
                        AllocateLargePinned(CacheBytes(layout, pages, kv_dtype()),
                                            "the host tier of the KV cache", "lower --host-cache"));
  KvCache cache = CutCache(layout, pages, kv_dtype(), memory.get());
  cache.memory.emplace_back(memory.release(),
                            [](void* p) { FreeLargePinned()(static_cast<std::byte*>(p)); });
  return cache;
}

void CudaOps::CopyAll(KvCache& from, KvCache& to, const std::vector<PageCopy>& copies) {
  for (const PageCopy& copy : copies) {
    ROSE_CHECK(from.layers.size() == to.layers.size(), "there is no host tier");
    std::vector<const void*> sources;
    std::vector<void*> targets;
    int64_t bytes = 0;
    for (size_t i = 0; i < to.layers.size(); ++i) {
      KvLayer& target = to.layers[i];
      if (target.group != copy.group) continue;
      AddPage(from.layers[i].keys, target.keys, copy, sources, targets);
      AddPage(from.layers[i].values, target.values, copy, sources, targets);
      bytes = target.keys.bytes() / target.keys.dim(0);
    }
    for (size_t i = 0; i < targets.size(); ++i) {
      // The direction follows from the addresses.
      CudaCheck(cudaMemcpyAsync(targets[i], sources[i], bytes, cudaMemcpyDefault, stream_.get()),
                "copying a page");
    }
  }
}

void CudaOps::CopyPages(KvCache& cache, KvCache& host, const PageCopies& copies) {
  const int64_t pages =
      std::ssize(copies.to_host) + std::ssize(copies.to_device) + std::ssize(copies.within);
  if (pages == 0) return;
  const OpScope op(trail_, "copy_pages", {{"pages", pages}});
  CopyAll(cache, host, copies.to_host);
  CopyAll(host, cache, copies.to_device);
  CopyAll(cache, cache, copies.within);
}

}  // namespace rose

// LoadWeights: from the table to weights in host memory.
#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <cstring>
#include <mutex>

#include "base/parallel_for.h"
#include "checkpoint/checkpoint.h"
#include "checkpoint/resolve.h"
#include "checkpoint/safetensors.h"
#include "checkpoint/scales.h"
#include "checkpoint/shards.h"
#include "checkpoint/transpose.h"

namespace rose {
namespace {

struct FreeDeleter {
  void operator()(void* memory) const { std::free(memory); }
};
using Buffer = std::unique_ptr<void, FreeDeleter>;

class LoadedWeights : public HostWeights {
 public:
  const Weight& Get(std::string_view name) const override {
    const auto weight = weights_.find(name);
    ROSE_CHECK(weight != weights_.end(), "no weight '", name, "' in the table");
    return weight->second;
  }

  std::map<std::string, Weight, std::less<>> weights_;
  std::vector<Buffer> buffers_;
};

// Reads one byte of every page, so that the file is in memory when loading is done.
void Touch(const Tensor& view) {
  constexpr int64_t kPage = 4096;
  const volatile uint8_t* bytes = static_cast<const uint8_t*>(view.raw());
  for (int64_t at = 0; at < view.bytes(); at += kPage) (void)bytes[at];
}

// How the rows of a part go to the whole.
struct RowOrder {
  int64_t rows = 0;    // that the part has there
  int64_t stride = 1;  // every so many-th row; woven parts lie between
  int64_t repeat = 1;  // each row of the part so many times; the last perhaps fewer
};

// One piece of work for a reader: a tensor of a part, or one expert of a transposed one.
struct Task {
  std::string source;       // the stored tensor
  Tensor view;              // its bytes in the mapped file, or those of the one expert
  uint8_t* to = nullptr;    // where they go; null = they stay where they are
  bool transposed = false;  // view is [cols, rows]
  bool are_scales = false;  // to be checked
  RowOrder order = {};
};

void CopyRows(const Task& task) {
  const RowOrder& order = task.order;
  const uint8_t* from = static_cast<const uint8_t*>(task.view.raw());
  if (order.stride == 1 && order.repeat == 1) {
    std::memcpy(task.to, from, task.view.bytes());
    return;
  }
  const int64_t bytes = task.view.bytes() / task.view.dim(0);
  for (int64_t row = 0; row < order.rows; ++row)
    std::memcpy(task.to + row * order.stride * bytes, from + row / order.repeat * bytes, bytes);
}

class Loader {
 public:
  Loader(const Checkpoint& checkpoint, const std::function<void(const LoadProgress&)>& progress)
      : checkpoint_(checkpoint), progress_(progress) {}

  // Lays out one weight: a view where the file has it ready, else memory and tasks to fill it.
  Status Plan(const ResolvedWeight& resolved) {
    const WeightFormat& format = resolved.format;
    Weight weight{format, resolved.spec->shape, {}, {}};
    StoredWeight whole = resolved.codec->Describe(resolved.spec->name, resolved.spec->shape);
    if (whole.transposed) std::swap(whole.data.shape[1], whole.data.shape[2]);
    std::vector<Part> data, scales;
    const int64_t repeat = resolved.codec->format().block_rows / format.block_rows;
    for (const StoredWeight& part : resolved.parts) {
      const int64_t rows = part.data.shape[0];
      data.push_back({part.data, {.rows = rows, .stride = resolved.woven}});
      if (!part.scales) continue;
      const int64_t blocks =
          repeat == 1 ? part.scales->shape[0] : (rows + format.block_rows - 1) / format.block_rows;
      scales.push_back(
          {*part.scales, {.rows = blocks, .stride = resolved.woven, .repeat = repeat}});
    }
    const Treatment treatment =
        resolved.parts.front().transposed ? Treatment::kTranspose : Treatment::kAsIs;
    ROSE_ASSIGN_OR_RETURN(weight.data, Place(data, whole.data, treatment));
    if (whole.scales) {
      std::vector<int64_t>& shape = whole.scales->shape;
      const std::vector<int64_t>& values = resolved.spec->shape;
      shape[values.size() - 2] = format.ScaleRows(values[values.size() - 2]);
      ROSE_ASSIGN_OR_RETURN(weight.scales, Place(scales, *whole.scales, Treatment::kScales));
    }
    loaded_->weights_.emplace(resolved.spec->name, std::move(weight));
    return Status();
  }

  Result<std::unique_ptr<HostWeights>> Run(int threads) {
    problems_.resize(tasks_.size());
    ParallelFor(threads, static_cast<int64_t>(tasks_.size()), [this](int64_t i) { Do(i); });
    std::vector<std::string> bad;
    for (const std::string& problem : problems_)
      if (!problem.empty()) bad.push_back(problem);
    if (!bad.empty())
      return InvalidArgument(checkpoint_.folder(), ": scales that are not numbers", NameList(bad));
    return std::unique_ptr<HostWeights>(std::move(loaded_));
  }

 private:
  enum class Treatment { kAsIs, kTranspose, kScales };
  struct Part {
    StoredTensor stored;
    RowOrder order;
  };

  // The tensor `whole`, made of `parts` one after the other, or, where their stride is more, of so
  // many at a time whose rows take turns.
  Result<Tensor> Place(const std::vector<Part>& parts, const StoredTensor& whole,
                       Treatment treatment) {
    const bool transposed = treatment == Treatment::kTranspose;
    const bool are_scales = treatment == Treatment::kScales;
    for (const Part& part : parts) total_bytes_ += StoredBytes(part.stored);
    const std::string& first_name = parts.front().stored.name;
    const Tensor first = checkpoint_.Data(first_name);
    const bool is_aligned =
        reinterpret_cast<uintptr_t>(first.raw()) % ElementBytes(first.dtype()) == 0;
    if (parts.size() == 1 && !transposed && is_aligned) {
      tasks_.push_back({first_name, first, nullptr, false, are_scales});
      return Tensor(first.raw(), whole.dtype, whole.shape);
    }
    constexpr int64_t kAlign = 64;
    const int64_t bytes = (StoredBytes(whole) + kAlign - 1) / kAlign * kAlign;
    Buffer buffer(std::aligned_alloc(kAlign, std::max(bytes, kAlign)));
    if (buffer == nullptr)
      return Unavailable("not enough memory for '", whole.name, "': ", bytes, " bytes");
    uint8_t* to = static_cast<uint8_t*>(buffer.get());
    for (size_t i = 0; i < parts.size(); ++i) {
      const auto& [stored, order] = parts[i];
      const Tensor view = checkpoint_.Data(stored.name);
      if (transposed) {
        PlaceExperts(stored.name, view, to);
        continue;
      }
      const int64_t row_bytes = view.bytes() / view.dim(0);
      const int64_t turn = static_cast<int64_t>(i) % order.stride;
      tasks_.push_back({stored.name, view, to + turn * row_bytes, false, are_scales, order});
      if (turn + 1 == order.stride) to += order.rows * order.stride * row_bytes;
    }
    Tensor placed(buffer.get(), whole.dtype, whole.shape);
    loaded_->buffers_.push_back(std::move(buffer));
    return placed;
  }

  void PlaceExperts(const std::string& name, const Tensor& view, uint8_t* to) {
    const int64_t bytes = view.bytes() / view.dim(0);
    for (int64_t expert = 0; expert < view.dim(0); ++expert) {
      uint8_t* from = static_cast<uint8_t*>(view.raw()) + expert * bytes;
      tasks_.push_back({name, Tensor(from, view.dtype(), {view.dim(1), view.dim(2)}),
                        to + expert * bytes, true, false});
    }
  }

  void Do(int64_t index) {
    const Task& task = tasks_[index];
    if (task.to == nullptr) {
      Touch(task.view);
    } else if (task.transposed) {
      TransposePairs(static_cast<const uint8_t*>(task.view.raw()), task.view.dim(0),
                     task.view.dim(1), task.to);
    } else {
      CopyRows(task);
    }
    if (task.are_scales) problems_[index] = FindBadScale(task.source, task.view);
    done_bytes_ += task.view.bytes();
    if (progress_) progress_({done_bytes_, total_bytes_});
  }

  const Checkpoint& checkpoint_;
  const std::function<void(const LoadProgress&)>& progress_;
  std::unique_ptr<LoadedWeights> loaded_ = std::make_unique<LoadedWeights>();
  std::vector<Task> tasks_;
  std::vector<std::string> problems_;  // by task; each reader writes those of its tasks
  std::atomic<int64_t> done_bytes_{0};
  int64_t total_bytes_ = 0;
};

}  // namespace

Result<std::unique_ptr<HostWeights>> LoadWeights(
    const Checkpoint& checkpoint, const std::vector<TensorSpec>& table, int threads,
    const std::function<void(const LoadProgress&)>& progress) {
  const Resolution resolution = ResolveTable(checkpoint, table);
  ROSE_RETURN_IF_ERROR(resolution.ToStatus(checkpoint.folder()));
  Loader loader(checkpoint, progress);
  for (const ResolvedWeight& weight : resolution.weights) ROSE_RETURN_IF_ERROR(loader.Plan(weight));
  return loader.Run(threads);
}

}  // namespace rose

// LoadWeights: from the table to weights in host memory.
#include <algorithm>
#include <atomic>
#include <cstdlib>

#include "base/parallel_for.h"
#include "checkpoint/checkpoint.h"
#include "checkpoint/resolve.h"
#include "checkpoint/scales.h"
#include "checkpoint/weight_layout.h"

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

// One piece of work for a reader: what one stored tensor has of a weight.
struct Task {
  Segment segment;
  uint8_t* whole = nullptr;  // where the weight begins; null = its bytes stay where they are
  bool are_scales = false;   // to be checked
};

class Loader {
 public:
  Loader(const Checkpoint& checkpoint, const std::function<void(const LoadProgress&)>& progress)
      : checkpoint_(checkpoint), progress_(progress) {}

  // Lays out one weight: a view where the file has it ready, else memory and tasks to fill it.
  Status Plan(const ResolvedWeight& resolved) {
    WeightLayout layout = LayOutWeight(checkpoint_, resolved);
    const std::string& name = resolved.spec->name;
    ROSE_RETURN_IF_ERROR(Place(name, layout.data, /*are_scales=*/false, layout.weight.data));
    ROSE_RETURN_IF_ERROR(Place(name, layout.scales, /*are_scales=*/true, layout.weight.scales));
    loaded_->weights_.emplace(name, std::move(layout.weight));
    return Status();
  }

  Result<std::unique_ptr<HostWeights>> Run(int threads) {
    problems_.resize(tasks_.size());
    ParallelFor(threads, static_cast<int64_t>(tasks_.size()), [this](int64_t i) { Do(i); });
    std::vector<std::string> bad;
    for (const std::string& problem : problems_)
      if (!problem.empty()) bad.push_back(problem);
    if (!bad.empty()) return BadScales(checkpoint_.folder(), bad);
    return std::unique_ptr<HostWeights>(std::move(loaded_));
  }

 private:
  // Gives `whole`, which has types and shapes, an address.
  Status Place(const std::string& name, std::vector<Segment>& segments, bool are_scales,
               Tensor& whole) {
    if (segments.empty()) return Status();
    for (const Segment& segment : segments) total_bytes_ += segment.view.bytes();
    const Segment& first = segments.front();
    const bool is_aligned =
        reinterpret_cast<uintptr_t>(first.view.raw()) % ElementBytes(whole.dtype()) == 0;
    if (segments.size() == 1 && first.is_plain() && is_aligned) {
      whole = Tensor(first.view.raw(), whole.dtype(), whole.shape());
      tasks_.push_back({std::move(segments.front()), nullptr, are_scales});
      return Status();
    }
    constexpr int64_t kAlign = 64;
    const int64_t bytes = (whole.bytes() + kAlign - 1) / kAlign * kAlign;
    Buffer buffer(std::aligned_alloc(kAlign, std::max(bytes, kAlign)));
    if (buffer == nullptr)
      return Unavailable("not enough memory for '", name, "': ", bytes, " bytes");
    whole = Tensor(buffer.get(), whole.dtype(), whole.shape());
    for (Segment& segment : segments)
      tasks_.push_back({std::move(segment), static_cast<uint8_t*>(buffer.get()), are_scales});
    loaded_->buffers_.push_back(std::move(buffer));
    return Status();
  }

  void Do(int64_t index) {
    const Task& task = tasks_[index];
    const Segment& segment = task.segment;
    if (task.whole == nullptr) {
      Touch(segment.view);
    } else {
      CopySegment(segment, segment.to,
                  {task.whole + segment.to, static_cast<size_t>(segment.end() - segment.to)});
    }
    if (task.are_scales) problems_[index] = FindBadScale(segment.source, segment.view);
    done_bytes_ += segment.view.bytes();
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

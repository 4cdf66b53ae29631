#include "ops/cuda/step_upload.h"

#include <algorithm>
#include <cstring>

#include "base/check.h"
#include "device/cuda_check.h"

namespace rose {
namespace {

constexpr int64_t kAlign = 16;
constexpr int64_t kFirstBytes = int64_t{1} << 20;

// Hands out parts of a block of host memory and their addresses on the device.
class Cutter {
 public:
  Cutter(std::byte* host, const std::byte* device) : host_(host), device_(device) {}

  // Room for n values; `at_device` is where kernels will find them.
  template <typename T>
  T* Cut(int64_t n, const T*& at_device) {
    T* here = reinterpret_cast<T*>(host_ + used_);
    at_device = reinterpret_cast<const T*>(device_ + used_);
    used_ += (n * static_cast<int64_t>(sizeof(T)) + kAlign - 1) / kAlign * kAlign;
    return here;
  }
  int64_t used() const { return used_; }

 private:
  std::byte* host_;
  const std::byte* device_;
  int64_t used_ = 0;
};

int64_t PagesOf(const Step& step) {
  int64_t pages = 0;
  for (const StepSeq& seq : step.seqs) {
    for (const auto& table : seq.pages) pages += std::ssize(table);
  }
  return pages;
}

}  // namespace

StepUpload::StepUpload(cudaStream_t stream) : stream_(stream) {
  for (Staging& staging : staging_) {
    CudaCheck(cudaEventCreateWithFlags(&staging.copied, cudaEventDisableTiming),
              "creating an event");
  }
}

StepUpload::~StepUpload() {
  for (Staging& staging : staging_) (void)cudaEventDestroy(staging.copied);
}

void StepUpload::Grow(int64_t bytes) {
  if (bytes <= capacity_) return;
  // Kernels in flight read the old block.
  CudaCheck(cudaStreamSynchronize(stream_), "waiting for the step before");
  capacity_ = std::max({bytes, kFirstBytes, 2 * capacity_});
  constexpr std::string_view kAdvice = "lower --max-step-tokens";
  for (Staging& staging : staging_) {
    staging.data = ValueOrThrow(AllocatePinned(capacity_, "a step's inputs", kAdvice));
  }
  device_ = ValueOrThrow(AllocateDevice(capacity_, "a step's inputs", kAdvice));
}

void StepUpload::Upload(const Step& step) {
  const int64_t rows = std::ssize(step.tokens);
  const int64_t seqs = std::ssize(step.seqs);
  const int64_t logit_rows = std::ssize(step.logit_rows);
  const int64_t pages = PagesOf(step);
  Grow((3 * rows + logit_rows + pages) * static_cast<int64_t>(sizeof(int32_t)) +
       seqs * static_cast<int64_t>(sizeof(DeviceSeq)) + 8 * kAlign);

  Staging& staging = staging_[next_];
  next_ = 1 - next_;
  CudaCheck(cudaEventSynchronize(staging.copied), "waiting for an upload");
  Cutter cutter(staging.data.get(), device_.get());
  on_device_ = {.rows = rows, .seq_count = seqs, .logit_row_count = logit_rows};
  std::copy_n(step.tokens.data(), rows, cutter.Cut(rows, on_device_.tokens));
  std::copy_n(step.positions.data(), std::ssize(step.positions),
              cutter.Cut(rows, on_device_.positions));
  int32_t* row_seq = cutter.Cut(rows, on_device_.row_seq);
  std::copy_n(step.logit_rows.data(), logit_rows, cutter.Cut(logit_rows, on_device_.logit_rows));
  DeviceSeq* seq_out = cutter.Cut(seqs, on_device_.seqs);
  int32_t* page_out = cutter.Cut(pages, on_device_.pages);
  int32_t page_count = 0;
  for (int64_t s = 0; s < seqs; ++s) {
    const StepSeq& seq = step.seqs[s];
    ROSE_CHECK_LE(std::ssize(seq.pages), kMaxKvGroups);
    ROSE_CHECK(seq.first_row >= 0 && seq.first_row + seq.rows <= rows, "sequence ", s, ": ",
               seq.first_row, " + ", seq.rows, " of ", rows);
    DeviceSeq& out = seq_out[s];
    out = {.first_row = static_cast<int32_t>(seq.first_row),
           .rows = static_cast<int32_t>(seq.rows),
           .start = static_cast<int32_t>(seq.start)};
    for (size_t g = 0; g < seq.pages.size(); ++g) {
      out.pages_at[g] = page_count;
      std::copy(seq.pages[g].begin(), seq.pages[g].end(), page_out + page_count);
      page_count += static_cast<int32_t>(seq.pages[g].size());
    }
    std::fill_n(row_seq + seq.first_row, seq.rows, static_cast<int32_t>(s));
  }
  CudaCheck(cudaMemcpyAsync(device_.get(), staging.data.get(), cutter.used(),
                            cudaMemcpyHostToDevice, stream_),
            "uploading a step");
  CudaCheck(cudaEventRecord(staging.copied, stream_), "marking an upload");
}

}  // namespace rose

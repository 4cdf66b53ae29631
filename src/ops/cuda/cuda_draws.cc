#include "ops/cuda/cuda_draws.h"

#include <algorithm>
#include <cstring>

#include "base/check.h"
#include "device/cuda_check.h"

namespace rose {
namespace {

constexpr std::string_view kAdvice = "lower --max-running";
constexpr int64_t kAlign = 16;
constexpr int64_t kFirstDraws = 64;

int64_t Aligned(int64_t bytes) {
  return (bytes + kAlign - 1) / kAlign * kAlign;
}

template <typename T>
int64_t BytesOf(int64_t n) {
  return Aligned(n * static_cast<int64_t>(sizeof(T)));
}

// Makes `memory` at least `bytes` long. Freeing device memory waits for its users.
void Grow(DeviceMemory& memory, int64_t& capacity, int64_t bytes) {
  if (bytes <= capacity) return;
  capacity = std::max(bytes, 2 * capacity);
  memory = AllocateDevice(capacity, "drawing tokens", kAdvice).value();
}

}  // namespace

CudaDraws::CudaDraws(cudaStream_t stream, OpTrail& trail) : stream_(stream), trail_(trail) {
  for (Slot& slot : slots_) {
    for (cudaEvent_t* event : {&slot.done, &slot.fed_copied}) {
      CudaCheck(cudaEventCreateWithFlags(event, cudaEventDisableTiming), "creating an event");
    }
  }
}

CudaDraws::~CudaDraws() {
  for (Slot& slot : slots_) {
    (void)cudaEventDestroy(slot.done);
    (void)cudaEventDestroy(slot.fed_copied);
  }
}

void CudaDraws::Reserve(Slot& slot, int64_t input_bytes, int64_t draws) {
  if (input_bytes > slot.input_bytes) {
    slot.input_bytes = std::max(input_bytes, 2 * slot.input_bytes);
    slot.inputs = AllocatePinned(slot.input_bytes, "draws", kAdvice).value();
    slot.on_device = AllocateDevice(slot.input_bytes, "draws", kAdvice).value();
  }
  if (draws > slot.token_count) {
    slot.token_count = std::max({draws, kFirstDraws, 2 * slot.token_count});
    const int64_t bytes = BytesOf<int32_t>(slot.token_count);
    slot.tokens = AllocatePinned(bytes, "draws", kAdvice).value();
    slot.drawn = AllocateDevice(bytes, "draws", kAdvice).value();
  }
}

void CudaDraws::Draw(const Tensor& logits, std::span<const DrawSpec> draws) {
  ROSE_CHECK_LT(submitted_ - waited_, std::ssize(slots_));
  Slot& slot = slots_[submitted_++ % slots_.size()];
  const int64_t vocab = logits.dim(1);
  int64_t edits = 0, masks = 0, mask_words = 0, edited = 0;
  for (const DrawSpec& draw : draws) {
    edits += std::ssize(draw.edits);
    masks += draw.mask.empty() ? 0 : 1;
    edited += draw.mask.empty() && draw.edits.empty() ? 0 : 1;
    mask_words = std::max<int64_t>(mask_words, std::ssize(draw.mask));
  }
  const int64_t count = std::ssize(draws);
  const OpScope op(trail_, "draw", {{"draws", count}, {"vocab", vocab}});
  const int64_t edits_at = BytesOf<DrawRow>(count);
  const int64_t masks_at = edits_at + BytesOf<LogitEdit>(edits);
  const int64_t input_bytes = masks_at + BytesOf<uint32_t>(masks * mask_words);
  Reserve(slot, std::max(input_bytes, kAlign), count);
  slot.draws = count;

  auto* rows_out = reinterpret_cast<DrawRow*>(slot.inputs.get());
  auto* edits_out = reinterpret_cast<LogitEdit*>(slot.inputs.get() + edits_at);
  auto* masks_out = reinterpret_cast<uint32_t*>(slot.inputs.get() + masks_at);
  int32_t edit = 0, mask_row = 0, edited_row = 0;
  bool any_random = false, any_top_k = false, any_top_p = false;
  for (int64_t i = 0; i < count; ++i) {
    const DrawSpec& draw = draws[i];
    DrawRow row{.rule = draw.rule, .logits_row = static_cast<int32_t>(draw.row)};
    row.first_edit = edit;
    row.edits = static_cast<int32_t>(draw.edits.size());
    std::copy(draw.edits.begin(), draw.edits.end(), edits_out + edit);
    edit += row.edits;
    if (!draw.mask.empty()) {
      row.mask_row = mask_row++;
      uint32_t* out = masks_out + row.mask_row * mask_words;
      std::fill(std::copy(draw.mask.begin(), draw.mask.end(), out), out + mask_words, 0u);
    }
    if (row.mask_row >= 0 || row.edits > 0) row.edited_row = edited_row++;
    rows_out[i] = row;
    const bool is_random = draw.rule.inverse_temperature != 0;
    any_random |= is_random;
    any_top_k |= is_random && draw.rule.top_k > 0;
    any_top_p |= is_random && draw.rule.top_p < 1;
  }
  Grow(workspace_, workspace_bytes_, DrawWorkspaceBytes(count));
  Grow(edited_, edited_bytes_, edited * vocab * static_cast<int64_t>(sizeof(float)));

  CudaCheck(cudaMemcpyAsync(slot.on_device.get(), slot.inputs.get(), input_bytes,
                            cudaMemcpyHostToDevice, stream_),
            "uploading draws");
  LaunchDraw({.logits = logits.data<float>(),
              .vocab = vocab,
              .rows = reinterpret_cast<const DrawRow*>(slot.on_device.get()),
              .draws = count,
              .any_random = any_random,
              .any_top_k = any_top_k,
              .any_top_p = any_top_p,
              .edits = reinterpret_cast<const LogitEdit*>(slot.on_device.get() + edits_at),
              .masks = reinterpret_cast<const uint32_t*>(slot.on_device.get() + masks_at),
              .mask_words = mask_words,
              .edited = edited > 0 ? reinterpret_cast<float*>(edited_.get()) : nullptr,
              .workspace = workspace_.get(),
              .tokens = reinterpret_cast<int32_t*>(slot.drawn.get())},
             stream_);
  CudaCheck(cudaMemcpyAsync(slot.tokens.get(), slot.drawn.get(), count * sizeof(int32_t),
                            cudaMemcpyDeviceToHost, stream_),
            "copying draws to the host");
  CudaCheck(cudaEventRecord(slot.done, stream_), "marking draws");
  slot.done_ops = trail_.position();
}

std::span<const int32_t> CudaDraws::Wait() {
  ROSE_CHECK_GT(submitted_, waited_);
  const Slot& slot = slots_[waited_++ % slots_.size()];
  trail_.Wait(slot.done, "waiting for a step");
  trail_.Finished(slot.done_ops);
  return {reinterpret_cast<const int32_t*>(slot.tokens.get()), static_cast<size_t>(slot.draws)};
}

void CudaDraws::Feed(std::span<const FedRow> fed, int32_t* tokens) {
  if (fed.empty()) return;
  ROSE_CHECK_GT(submitted_, 0);
  Slot& slot = slots_[(submitted_ - 1) % slots_.size()];
  const int64_t count = std::ssize(fed);
  const OpScope op(trail_, "feed_tokens", {{"tokens", count}});
  CudaCheck(cudaEventSynchronize(slot.fed_copied), "waiting for an upload");
  if (count > slot.fed_count) {
    slot.fed_count = std::max({count, kFirstDraws, 2 * slot.fed_count});
    const int64_t bytes = BytesOf<FedToken>(slot.fed_count);
    slot.fed = AllocatePinned(bytes, "draws", kAdvice).value();
    slot.fed_on_device = AllocateDevice(bytes, "draws", kAdvice).value();
  }
  auto* out = reinterpret_cast<FedToken*>(slot.fed.get());
  for (const FedRow& row : fed) {
    ROSE_CHECK(row.draw >= 0 && row.draw < slot.draws, "draw ", row.draw, " of ", slot.draws);
    *out++ = {.row = static_cast<int32_t>(row.row), .draw = static_cast<int32_t>(row.draw)};
  }
  CudaCheck(cudaMemcpyAsync(slot.fed_on_device.get(), slot.fed.get(), count * sizeof(FedToken),
                            cudaMemcpyHostToDevice, stream_),
            "uploading fed tokens");
  CudaCheck(cudaEventRecord(slot.fed_copied, stream_), "marking an upload");
  LaunchFeedTokens({.fed = reinterpret_cast<const FedToken*>(slot.fed_on_device.get()),
                    .count = count,
                    .drawn = reinterpret_cast<const int32_t*>(slot.drawn.get()),
                    .tokens = tokens},
                   stream_);
}

}  // namespace rose

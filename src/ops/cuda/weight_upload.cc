#include "ops/cuda/weight_upload.h"

#include <algorithm>
#include <array>
#include <utility>

#include "base/read_ahead.h"
#include "device/align.h"
#include "device/cuda_check.h"
#include "ops/cuda/expert_stack.h"

namespace rose {
namespace {

constexpr int kPlaces = 2;

bool IsStack(const Weight& weight) {
  return weight.shape.size() == 3;  // a bias of experts has two axes
}

// How many experts of a stack are copied and packed at a time, and where their scales are.
struct Batch {
  int64_t experts = 0;
  int64_t data_bytes = 0, scale_bytes = 0;  // of one expert
  int64_t scales_at() const { return AlignOnDevice(experts * data_bytes); }
  int64_t bytes() const { return scales_at() + AlignOnDevice(experts * scale_bytes); }
};

Batch BatchOf(const Weight& stack, int64_t most_bytes) {
  const int64_t experts = stack.shape[0];
  Batch batch{.data_bytes = stack.data.bytes() / experts,
              .scale_bytes = stack.scales.bytes() / experts};
  const int64_t most =
      std::clamp<int64_t>(most_bytes / (batch.data_bytes + batch.scale_bytes), 1, experts);
  const int64_t batches = (experts + most - 1) / most;
  batch.experts = (experts + batches - 1) / batches;  // about even
  return batch;
}

}  // namespace

Result<std::unique_ptr<WeightUpload>> WeightUpload::Start(
    const std::vector<std::unique_ptr<WeightSource>>& sources, const UploadConfig& config,
    std::function<void(int64_t)> progress) {
  std::unique_ptr<WeightUpload> upload(new WeightUpload(config, std::move(progress)));
  ROSE_RETURN_IF_ERROR(upload->Plan(sources));
  upload->run_ = std::async(std::launch::async, [u = upload.get()] { return u->Run(); });
  return upload;
}

WeightUpload::~WeightUpload() {
  is_ending_ = true;
  if (run_.valid()) run_.wait();
}

Result<DeviceMemory> WeightUpload::Finish() {
  ROSE_RETURN_IF_ERROR(run_.get());
  return std::move(memory_);
}

// Lays the weights out, one behind the other in one block, and lists the pieces.
Status WeightUpload::Plan(const std::vector<std::unique_ptr<WeightSource>>& sources) {
  std::vector<int64_t> sizes;  // of each weight on the device
  for (const auto& source : sources) {
    const Weight& weight = source->weight();
    if (!IsStack(weight)) {
      sizes.push_back(AlignOnDevice(weight.data.bytes()) + AlignOnDevice(weight.scales.bytes()));
      continue;
    }
    ROSE_ASSIGN_OR_RETURN(const PackedExperts packed, PackedShapeOf(weight));
    sizes.push_back(AlignOnDevice(PackedExpertsBytes(packed)));
    place_bytes_ = std::max(place_bytes_, BatchOf(weight, config_.batch_bytes).bytes());
    packed_.push_back(source.get());
  }
  int64_t total = 0;
  for (int64_t size : sizes) total += size;
  ROSE_ASSIGN_OR_RETURN(memory_, AllocateDevice(total, "the weights", kWeightAdvice));
  ROSE_ASSIGN_OR_RETURN(
      places_, AllocateDevice(kPlaces * place_bytes_, "experts to be packed", kWeightAdvice));
  const int64_t scale_bytes = std::ssize(packed_) * static_cast<int64_t>(sizeof(int32_t));
  ROSE_ASSIGN_OR_RETURN(largest_scales_, AllocateDevice(scale_bytes, "scales", kWeightAdvice));
  CudaCheck(cudaMemsetAsync(memory_.get(), 0, total, copies_.get()), "zeroing weights");
  CudaCheck(cudaMemsetAsync(largest_scales_.get(), 0, scale_bytes, copies_.get()),
            "zeroing scales");
  CudaCheck(cudaStreamSynchronize(copies_.get()), "zeroing weights");
  std::byte* to = memory_.get();
  auto* largest_scale = reinterpret_cast<int32_t*>(largest_scales_.get());
  for (size_t i = 0; i < sources.size(); to += sizes[i], ++i) {
    const WeightSource& source = *sources[i];
    Weight weight = source.weight();
    if (IsStack(weight)) {
      AddStacks(source, to, largest_scale++);
      weight.data = Tensor(to, DType::kU8, {PackedExpertsBytes(PackedShapeOf(weight).value())});
      weight.scales = {};
    } else {
      const int64_t data_bytes = weight.data.bytes(), scale_bytes = weight.scales.bytes();
      AddPieces(source, WeightPart::kData, 0, data_bytes, to);
      weight.data = Tensor(to, weight.data.dtype(), weight.data.shape());
      std::byte* scales = to + AlignOnDevice(data_bytes);
      AddPieces(source, WeightPart::kScales, 0, scale_bytes, scales);
      if (!weight.scales.empty()) {
        weight.scales = Tensor(scales, weight.scales.dtype(), weight.scales.shape());
      }
    }
    weights_.push_back(std::move(weight));
  }
  return Status();
}

void WeightUpload::AddPieces(const WeightSource& source, WeightPart part, int64_t begin,
                             int64_t end, std::byte* to) {
  for (int64_t at = begin; at < end; at += config_.piece_bytes) {
    pieces_.push_back({.source = &source,
                       .part = part,
                       .begin = at,
                       .bytes = std::min(config_.piece_bytes, end - at),
                       .to = to + (at - begin)});
  }
}

void WeightUpload::AddStacks(const WeightSource& source, std::byte* packed,
                             int32_t* largest_scale) {
  const Weight& weight = source.weight();
  const Batch batch = BatchOf(weight, config_.batch_bytes);
  PackedExperts shape = PackedShapeOf(weight).value();
  const int64_t experts = weight.shape[0];
  const int64_t packed_bytes = PackedExpertsBytes(shape) / experts;
  for (int64_t first = 0; first < experts; first += batch.experts) {
    const int64_t count = std::min(batch.experts, experts - first);
    const int stack = static_cast<int>(stacks_.size());
    const int place = stack % kPlaces;
    std::byte* data = places_.get() + place * place_bytes_;
    std::byte* scales = data + batch.scales_at();
    const size_t piece = pieces_.size();
    AddPieces(source, WeightPart::kData, first * batch.data_bytes,
              (first + count) * batch.data_bytes, data);
    AddPieces(source, WeightPart::kScales, first * batch.scale_bytes,
              (first + count) * batch.scale_bytes, scales);
    ROSE_CHECK_GT(pieces_.size(), piece);
    pieces_[piece].first_of = stack;
    pieces_.back().last_of = stack;
    shape.experts = static_cast<int>(count);
    stacks_.push_back({.pack = {.shape = shape,
                                .data = data,
                                .scales = batch.scale_bytes > 0 ? scales : nullptr,
                                .woven_scales = weight.format.woven == 2,
                                .out = reinterpret_cast<uint8_t*>(packed + first * packed_bytes),
                                .largest_scale = largest_scale},
                       .place = place});
  }
}

Status WeightUpload::Run() {
  ROSE_CHECK(config_.pieces > 0 && config_.piece_bytes > 0 && config_.piece_bytes % 4 == 0,
             "pieces=", config_.pieces, " of ", config_.piece_bytes);
  ROSE_ASSIGN_OR_RETURN(const LargePinnedMemory ring,
                        AllocateLargePinned(config_.pieces * config_.piece_bytes, "loading",
                                            "free some of the host's memory"));
  const Status status = CopyPieces(ring.get());
  // What is enqueued uses the ring.
  CudaCheck(cudaStreamSynchronize(copies_.get()), "uploading weights");
  CudaCheck(cudaStreamSynchronize(packs_.get()), "packing experts");
  places_.reset();
  ROSE_RETURN_IF_ERROR(status);
  return CheckScales();
}

Status WeightUpload::CopyPieces(std::byte* ring) {
  std::vector<std::byte*> buffers;
  for (int i = 0; i < config_.pieces; ++i) buffers.push_back(ring + i * config_.piece_bytes);
  std::vector<Event> copied(config_.pieces);
  std::array<Event, kPlaces> packed;
  ReadAhead pieces(buffers, std::ssize(pieces_), config_.readers,
                   [this](int64_t i, std::byte* buffer) {
                     const Piece& piece = pieces_[i];
                     return piece.source->Read(
                         piece.part, piece.begin,
                         {reinterpret_cast<uint8_t*>(buffer), static_cast<size_t>(piece.bytes)});
                   });
  // Copies that may be queued while the others of the ring are read.
  const int64_t queued = std::max(1, config_.pieces / 4);
  int64_t done = 0;
  for (int64_t i = 0; i < std::ssize(pieces_) && !is_ending_; ++i) {
    if (i >= queued) {
      copied[(i - queued) % config_.pieces].Wait();
      pieces.Release();
    }
    const Piece& piece = pieces_[i];
    ROSE_ASSIGN_OR_RETURN(const std::byte* buffer, pieces.Next());
    if (piece.first_of >= 0) packed[stacks_[piece.first_of].place].HoldBack(copies_);
    CudaCheck(cudaMemcpyAsync(piece.to, buffer, piece.bytes, cudaMemcpyHostToDevice, copies_.get()),
              "uploading weights");
    Event& is_copied = copied[i % config_.pieces];
    is_copied.Record(copies_);
    if (piece.last_of >= 0) {
      const Stack& stack = stacks_[piece.last_of];
      is_copied.HoldBack(packs_);
      LaunchPackExperts(stack.pack, packs_.get());
      packed[stack.place].Record(packs_);
    }
    done += piece.bytes;
    if (progress_) progress_(done);
  }
  return Status();
}

Status WeightUpload::CheckScales() {
  std::vector<int32_t> largest(packed_.size());
  CudaCheck(cudaMemcpyAsync(largest.data(), largest_scales_.get(), largest.size() * sizeof(int32_t),
                            cudaMemcpyDeviceToHost, packs_.get()),
            "packing experts");
  CudaCheck(cudaStreamSynchronize(packs_.get()), "packing experts");
  for (size_t i = 0; i < packed_.size(); ++i) {
    const Status status = CheckLargestScale(packed_[i]->weight().format, largest[i]);
    if (!status.ok()) {
      return Status(status.code(), StrCat(packed_[i]->name(), ": ", status.message()));
    }
  }
  return Status();
}

}  // namespace rose

// WeightUpload: weights from their files to the device, through page-locked memory.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <future>
#include <memory>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "device/memory.h"
#include "device/stream.h"
#include "kernels/experts/experts.h"
#include "ops/cuda/cuda_ops.h"
#include "tensor/weight_source.h"

namespace rose {

// What to change where weights do not fit.
inline constexpr std::string_view kWeightAdvice =
    "a model of fewer parameters, or a format of fewer bits, is needed";

// Readers fill a ring of page-locked pieces (base/read_ahead.h), and one thread enqueues their
// copies in order. Stacks of experts go some experts at a time to one of two places on the device
// and from there, packed, to where they stay, while the next ones are copied. So neither host nor
// device needs memory beside the weights that grows with the model.
class WeightUpload {
 public:
  // Takes memory for all weights of `sources`, which must outlive the upload, fills it with zeros,
  // and starts. `progress`, which may be empty, is called from a thread with the bytes that are
  // done. kUnavailable if there is no memory, kUnsupported for experts in a form that no kernel
  // takes.
  static Result<std::unique_ptr<WeightUpload>> Start(
      const std::vector<std::unique_ptr<WeightSource>>& sources, const UploadConfig& config,
      std::function<void(int64_t)> progress);
  // Ends the upload early.
  ~WeightUpload();
  WeightUpload(const WeightUpload&) = delete;
  WeightUpload& operator=(const WeightUpload&) = delete;

  // Where the weights will be, in the order of the sources.
  const std::vector<Weight>& weights() const { return weights_; }

  // Waits until they are there, and hands their memory over. Fails as WeightSource::Read does, and
  // with kUnsupported where experts hold scales that the kernels cannot take.
  Result<DeviceMemory> Finish();

 private:
  // Bytes of a source that are read and copied at once.
  struct Piece {
    const WeightSource* source = nullptr;
    WeightPart part = WeightPart::kData;
    int64_t begin = 0, bytes = 0;
    std::byte* to = nullptr;
    int first_of = -1, last_of = -1;  // of stacks_: the copy waits for its place; it can be packed
  };
  // Some experts of a weight, on their way.
  struct Stack {
    PackExpertsParams pack;
    int place = 0;
  };

  WeightUpload(const UploadConfig& config, std::function<void(int64_t)> progress)
      : config_(config), progress_(std::move(progress)) {}
  Status Plan(const std::vector<std::unique_ptr<WeightSource>>& sources);
  void AddPieces(const WeightSource& source, WeightPart part, int64_t begin, int64_t end,
                 std::byte* to);
  void AddStacks(const WeightSource& source, std::byte* packed, int32_t* largest_scale);
  Status Run();
  Status CopyPieces(std::byte* ring);
  Status CheckScales();

  const UploadConfig config_;
  const std::function<void(int64_t)> progress_;
  DeviceMemory memory_;
  std::vector<Weight> weights_;
  std::vector<Piece> pieces_;
  std::vector<Stack> stacks_;
  int64_t place_bytes_ = 0;  // of one place of experts that are not packed yet
  DeviceMemory places_;      // two
  std::vector<const WeightSource*> packed_;
  DeviceMemory largest_scales_;  // [packed_], I32
  Stream copies_, packs_;
  std::atomic<bool> is_ending_{false};
  std::future<Status> run_;
};

}  // namespace rose

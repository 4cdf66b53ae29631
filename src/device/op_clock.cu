#include <utility>

#include "device/cuda_check.h"
#include "device/op_clock.h"

namespace rose {
namespace {

constexpr int kFirstEvents = 4096;  // made at once, since making one takes as long as a launch

}  // namespace

OpClock::OpClock(cudaStream_t stream) : stream_(stream) {
  for (int i = 0; i < kFirstEvents; ++i) free_.push_back(NewEvent());
}

OpClock::~OpClock() {
  for (cudaEvent_t event : events_) (void)cudaEventDestroy(event);
}

cudaEvent_t OpClock::NewEvent() {
  cudaEvent_t event = nullptr;
  CudaCheck(cudaEventCreate(&event), "creating an event");
  events_.push_back(event);
  return event;
}

void OpClock::Mark(const OpRecord& op, int64_t position) {
  if (free_.empty()) free_.push_back(NewEvent());
  OpMark mark{.event = free_.back(), .op = op, .is_recorded = false, .position = position};
  free_.pop_back();
  cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
  CudaCheck(cudaStreamIsCapturing(stream_, &status), "asking for the state of a stream");
  mark.is_recorded = status == cudaStreamCaptureStatusActive;
  CudaCheck(
      cudaEventRecordWithFlags(mark.event, stream_,
                               mark.is_recorded ? cudaEventRecordExternal : cudaEventRecordDefault),
      "marking an op");
  if (mark.is_recorded) {
    recorded_.push_back(mark);
  } else {
    passed_.push_back(mark);
  }
}

std::vector<OpMark> OpClock::TakeRecorded() {
  return std::exchange(recorded_, {});
}

void OpClock::Replayed(std::span<const OpMark> marks, int64_t position) {
  for (const OpMark& mark : marks) {
    passed_.push_back(mark);
    passed_.back().position = position;
  }
}

void OpClock::Read(int64_t position) {
  while (!passed_.empty() && passed_.front().position < position) {
    const OpMark mark = passed_.front();
    passed_.pop_front();
    if (last_.event != nullptr) {
      float ms = 0;
      CudaCheck(cudaEventElapsedTime(&ms, last_.event, mark.event), "reading a mark");
      times_.push_back({last_.op, 1000.0 * ms});
      if (!last_.is_recorded) free_.push_back(last_.event);
    }
    last_ = mark;
  }
}

std::vector<TimedOp> OpClock::Take() {
  return std::exchange(times_, {});
}

}  // namespace rose

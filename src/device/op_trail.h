// OpTrail: what a stream was asked for, op by op. A kernel's fault shows only at a later call that
// waits, so whoever fails then looks here for the op, and its shapes, that it may come from.
//
// Every op is also an NVTX range, for profilers; without one that costs a test of a pointer.
#pragma once

#include <cuda_runtime_api.h>

#include <atomic>
#include <cstdint>
#include <initializer_list>
#include <memory>
#include <mutex>
#include <source_location>
#include <string>
#include <string_view>
#include <vector>

#include "device/op_clock.h"
#include "device/op_record.h"
#include "device/progress_mark.h"

namespace rose {

struct OpTrailOptions {
  // Waits for every op before the next is enqueued, so that a fault is its op's. Not for streams
  // that are being recorded.
  bool is_sync = false;
  // Where kernels leave the marks of NewMark; null = they leave none.
  volatile int32_t* progress = nullptr;
  // "gemm:3": the third gemm has a kernel beside it that writes where it may not; "gemm:3:hang":
  // one that never ends. For tests of what happens then. Empty = none.
  std::string fault_at;
};

// What a graph has of ops.
struct RecordedOps {
  std::vector<OpRecord> ops;
  std::vector<OpMark> marks;
};

// Signs that the device comes on, while a thread may be waiting for it.
struct DevicePulse {
  bool is_called = false;  // a thread is in a call that may wait for the device
  int64_t calls = 0;       // that were begun so far
  int32_t mark = 0;        // that kernels left last

  bool operator==(const DevicePulse&) const = default;
};

// Used by one thread at a time, but what says otherwise. Keeps the last kRecords ops and allocates
// nothing while it runs.
class OpTrail {
 public:
  static constexpr int64_t kRecords = 2048;  // two steps of the deepest models

  OpTrail(cudaStream_t stream, OpTrailOptions options);
  ~OpTrail();
  OpTrail(const OpTrail&) = delete;
  OpTrail& operator=(const OpTrail&) = delete;

  void BeginStep();
  // Ops from here on belong to the next layer; to none, before the first and behind the last.
  void BeginLayer() { ++layer_; }
  void LeaveLayers() { layer_ = -1; }

  // What the op that is being enqueued shall leave when it begins; nothing if it has no rows, for
  // then it has no kernel.
  ProgressMark NewMark(int64_t rows);

  // How many ops were enqueued so far.
  int64_t position() const { return enqueued_; }
  // Somebody has waited for the first `position` ops, and they went well.
  void Finished(int64_t position);

  // The host waits for the event, or for all that was enqueued. Throws CheckFailure after GiveUp.
  void Wait(cudaEvent_t event, std::string_view what,
            std::source_location where = std::source_location::current());
  void WaitForAll(std::string_view what,
                  std::source_location where = std::source_location::current());

  // Of any thread: the pulse; which ops a device that hangs may be at; and that it hangs, in words.
  DevicePulse Pulse() const;
  std::string DescribeHang() const;
  void GiveUp(const std::string& why);

  // For graphs: the ops since `position`, which were recorded and not enqueued; and a replay of
  // them.
  RecordedOps Recorded(int64_t position);
  void Replayed(const RecordedOps& recorded);

  // Between these two, ops are parts of a forward pass, for kSteps.
  void BeginForward();
  void EndForward();
  // What was recorded before has no marks: forget it.
  void SetTiming(OpTiming timing);
  // What the stream was at since the last call, or SetTiming; waits for it.
  std::vector<TimedOp> TakeTimes();

  bool is_sync() const { return options_.is_sync; }

 private:
  friend class DeviceCall;
  friend class OpScope;
  friend std::string DescribeOps(cudaError_t error);

  void Begin(const char* name, std::initializer_list<OpSize> sizes);
  void End();
  void Add(const OpRecord& op);
  std::vector<OpRecord> Since(int64_t position) const;
  bool IsMarked() const;
  template <typename Query>
  void Poll(const Query& query, std::string_view what, const std::source_location& where);
  std::vector<OpRecord> Suspects() const;
  std::string DescribeSuspects(std::string verb) const;

  const cudaStream_t stream_;
  OpTrailOptions options_;
  int64_t until_fault_ = 0;  // ops named so until the fault; 0 = there will be none
  bool fault_hangs_ = false;
  int64_t step_at_ = 0;     // where the step, or its forward pass, began
  bool is_within_ = false;  // an op is being enqueued
  int32_t layer_ = -1;
  OpTiming timing_ = OpTiming::kOff;
  bool is_forward_ = false;
  std::unique_ptr<OpClock> clock_;  // unless timing is off

  // Guards what follows: for every write by the thread that uses the trail, and every read by
  // others. NOTE: nobody contends for it but the one who looks whether the device hangs, some times
  // a minute, so that it costs 20 ns where an op costs microseconds.
  mutable std::mutex mutex_;
  std::vector<OpRecord> ops_;  // a ring
  int64_t enqueued_ = 0;
  int64_t finished_ = 0;
  int64_t calls_ = 0;
  int64_t depth_ = 0;  // calls that are within each other
  std::string why_given_up_;

  std::atomic<bool> is_given_up_ = false;  // set behind why_given_up_
};

// In its life a thread is in a call that may wait for the device: a wait, but launches and
// allocations wait too once enough is queued.
class DeviceCall {
 public:
  explicit DeviceCall(OpTrail& trail);
  ~DeviceCall();
  DeviceCall(const DeviceCall&) = delete;
  DeviceCall& operator=(const DeviceCall&) = delete;

 private:
  OpTrail& trail_;
};

// The launches in its life belong to one op.
class OpScope {
 public:
  OpScope(OpTrail& trail, const char* name, std::initializer_list<OpSize> sizes)
      : trail_(trail), call_(trail) {
    trail_.Begin(name, sizes);
  }
  ~OpScope() { trail_.End(); }
  OpScope(const OpScope&) = delete;
  OpScope& operator=(const OpScope&) = delete;

 private:
  OpTrail& trail_;
  const DeviceCall call_;
};

// What a failed call of this thread has to do with ops, to stand behind its message: a refused
// launch belongs to the op that is being enqueued; a fault of the device, to one of those that
// nobody has waited for. Empty where there are none.
std::string DescribeOps(cudaError_t error);

}  // namespace rose

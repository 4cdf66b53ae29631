// OpTrail: what a stream was asked for, op by op. A kernel's fault shows only at a later call that
// waits, so whoever fails then looks here for the op, and its shapes, that it may come from.
//
// Every op is also an NVTX range, for profilers; without one that costs a test of a pointer.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>
#include <initializer_list>
#include <memory>
#include <string>
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
  // "gemm:3": the third gemm has a kernel beside it that writes where it may not. For tests of
  // what happens then. Empty = none.
  std::string fault_at;
};

// What a graph has of ops.
struct RecordedOps {
  std::vector<OpRecord> ops;
  std::vector<OpMark> marks;
};

// Used by one thread at a time. Keeps the last kRecords ops and allocates nothing while it runs.
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
  friend class OpScope;
  friend std::string DescribeOps(cudaError_t error);

  void Begin(const char* name, std::initializer_list<OpSize> sizes);
  void End();
  void Add(const OpRecord& op);
  std::vector<OpRecord> Since(int64_t position) const;
  bool IsMarked() const;
  std::vector<OpRecord> Suspects() const;
  std::string DescribeFault() const;

  const cudaStream_t stream_;
  OpTrailOptions options_;
  int64_t until_fault_ = 0;    // ops named so until the fault; 0 = there will be none
  std::vector<OpRecord> ops_;  // a ring
  int64_t enqueued_ = 0;
  int64_t step_at_ = 0;  // where the step, or its forward pass, began
  int64_t finished_ = 0;
  bool is_within_ = false;  // an op is being enqueued
  int32_t layer_ = -1;
  OpTiming timing_ = OpTiming::kOff;
  bool is_forward_ = false;
  std::unique_ptr<OpClock> clock_;  // unless timing is off
};

// The launches in its life belong to one op.
class OpScope {
 public:
  OpScope(OpTrail& trail, const char* name, std::initializer_list<OpSize> sizes) : trail_(trail) {
    trail_.Begin(name, sizes);
  }
  ~OpScope() { trail_.End(); }
  OpScope(const OpScope&) = delete;
  OpScope& operator=(const OpScope&) = delete;

 private:
  OpTrail& trail_;
};

// What a failed call of this thread has to do with ops, to stand behind its message: a refused
// launch belongs to the op that is being enqueued; a fault of the device, to one of those that
// nobody has waited for. Empty where there are none.
std::string DescribeOps(cudaError_t error);

}  // namespace rose

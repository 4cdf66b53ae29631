// OpTrail: what a stream was asked for, op by op. A kernel's fault shows only at a later call that
// waits, so whoever fails then looks here for the op, and its shapes, that it may come from.
//
// Every op is also an NVTX range, for profilers; without one that costs a test of a pointer.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>
#include <initializer_list>
#include <span>
#include <string>
#include <vector>

namespace rose {

struct OpSize {
  const char* axis = nullptr;  // a literal
  int64_t size = 0;
};

struct OpRecord {
  static constexpr int kMostSizes = 5;
  const char* name = nullptr;  // a literal: "experts_down"
  int32_t layer = -1;          // -1: it belongs to no layer
  int32_t size_count = 0;
  OpSize sizes[kMostSizes];

  // "gemm [tokens=1, rows=5120, cols=2880]"
  std::string ToString() const;
};

struct OpTrailOptions {
  // Waits for every op before the next is enqueued, so that a fault is its op's. Not for streams
  // that are being recorded.
  bool is_sync = false;
  // "gemm:3": the third gemm has a kernel beside it that writes where it may not. For tests of
  // what happens then. Empty = none.
  std::string fault_at;
};

// Used by one thread at a time. Keeps the last kRecords ops and allocates nothing while it runs.
class OpTrail {
 public:
  static constexpr int64_t kRecords = 2048;  // two steps of the deepest models

  OpTrail(cudaStream_t stream, OpTrailOptions options);
  ~OpTrail();
  OpTrail(const OpTrail&) = delete;
  OpTrail& operator=(const OpTrail&) = delete;

  // Ops from here on belong to the next layer; to none, before the first and behind the last.
  void BeginLayer() { ++layer_; }
  void LeaveLayers() { layer_ = -1; }

  // How many ops were enqueued so far.
  int64_t position() const { return enqueued_; }
  // Somebody has waited for the first `position` ops, and they went well.
  void Finished(int64_t position);

  // For recorded work: the ops since `position`, and the same ops enqueued once more.
  std::vector<OpRecord> Since(int64_t position) const;
  void Replayed(std::span<const OpRecord> ops);

  bool is_sync() const { return options_.is_sync; }

 private:
  friend class OpScope;
  friend std::string DescribeOps(cudaError_t error);

  void Begin(const char* name, std::initializer_list<OpSize> sizes);
  void End();
  void Add(const OpRecord& op);
  std::string DescribeUnfinished() const;

  const cudaStream_t stream_;
  OpTrailOptions options_;
  int64_t until_fault_ = 0;    // ops named so until the fault; 0 = there will be none
  std::vector<OpRecord> ops_;  // a ring
  int64_t enqueued_ = 0;
  int64_t finished_ = 0;
  bool is_within_ = false;  // an op is being enqueued
  int32_t layer_ = -1;
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

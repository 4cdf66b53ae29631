// OpClock: what a stream was at and for how long, by events between its ops.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>
#include <deque>
#include <span>
#include <vector>

#include "device/op_record.h"

namespace rose {

// A point in the stream from which on it is at `op`.
struct OpMark {
  cudaEvent_t event = nullptr;
  OpRecord op;
  bool is_recorded = false;  // part of a graph, each replay of which overwrites its time
  int64_t position = 0;      // of OpTrail
};

class OpClock {
 public:
  explicit OpClock(cudaStream_t stream);
  ~OpClock();
  OpClock(const OpClock&) = delete;
  OpClock& operator=(const OpClock&) = delete;

  // Enqueues a mark: behind what was enqueued so far, the stream is at `op`. While the stream is
  // being recorded, the mark becomes part of the graph.
  void Mark(const OpRecord& op, int64_t position);
  // The marks of what was recorded since the last call; and a replay of them.
  std::vector<OpMark> TakeRecorded();
  void Replayed(std::span<const OpMark> marks, int64_t position);

  // Reads the marks before `position`, which the stream has passed.
  void Read(int64_t position);
  // What was read since the last call.
  std::vector<TimedOp> Take();

 private:
  cudaEvent_t NewEvent();

  const cudaStream_t stream_;
  std::vector<cudaEvent_t> events_;  // all there are
  std::vector<cudaEvent_t> free_;
  std::vector<OpMark> recorded_;
  std::deque<OpMark> passed_;  // enqueued, not read
  OpMark last_;                // read: what the stream was at until the next
  std::vector<TimedOp> times_;
};

}  // namespace rose

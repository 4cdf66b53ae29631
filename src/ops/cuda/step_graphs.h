// StepGraphs: forward passes of decode steps, recorded once for each number of sequences.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>
#include <functional>
#include <map>
#include <memory>

#include "device/op_trail.h"
#include "tensor/tensor.h"

namespace rose {

// A step is run plainly the first time (memory may grow then, which cannot be recorded), recorded
// the second time, and replayed from then on.
class StepGraphs {
 public:
  StepGraphs(cudaStream_t stream, OpTrail& trail) : stream_(stream), trail_(trail) {}

  // `ops` enqueues the same work for every step of one `shape`, at the same addresses.
  Tensor Run(int64_t shape, const std::function<Tensor()>& ops);
  // Records a step of this shape, and runs nothing: the next Run is a replay. All memory that `ops`
  // use must be there.
  void Record(int64_t shape, const std::function<Tensor()>& ops);
  // Forgets all: addresses have changed.
  void Clear() { graphs_.clear(); }

 private:
  struct Destroy {
    void operator()(cudaGraphExec_t graph) const { (void)cudaGraphExecDestroy(graph); }
  };
  struct Recorded {
    std::unique_ptr<CUgraphExec_st, Destroy> graph;  // null: it ran plainly so far
    Tensor result;
    RecordedOps ops;
  };

  cudaStream_t stream_;
  OpTrail& trail_;
  std::map<int64_t, Recorded> graphs_;
};

}  // namespace rose

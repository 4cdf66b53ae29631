#include "ops/cuda/step_graphs.h"

#include "device/cuda_check.h"

namespace rose {

void StepGraphs::Record(int64_t shape, const std::function<Tensor()>& ops) {
  Recorded& recorded = graphs_[shape];
  CudaCheck(cudaStreamBeginCapture(stream_, cudaStreamCaptureModeThreadLocal), "recording a step");
  cudaGraph_t graph = nullptr;
  const int64_t before = trail_.position();
  try {
    recorded.result = ops();
  } catch (...) {
    (void)cudaStreamEndCapture(stream_, &graph);
    if (graph != nullptr) (void)cudaGraphDestroy(graph);
    throw;
  }
  CudaCheck(cudaStreamEndCapture(stream_, &graph), "recording a step");
  cudaGraphExec_t executable = nullptr;
  const cudaError_t error = cudaGraphInstantiate(&executable, graph, 0);
  CudaCheck(cudaGraphDestroy(graph), "recording a step");
  CudaCheck(error, "making a graph of a step");
  recorded.graph.reset(executable);
  CudaCheck(cudaGraphUpload(executable, stream_), "uploading a graph");
  recorded.ops = trail_.Recorded(before);
}

Tensor StepGraphs::Run(int64_t shape, const std::function<Tensor()>& ops) {
  const auto [found, is_new] = graphs_.try_emplace(shape);
  if (is_new) return ops();
  Recorded& recorded = found->second;
  if (recorded.graph == nullptr) Record(shape, ops);
  trail_.Replayed(recorded.ops);
  const DeviceCall call(trail_);
  CudaCheck(cudaGraphLaunch(recorded.graph.get(), stream_), "replaying a step");
  return recorded.result;
}

}  // namespace rose

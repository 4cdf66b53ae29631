#include "device/cuda_check.h"
#include "device/stream.h"

namespace rose {

Stream::Stream() {
  CudaCheck(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking), "creating a stream");
}

Stream::~Stream() {
  (void)cudaStreamDestroy(stream_);
}

Event::Event() {
  CudaCheck(cudaEventCreateWithFlags(&event_, cudaEventDisableTiming | cudaEventBlockingSync),
            "creating an event");
}

Event::~Event() {
  (void)cudaEventDestroy(event_);
}

void Event::Record(const Stream& stream) {
  CudaCheck(cudaEventRecord(event_, stream.get()), "recording an event");
}

void Event::HoldBack(const Stream& stream) const {
  CudaCheck(cudaStreamWaitEvent(stream.get(), event_), "ordering two streams");
}

void Event::Wait() const {
  CudaCheck(cudaEventSynchronize(event_), "waiting for an event");
}

}  // namespace rose

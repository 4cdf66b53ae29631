// Streams and events of the device, owned.
#pragma once

#include <cuda_runtime_api.h>

namespace rose {

// A stream of its own, not ordered with the default stream.
class Stream {
 public:
  Stream();
  ~Stream();
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;
  cudaStream_t get() const { return stream_; }

 private:
  cudaStream_t stream_ = nullptr;
};

// A place in a stream that others can wait for. One that was never recorded is behind everybody.
class Event {
 public:
  Event();
  ~Event();
  Event(const Event&) = delete;
  Event& operator=(const Event&) = delete;

  void Record(const Stream& stream);
  // What is enqueued to `stream` from now on begins behind the place.
  void HoldBack(const Stream& stream) const;
  // The host waits, asleep.
  void Wait() const;

 private:
  cudaEvent_t event_ = nullptr;
};

}  // namespace rose

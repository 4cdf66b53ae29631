// Device memory that holds a copy of a host vector, for tests of launchers.
#pragma once

#include <cuda_runtime_api.h>

#include <vector>

#include "device/cuda_check.h"

namespace rose {

template <typename T>
class OnDevice {
 public:
  explicit OnDevice(const std::vector<T>& host) : size_(host.size()) {
    CudaCheck(cudaMalloc(&data_, bytes() + 1), "allocating");  // also where there is nothing
    CudaCheck(cudaMemcpy(data_, host.data(), bytes(), cudaMemcpyHostToDevice), "copying in");
  }
  ~OnDevice() { (void)cudaFree(data_); }
  OnDevice(const OnDevice&) = delete;
  OnDevice& operator=(const OnDevice&) = delete;

  T* data() const { return static_cast<T*>(data_); }
  std::vector<T> ToHost() const {
    std::vector<T> host(size_);
    CudaCheck(cudaMemcpy(host.data(), data_, bytes(), cudaMemcpyDeviceToHost), "copying out");
    return host;
  }

 private:
  size_t bytes() const { return size_ * sizeof(T); }
  size_t size_;
  void* data_ = nullptr;
};

}  // namespace rose

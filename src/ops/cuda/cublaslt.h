// cuBLASLt, the baseline of measured products. Found at run time, so that the program needs it
// neither to be built nor to run; the few functions used are declared in cublaslt.cc.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>
#include <memory>
#include <string>

#include "base/status.h"
#include "device/memory.h"
#include "tensor/dtype.h"

namespace rose {

struct LtShape {
  int64_t tokens = 0;
  int64_t n = 0;  // outputs of a token
  int64_t k = 0;
  bool has_bias = false;          // bf16
  DType out_type = DType::kBf16;  // or kF32, without a bias
  bool operator==(const LtShape&) const = default;
};

class CublasLt {
 public:
  // A way to compute a shape: the first that the library suggests.
  class Plan;

  // kUnavailable, saying where it was looked for, if there is none.
  static Result<std::shared_ptr<CublasLt>> Open();
  ~CublasLt();
  CublasLt(const CublasLt&) = delete;
  CublasLt& operator=(const CublasLt&) = delete;

  const std::string& name() const { return name_; }  // "cublasLt 13.1.0"
  // kUnsupported if the library has no way.
  Result<std::shared_ptr<Plan>> MakePlan(const LtShape& shape);
  // x bf16 [tokens, k] . weight^T bf16 [n, k] + bias (null without) -> out [tokens, n]. Enqueues.
  void Multiply(Plan& plan, const void* x, const void* weight, const void* bias, void* out,
                cudaStream_t stream);

 private:
  struct Functions;
  CublasLt() = default;

  std::unique_ptr<Functions> call_;
  void* handle_ = nullptr;
  std::string name_;
  DeviceMemory workspace_;
};

}  // namespace rose

#include "ops/cuda/cublaslt.h"

#include <dlfcn.h>
#include <library_types.h>

#include "base/check.h"

namespace rose {
namespace {

// The library's C interface, which has been the same since version 11. Only what is used here.
using Handle = void*;
using Object = void*;  // descriptors, layouts, preferences: each made and destroyed by a function
struct Algorithm {
  uint64_t data[8];
};
struct Suggestion {
  Algorithm algorithm;
  size_t workspace_bytes;
  int status;
  float waves;
  int reserved[4];
};
constexpr int kComputeF32 = 68;
constexpr int kDescTransA = 3;
constexpr int kDescEpilogue = 7;
constexpr int kDescBiasPointer = 8;
constexpr int kPreferenceMaxWorkspace = 1;
constexpr int32_t kTransposed = 1;
constexpr uint32_t kEpilogueBias = 4;

constexpr size_t kWorkspaceBytes = size_t{64} << 20;

void Check(int status, const char* what) {
  ROSE_CHECK(status == 0, "cuBLASLt, ", what, ": status ", status);
}

}  // namespace

struct CublasLt::Functions {
  int (*create)(Handle*);
  int (*destroy)(Handle);
  size_t (*version)();
  int (*desc_create)(Object*, int compute_type, cudaDataType scale_type);
  int (*desc_set)(Object, int attribute, const void* value, size_t bytes);
  int (*desc_destroy)(Object);
  int (*layout_create)(Object*, cudaDataType type, uint64_t rows, uint64_t cols, int64_t ld);
  int (*layout_destroy)(Object);
  int (*preference_create)(Object*);
  int (*preference_set)(Object, int attribute, const void* value, size_t bytes);
  int (*preference_destroy)(Object);
  int (*suggest)(Handle, Object desc, Object a, Object b, Object c, Object d, Object preference,
                 int most, Suggestion* found, int* count);
  int (*matmul)(Handle, Object desc, const void* alpha, const void* a, Object a_layout,
                const void* b, Object b_layout, const void* beta, const void* c, Object c_layout,
                void* d, Object d_layout, const Algorithm*, void* workspace, size_t bytes,
                cudaStream_t);
};

class CublasLt::Plan {
 public:
  explicit Plan(const Functions& functions) : call_(functions) {}
  ~Plan() {
    if (desc_ != nullptr) call_.desc_destroy(desc_);
    for (Object layout : {weight_, x_, out_}) {
      if (layout != nullptr) call_.layout_destroy(layout);
    }
  }
  Plan(const Plan&) = delete;
  Plan& operator=(const Plan&) = delete;

 private:
  friend class CublasLt;
  const Functions& call_;
  Object desc_ = nullptr, weight_ = nullptr, x_ = nullptr, out_ = nullptr;
  Algorithm algorithm_{};
};

Result<std::shared_ptr<CublasLt>> CublasLt::Open() {
  void* library = nullptr;
  for (const char* name : {"libcublasLt.so.13", "libcublasLt.so.12", "libcublasLt.so"}) {
    library = ::dlopen(name, RTLD_NOW | RTLD_LOCAL);
    if (library != nullptr) break;
  }
  if (library == nullptr) {
    return Unavailable(
        "libcublasLt.so.13 (or .12) was not found; name its folder in LD_LIBRARY_PATH");
  }
  auto functions = std::make_unique<Functions>();
  const auto find = [&](auto& function, const char* name) {
    function =
        reinterpret_cast<std::remove_reference_t<decltype(function)>>(::dlsym(library, name));
    return function != nullptr;
  };
  const bool has_all = find(functions->create, "cublasLtCreate") &&
                       find(functions->destroy, "cublasLtDestroy") &&
                       find(functions->version, "cublasLtGetVersion") &&
                       find(functions->desc_create, "cublasLtMatmulDescCreate") &&
                       find(functions->desc_set, "cublasLtMatmulDescSetAttribute") &&
                       find(functions->desc_destroy, "cublasLtMatmulDescDestroy") &&
                       find(functions->layout_create, "cublasLtMatrixLayoutCreate") &&
                       find(functions->layout_destroy, "cublasLtMatrixLayoutDestroy") &&
                       find(functions->preference_create, "cublasLtMatmulPreferenceCreate") &&
                       find(functions->preference_set, "cublasLtMatmulPreferenceSetAttribute") &&
                       find(functions->preference_destroy, "cublasLtMatmulPreferenceDestroy") &&
                       find(functions->suggest, "cublasLtMatmulAlgoGetHeuristic") &&
                       find(functions->matmul, "cublasLtMatmul");
  if (!has_all) return Unavailable("libcublasLt lacks a function that is needed");
  std::shared_ptr<CublasLt> lt(new CublasLt());
  lt->call_ = std::move(functions);
  if (lt->call_->create(&lt->handle_) != 0) return Unavailable("cuBLASLt does not start");
  ROSE_ASSIGN_OR_RETURN(lt->workspace_,
                        AllocateDevice(kWorkspaceBytes, "the workspace of cuBLASLt", "free some"));
  const size_t version = lt->call_->version();  // 130100 is 13.1.0
  lt->name_ = StrCat("cublasLt ", version / 10000, ".", version / 100 % 100, ".", version % 100);
  return lt;
}

CublasLt::~CublasLt() {
  if (handle_ != nullptr) call_->destroy(handle_);
}

// Its matrices have their columns in a row of memory, so it is asked for out^T = weight . x^T.
Result<std::shared_ptr<CublasLt::Plan>> CublasLt::MakePlan(const LtShape& shape) {
  auto plan = std::make_shared<Plan>(*call_);
  const auto n = static_cast<uint64_t>(shape.n), k = static_cast<uint64_t>(shape.k);
  const auto tokens = static_cast<uint64_t>(shape.tokens);
  const cudaDataType out_type = shape.out_type == DType::kF32 ? CUDA_R_32F : CUDA_R_16BF;
  Check(call_->desc_create(&plan->desc_, kComputeF32, CUDA_R_32F), "a product");
  Check(call_->desc_set(plan->desc_, kDescTransA, &kTransposed, sizeof kTransposed), "a product");
  if (shape.has_bias) {
    Check(call_->desc_set(plan->desc_, kDescEpilogue, &kEpilogueBias, sizeof kEpilogueBias),
          "a bias");
  }
  Check(call_->layout_create(&plan->weight_, CUDA_R_16BF, k, n, shape.k), "a layout");
  Check(call_->layout_create(&plan->x_, CUDA_R_16BF, k, tokens, shape.k), "a layout");
  Check(call_->layout_create(&plan->out_, out_type, n, tokens, shape.n), "a layout");
  Object preference = nullptr;
  Check(call_->preference_create(&preference), "a preference");
  Check(call_->preference_set(preference, kPreferenceMaxWorkspace, &kWorkspaceBytes,
                              sizeof kWorkspaceBytes),
        "a preference");
  Suggestion found{};
  int count = 0;
  const int status = call_->suggest(handle_, plan->desc_, plan->weight_, plan->x_, plan->out_,
                                    plan->out_, preference, 1, &found, &count);
  Check(call_->preference_destroy(preference), "a preference");
  if (status != 0 || count < 1) {
    return Unsupported("cuBLASLt has no way to multiply ", shape.tokens, " rows of ", shape.k,
                       " by ", shape.n, " (status ", status, ")");
  }
  plan->algorithm_ = found.algorithm;
  return plan;
}

void CublasLt::Multiply(Plan& plan, const void* x, const void* weight, const void* bias, void* out,
                        cudaStream_t stream) {
  const float one = 1, zero = 0;
  if (bias != nullptr) {
    Check(call_->desc_set(plan.desc_, kDescBiasPointer, &bias, sizeof bias), "a bias");
  }
  Check(call_->matmul(handle_, plan.desc_, &one, weight, plan.weight_, x, plan.x_, &zero, out,
                      plan.out_, out, plan.out_, &plan.algorithm_, workspace_.get(),
                      kWorkspaceBytes, stream),
        "multiplying");
}

}  // namespace rose

#include "base/check.h"
#include "device/cuda_check.h"
#include "device/tensor_map.h"

namespace rose {
namespace {

using EncodeTiled = decltype(&cuTensorMapEncodeTiled);

// The driver's function, found at run time: the program also starts where there is no driver.
EncodeTiled FindEncodeTiled() {
  void* function = nullptr;
  cudaDriverEntryPointQueryResult found = cudaDriverEntryPointSymbolNotFound;
  CudaCheck(cudaGetDriverEntryPointByVersion("cuTensorMapEncodeTiled", &function, 12000,
                                             cudaEnableDefault, &found),
            "looking for cuTensorMapEncodeTiled");
  ROSE_CHECK(found == cudaDriverEntryPointSuccess, "the driver has no cuTensorMapEncodeTiled");
  return reinterpret_cast<EncodeTiled>(function);
}

}  // namespace

CUtensorMap MapMatrix(const MatrixBox& box) {
  static const EncodeTiled encode = FindEncodeTiled();
  ROSE_CHECK(box.dtype == DType::kBf16 || box.dtype == DType::kE4m3, "boxes of ",
             DTypeName(box.dtype));
  const int64_t bytes = ElementBytes(box.dtype);
  const CUtensorMapDataType type =
      box.dtype == DType::kBf16 ? CU_TENSOR_MAP_DATA_TYPE_BFLOAT16 : CU_TENSOR_MAP_DATA_TYPE_UINT8;
  CUtensorMap map;
  const cuuint64_t size[2] = {static_cast<cuuint64_t>(box.columns),
                              static_cast<cuuint64_t>(box.rows)};
  const cuuint64_t stride[1] = {static_cast<cuuint64_t>(box.row_stride * bytes)};
  const cuuint32_t box_size[2] = {static_cast<cuuint32_t>(128 / bytes),
                                  static_cast<cuuint32_t>(box.box_rows)};
  const cuuint32_t step[2] = {1, 1};
  const CUresult result =
      encode(&map, type, 2, const_cast<void*>(box.data), size, stride, box_size, step,
             CU_TENSOR_MAP_INTERLEAVE_NONE, CU_TENSOR_MAP_SWIZZLE_128B,
             CU_TENSOR_MAP_L2_PROMOTION_L2_256B, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
  ROSE_CHECK(result == CUDA_SUCCESS, "cuTensorMapEncodeTiled says ", static_cast<int>(result),
             " for [", box.rows, ", ", box.columns, "], stride ", box.row_stride, ", ",
             box.box_rows, " rows a box");
  return map;
}

}  // namespace rose

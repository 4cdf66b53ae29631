#include <span>

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

// The map of a tensor, whose first axis is dense; `strides` in bytes, of the axes behind it.
CUtensorMap Encode(const MatrixBox& box, std::span<const cuuint64_t> sizes,
                   std::span<const cuuint64_t> strides, std::span<const cuuint32_t> take) {
  static const EncodeTiled encode = FindEncodeTiled();
  ROSE_CHECK(box.dtype == DType::kBf16 || box.dtype == DType::kE4m3, "boxes of ",
             DTypeName(box.dtype));
  const CUtensorMapDataType type =
      box.dtype == DType::kBf16 ? CU_TENSOR_MAP_DATA_TYPE_BFLOAT16 : CU_TENSOR_MAP_DATA_TYPE_UINT8;
  constexpr cuuint32_t kSteps[] = {1, 1, 1};
  CUtensorMap map;
  const CUresult result =
      encode(&map, type, static_cast<cuuint32_t>(sizes.size()), const_cast<void*>(box.data),
             sizes.data(), strides.data(), take.data(), kSteps, CU_TENSOR_MAP_INTERLEAVE_NONE,
             CU_TENSOR_MAP_SWIZZLE_128B, CU_TENSOR_MAP_L2_PROMOTION_L2_256B,
             CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
  ROSE_CHECK(result == CUDA_SUCCESS, "cuTensorMapEncodeTiled says ", static_cast<int>(result),
             " for [", box.rows, ", ", box.columns, "], stride ", box.row_stride, ", ",
             box.box_rows, " rows a box");
  return map;
}

}  // namespace

CUtensorMap MapBytes(const ByteBox& box) {
  static const EncodeTiled encode = FindEncodeTiled();
  const cuuint64_t sizes[] = {static_cast<cuuint64_t>(box.row_bytes / 8),
                              static_cast<cuuint64_t>(box.rows)};
  const cuuint64_t strides[] = {static_cast<cuuint64_t>(box.row_bytes)};
  const cuuint32_t take[] = {static_cast<cuuint32_t>(box.box_bytes / 8),
                             static_cast<cuuint32_t>(box.box_rows)};
  constexpr cuuint32_t kSteps[] = {1, 1};
  CUtensorMap map;
  const CUresult result =
      encode(&map, CU_TENSOR_MAP_DATA_TYPE_UINT64, 2, const_cast<void*>(box.data), sizes, strides,
             take, kSteps, CU_TENSOR_MAP_INTERLEAVE_NONE, CU_TENSOR_MAP_SWIZZLE_NONE,
             CU_TENSOR_MAP_L2_PROMOTION_L2_128B, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
  ROSE_CHECK(result == CUDA_SUCCESS, "cuTensorMapEncodeTiled says ", static_cast<int>(result),
             " for ", box.rows, " rows of ", box.row_bytes, " bytes, boxes of ", box.box_rows,
             " rows of ", box.box_bytes);
  return map;
}

CUtensorMap MapMatrix(const MatrixBox& box) {
  const int64_t bytes = ElementBytes(box.dtype);
  const cuuint64_t sizes[] = {static_cast<cuuint64_t>(box.columns),
                              static_cast<cuuint64_t>(box.rows)};
  const cuuint64_t strides[] = {static_cast<cuuint64_t>(box.row_stride * bytes)};
  const cuuint32_t take[] = {static_cast<cuuint32_t>(128 / bytes),
                             static_cast<cuuint32_t>(box.box_rows)};
  return Encode(box, sizes, strides, take);
}

CUtensorMap MapBlocks(const MatrixBox& box, int blocks) {
  const int64_t bytes = ElementBytes(box.dtype), columns = 128 / bytes;
  const bool is_whole = box.columns % columns == 0;
  const cuuint64_t sizes[] = {static_cast<cuuint64_t>(is_whole ? columns : box.columns),
                              static_cast<cuuint64_t>(box.rows),
                              static_cast<cuuint64_t>(is_whole ? box.columns / columns : 1)};
  const cuuint64_t strides[] = {static_cast<cuuint64_t>(box.row_stride * bytes), 128};
  const cuuint32_t take[] = {static_cast<cuuint32_t>(columns),
                             static_cast<cuuint32_t>(box.box_rows),
                             static_cast<cuuint32_t>(is_whole ? blocks : 1)};
  return Encode(box, sizes, strides, take);
}

}  // namespace rose

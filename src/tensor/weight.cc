#include "tensor/weight.h"

namespace rose {

std::string WeightFormat::ToString() const {
  switch (packing) {
    case Packing::kBf16:
      return "bf16";
    case Packing::kMxfp4:
      return "mxfp4";
    case Packing::kFp8Block:
      return "fp8-block";
  }
  ROSE_CHECK(false, "packing ", static_cast<int>(packing));
}

}  // namespace rose

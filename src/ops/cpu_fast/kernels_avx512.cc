// The loops of kernels.inc with AVX-512.
// NOTE: GCC 12's own header makes "undefined" vectors that it then warns about (GCC bug 105593).
#pragma GCC diagnostic ignored "-Wuninitialized"
#ifndef __clang__  // which does not know the name
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#endif
#include <immintrin.h>

#include "ops/cpu_fast/bytes.h"
#include "ops/cpu_fast/kernels.h"

#define ROSE_TARGET __attribute__((target("avx512f,avx512bw,avx512dq,avx512vl,avx2,fma,f16c")))
#define ROSE_INLINE __attribute__((always_inline)) ROSE_TARGET inline

namespace rose {
namespace {

// clang-format off: the loops come after what they are made of.
#include "ops/cpu_fast/simd_avx512.inc"
#include "ops/cpu_fast/kernels.inc"
// clang-format on

}  // namespace

const KernelTable kAvx512Kernels{.isa = CpuIsa::kAvx512,
                                 .gemm = Gemm,
                                 .attention = Attention,
                                 .swiglu = SwiGluRow,
                                 .rms_norm = RmsNormRow};

}  // namespace rose

"""Writes src/kernels/common/ptx/wgmma.cuh: one wrapper for each width of the bf16 warpgroup product.

    python3 tools/gen_wgmma.py > src/kernels/common/ptx/wgmma.cuh
"""

WIDTHS = (8, 16, 32, 48, 64, 80, 96, 128, 160, 192, 256)

HEAD = """// Written by tools/gen_wgmma.py. The asynchronous product of a warpgroup, sm_90a:
// d[64, N] += a[64, 16] . b[16, N], bf16 operands, f32 sums. WarpgroupProduct<N>::Shared takes a from
// shared memory, ::Registers from registers (the fragments of four stacked m16n8k16 products).
// accumulate = 0 starts from zero. kTransposeB = 1: b lies in memory as [16, N], N contiguous.
#pragma once

#include <cstdint>

// clang-format off
namespace rose::ptx {

template <int kWidth> struct WarpgroupProduct;
"""


def wrapper(n: int) -> str:
    count = n // 2
    registers = ",".join(f"%{i}" for i in range(count))
    outputs = ",".join(f'"+f"(d[{i}])' for i in range(count))
    op = f"wgmma.mma_async.sync.aligned.m64n{n}k16.f32.bf16.bf16"
    return f"""
template <> struct WarpgroupProduct<{n}> {{
  template <int kTransposeB = 0>
  static __device__ void Shared(float (&d)[{count}], uint64_t a, uint64_t b, int accumulate) {{
    asm volatile("{{.reg .pred p; setp.ne.b32 p, %{count + 2}, 0; {op} {{{registers}}}, %{count}, %{count + 1}, p, 1, 1, 0, %{count + 3};}}"
      : {outputs} : "l"(a), "l"(b), "r"(accumulate), "n"(kTransposeB));
  }}
  template <int kTransposeB = 0>
  static __device__ void Registers(float (&d)[{count}], const uint32_t* a, uint64_t b, int accumulate) {{
    asm volatile("{{.reg .pred p; setp.ne.b32 p, %{count + 5}, 0; {op} {{{registers}}}, {{%{count},%{count + 1},%{count + 2},%{count + 3}}}, %{count + 4}, p, 1, 1, %{count + 6};}}"
      : {outputs} : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "r"(accumulate), "n"(kTransposeB));
  }}
}};
"""


print(HEAD + "".join(wrapper(n) for n in WIDTHS) + "\n}  // namespace rose::ptx\n// clang-format on")

#!/bin/bash
# Runs the GPU's tests under compute-sanitizer: small cases of every family of kernels, families
# side by side. One line a run; exits 1 if one found something or did not end.
#
#   scripts/gpu_sanitize.sh [TOOL...]      memcheck, racecheck, synccheck, initcheck (default: the
#                                          first three)
#
# BUILD=folder names the build folder (default: build), which has rose_gpu_tests; in a packed bundle
# (scripts/gpu_tests.sh) it stands beside this script. LIMIT=seconds (default 300) bounds a run,
# FAMILIES="gemm experts" chooses.
set -uo pipefail
cd "$(dirname "$0")"
program=./rose_gpu_tests
if [[ ! -e $program && ! -e $program.gz ]]; then
  cd ..
  program=${BUILD:-build}/rose_gpu_tests
fi
[[ -e $program ]] || { gunzip -k "$program.gz"; chmod +x "$program"; }
sanitizer=$(command -v compute-sanitizer || echo /usr/local/cuda/bin/compute-sanitizer)
[[ -x $sanitizer ]] || { echo "gpu_sanitize.sh: compute-sanitizer comes with the CUDA toolkit" >&2; exit 2; }

declare -A tests=(
  [rows]='*GpuRows*:*GpuEmbed*:GpuArena.PagesAre*'
  [norms]='*RmsNorm.*'
  [gemm]='Small/GpuGemm*:OnGpu.*'
  [gemm_launchers]='Small/GemmBf16*:Small/GemmFp8*:*Route*'
  [experts]='Small/GpuExperts*'
  [packing]='*ArePackedOnTheDevice*'
  [attention]='Small/GpuAttentionSteps*'
  [attention_empty]='Attention.TakesNoRows'
  [sampler]='DeviceDraw.EqualsTheSampler:DeviceDraw.FeedsTokens'
  [random]='RandomWeightsOnDevice.*'
)
logs=$(mktemp -d)
trap 'rm -rf "$logs"' EXIT

check() {  # TOOL FAMILY
  local began=$SECONDS log=$logs/$1.$2 status summary
  timeout "${LIMIT:-300}" "$sanitizer" --tool "$1" --error-exitcode 3 "$program" \
    --gtest_filter="${tests[$2]}" > "$log" 2>&1
  status=$?
  summary=$(grep -E 'SUMMARY' "$log" | tail -n 1 | sed 's/^=* //')
  if [[ $status == 0 ]] && grep -q 'PASSED' "$log" && ! grep -q ' 0 tests from' "$log"; then
    echo "ok      $1 $2: $(grep -oE '[0-9]+ tests? from .* ran' "$log" | tail -n 1), $summary, $((SECONDS - began)) s"
    return
  fi
  echo "FAILED  $1 $2: exit status $status (124: did not end), $summary"
  grep -vE '^\[ +(OK|RUN) +\]' "$log" | head -n 20
  touch "$logs/failed"
}

for tool in "${@:-memcheck}" $([[ $# == 0 ]] && echo racecheck synccheck); do
  for family in ${FAMILIES:-${!tests[@]}}; do check "$tool" "$family" & done
  wait
done
[[ ! -e $logs/failed ]]

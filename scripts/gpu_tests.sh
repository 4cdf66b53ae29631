#!/bin/bash
# Runs the tests that need a GPU. Where there is none: packs them, for a machine that has one and
# needs neither compiler nor checkout.
#
#   scripts/gpu_tests.sh                   build and run here
#   scripts/gpu_tests.sh --pack FILE.tar   build, and write program and data to FILE.tar;
#                                          there: tar xf FILE.tar && ./gpu-tests/run.sh [gtest options]
#                                          and ./gpu-tests/gpu_sanitize.sh [TOOL...]
#
# BUILD=folder names the build folder (default: build), which is configured with CUDA.
set -euo pipefail
cd "$(dirname "$0")/.."
export PATH=$PWD/.cache/bin:$PATH
build=${BUILD:-build}

cmake --build "$build" --target rose_gpu_tests -j "${JOBS:-$(nproc)}"
if [[ ${1:-} != --pack ]]; then
  exec "$build/rose_gpu_tests" "$@"
fi
[[ -n ${2:-} ]] || { echo "gpu_tests.sh: --pack wants the name of a file" >&2; exit 2; }

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
mkdir -p "$folder/gpu-tests/tests/data" "$folder/gpu-tests/models"
strip -o "$folder/rose_gpu_tests" "$build/rose_gpu_tests"
gzip -6 -c "$folder/rose_gpu_tests" > "$folder/gpu-tests/rose_gpu_tests.gz"
rm "$folder/rose_gpu_tests"
cp -r tests/data/toy-a* tests/data/qwen3-moe-toy* "$folder/gpu-tests/tests/data/"
mkdir -p "$folder/gpu-tests/models/rosebud"
cp models/rosebud/{config.json,*.safetensors} "$folder/gpu-tests/models/rosebud/"
cat > "$folder/gpu-tests/run.sh" <<'RUN'
#!/bin/bash
set -euo pipefail
cd "$(dirname "$0")"
[[ -x rose_gpu_tests ]] || { gunzip -k rose_gpu_tests.gz; chmod +x rose_gpu_tests; }
exec ./rose_gpu_tests "$@"
RUN
chmod +x "$folder/gpu-tests/run.sh"
cp scripts/gpu_sanitize.sh "$folder/gpu-tests/"
tar cf "$2" -C "$folder" gpu-tests
ls -lh "$2"

#!/bin/bash
# Runs every fuzz target of a build for some seconds, two side by side, starting from its corpus in
# fuzz/corpus/<name>. What it finds new stays in the build folder, so that a later run goes on from
# there; an input that breaks something lies under <build>/found/.
#
#   scripts/fuzz.sh build-fuzz 60
set -euo pipefail
cd "$(dirname "$0")/.."
build=$1 seconds=$2
export ASAN_OPTIONS=${ASAN_OPTIONS:-allocator_may_return_null=1}

fuzz_one() {
  local target=$1 name seeds=() log
  name=$(basename "$target" _fuzz)
  mkdir -p "$build/corpus/$name" "$build/found"
  [ ! -d "fuzz/corpus/$name" ] || seeds=("fuzz/corpus/$name")
  log=$build/$name.fuzz.log
  if "$target" -max_total_time="$seconds" -timeout=10 -rss_limit_mb=3000 -max_len=65536 \
    -artifact_prefix="$build/found/$name-" "$build/corpus/$name" "${seeds[@]}" >"$log" 2>&1; then
    echo "fuzz: $name: $(tail -n 1 "$log"), $(ls "$build/corpus/$name" | wc -l) new inputs kept"
  else
    tail -n 60 "$log"
    echo "fuzz: $name FAILED; $log has it all"
    return 1
  fi
}
export -f fuzz_one
export build seconds

for source in fuzz/*_fuzz.cc; do
  echo "$build/$(basename "$source" .cc)"
done | xargs -n 1 -P 2 bash -c 'fuzz_one "$0"'

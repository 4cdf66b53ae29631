#!/bin/bash
# Lists the source files that clang-format 19 would change, and fails if there are any; with --fix,
# changes them.
set -euo pipefail
cd "$(dirname "$0")/.."
command -v clang-format-19 >/dev/null || {
  echo "format: clang-format-19 is missing. Run scripts/setup.sh --dev." >&2
  exit 1
}
sources() { git ls-files -z -co --exclude-standard -- '*.h' '*.cc' '*.cu' '*.cuh'; }
if [ "${1:-}" = --fix ]; then
  sources | xargs -0 -r -n 20 -P "$(nproc)" clang-format-19 -i
  exit
fi
changed=$(sources | xargs -0 -r -n 20 -P "$(nproc)" clang-format-19 --dry-run 2>&1 |
  sed -n 's/^\([^: ]*\):[0-9]*:[0-9]*: warning: code should be.*/\1/p' | sort -u)
if [ -n "$changed" ]; then
  echo "$changed"
  echo "format: $(wc -l <<<"$changed") files differ; make format mends them" >&2
  exit 1
fi
echo "format: $(sources | tr -cd '\0' | wc -c) files, all as they should be"

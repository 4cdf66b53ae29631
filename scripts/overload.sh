#!/bin/bash
# Whether the server with the shipped model stands three times what it can do for a minute:
# scripts/overload.sh [SECONDS = 60]. Takes about three minutes on two idle cores.
set -euo pipefail
cd "$(dirname "$0")/.."
port=8767
. scripts/shipped_server.sh
# As many may wait as run, so that who is taken waits no longer than an answer takes.
serve_shipped "$port" --max-running 32 --max-waiting 32 --kv-memory 256M
build/rose bench overload "http://127.0.0.1:$port" --concurrency 32 --seconds "${1:-60}"

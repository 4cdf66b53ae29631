#!/bin/bash
# Measures how well the shipped model answers through the HTTP API, and how often its draft agrees with
# it: scripts/quality.sh [QUESTIONS a task = 500]. Takes some ten minutes on two idle cores.
set -euo pipefail
cd "$(dirname "$0")/.."
questions=${1:-500} port=8765
build/rose serve models/rosebud --port "$port" --access-log off &
server=$!
trap 'kill $server' EXIT
ready() {
  exec 3<>"/dev/tcp/127.0.0.1/$port" && printf 'GET /health HTTP/1.0\r\n\r\n' >&3 && head -n 1 <&3 | grep -q ' 200 '
}
until (ready) 2>/dev/null; do
  kill -0 $server  # ends the script if the server did
  sleep 0.2
done
python3 tests/quality/run_quality.py "http://127.0.0.1:$port" --questions "$questions"
python3 tests/quality/draft_agreement.py build/rose --questions 100

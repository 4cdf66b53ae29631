#!/bin/bash
# Asks the shipped model for answers to random JSON schemas, checks each with another validator, and
# sends hostile schemas: scripts/schemas.sh [SCHEMAS = 1000]. Takes some minutes on two idle cores.
set -euo pipefail
cd "$(dirname "$0")/.."
schemas=${1:-1000} port=8766 python=.cache/clients/venv/bin/python3
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
failed=0
$python tests/quality/schemas.py "http://127.0.0.1:$port" --schemas "$schemas" || failed=1
$python tests/quality/schemas.py "http://127.0.0.1:$port" --hostile || failed=1
exit $failed

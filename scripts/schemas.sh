#!/bin/bash
# Asks the shipped model for answers to random JSON schemas, checks each with another validator, and
# sends hostile schemas: scripts/schemas.sh [SCHEMAS = 1000]. Takes some minutes on two idle cores.
set -euo pipefail
cd "$(dirname "$0")/.."
schemas=${1:-1000} port=8766 python=.cache/clients/venv/bin/python3
. scripts/shipped_server.sh
serve_shipped "$port"
failed=0
$python tests/quality/schemas.py "http://127.0.0.1:$port" --schemas "$schemas" || failed=1
$python tests/quality/schemas.py "http://127.0.0.1:$port" --hostile || failed=1
exit $failed

#!/bin/bash
# Measures how well the shipped model answers through the HTTP API, and how often its draft agrees with
# it: scripts/quality.sh [QUESTIONS a task = 500]. Takes some ten minutes on two idle cores.
set -euo pipefail
cd "$(dirname "$0")/.."
questions=${1:-500} port=8765
. scripts/shipped_server.sh
serve_shipped "$port"
python3 tests/quality/run_quality.py "http://127.0.0.1:$port" --questions "$questions"
python3 tests/quality/draft_agreement.py build/rose --questions 100

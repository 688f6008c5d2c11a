#!/usr/bin/env bash
# Checks style, format, types and layers. Every check runs, and any failure fails.
set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
unset PYTHONPATH PYTHONHOME
scripts/setup.sh test || exit
status=0
.venv/bin/ruff check --quiet . || status=1
.venv/bin/ruff format --check --quiet . || { echo "format: run .venv/bin/ruff format ." >&2; status=1; }
.venv/bin/mypy || status=1
.venv/bin/lint-imports || status=1
exit "$status"

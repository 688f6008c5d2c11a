#!/usr/bin/env bash
# Builds the wheel in dist/ with the locked build backend. Needs no network after the set-up.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
unset PYTHONPATH PYTHONHOME
scripts/setup.sh run
exec .venv/bin/python -m hatchling build --target wheel "$@"

#!/usr/bin/env bash
# Solves tasks/calculator with its scripted model; arguments are passed on to `stackmem solve`.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
scripts/setup.sh run
exec .venv/bin/stackmem solve tasks/calculator --model demo "$@"

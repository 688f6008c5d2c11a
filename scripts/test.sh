#!/usr/bin/env bash
# Passes every test, or those named by the arguments.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
unset PYTHONPATH PYTHONHOME
scripts/setup.sh test
# Two workers; a file stays in one of them, so that what a module starts (a server, a sandbox) is started once.
exec .venv/bin/python -m pytest -n 2 --dist loadfile "$@" </dev/null

#!/usr/bin/env bash
# Passes every test, or those named by the arguments. The pure part goes first: where it fails, the rest is not begun.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
# Without bytecode each of the hundreds of processes that the tests start would compile the package anew.
unset PYTHONPATH PYTHONHOME PYTHONDONTWRITEBYTECODE
scripts/setup.sh test

# Two workers for each processor, for some tests wait; they take file after file, those with most tests first.
workers=$(($(nproc) < 4 ? 2 * $(nproc) : 8))
pass() { .venv/bin/python -m pytest -n "$workers" --dist loadfile --durations=10 "$@" </dev/null; }

pure=(tests/golden tests/core tests/prompts tests/memory tests/languages tests/compliance tests/measure)
if (($#)); then
    pass "$@"
else
    pass "${pure[@]}" || { echo "test: the pure part failed, and the rest was not begun" >&2; exit 1; }
    pass "${pure[@]/#/--ignore=}"
fi

#!/usr/bin/env bash
# Passes every test, or those named by the arguments. The pure part goes first: where it fails, the rest is not begun.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
# Without bytecode each of the hundreds of processes that the tests start would compile the package anew.
unset PYTHONPATH PYTHONHOME PYTHONDONTWRITEBYTECODE
scripts/setup.sh test

# Workers take file after file, in the order of tests/conftest.py.
pass() { .venv/bin/python -m pytest --dist loadfile --no-loadscope-reorder --durations=10 "$@" </dev/null; }

processors=$(nproc)
waiting=$((processors < 4 ? 2 * processors : 8)) # two workers for each processor, for some tests wait
pure=(tests/golden tests/core tests/prompts tests/memory tests/languages tests/compliance tests/measure)
if (($#)); then
    pass -n "$waiting" "$@"
else
    # Beside the pure part, which waits for nothing, one process compiles what the rest imports: else each worker does.
    rest=("${pure[@]/#/--ignore=}")
    nice .venv/bin/python -m pytest --collect-only -qq "${rest[@]}" </dev/null >/dev/null 2>&1 &
    compiling=$!
    if ! pass -n "$processors" "${pure[@]}"; then
        kill "$compiling" 2>/dev/null || true
        echo "test: the pure part failed, and the rest was not begun" >&2
        exit 1
    fi
    wait "$compiling" || true # what it stumbled over, the rest names
    pass -n "$waiting" "${rest[@]}"
fi

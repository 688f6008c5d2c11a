#!/usr/bin/env bash
# Runs every test, or the given ones. If the pure part, which runs first, fails, the rest is skipped.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
# Without bytecode, each of the hundreds of processes that the tests start would recompile the package.
unset PYTHONPATH PYTHONHOME PYTHONDONTWRITEBYTECODE
scripts/setup.sh test

# Workers take one file after the other, in the order of tests/conftest.py.
pass() { .venv/bin/python -m pytest --dist loadfile --no-loadscope-reorder --durations=10 "$@" </dev/null; }

processors=$(nproc)
waiting=$((processors < 4 ? 2 * processors : 8)) # two workers per processor, because some tests wait
pure=(tests/golden tests/core tests/run/prompts tests/memory tests/languages tests/compliance tests/review/measure tests/lab/strategies)
if (($#)); then
    pass -n "$waiting" "$@"
else
    # Compile the modules of the other tests during the pure part; otherwise each worker would compile them. The stamp
    # saves that work if no module has changed since.
    rest=("${pure[@]/#/--ignore=}")
    stamp=.venv/stackmem-compiled
    compiling=
    if [ ! -e "$stamp" ] || [ -n "$(find stackmem tests -name '*.py' -newer "$stamp" -print -quit)" ]; then
        touch "$stamp.new"
        nice .venv/bin/python -m pytest --collect-only -qq "${rest[@]}" </dev/null >/dev/null 2>&1 &
        compiling=$!
    fi
    if ! pass -n "$processors" "${pure[@]}"; then
        [ -z "$compiling" ] || kill "$compiling" 2>/dev/null || true
        echo "test: the pure part failed, so the other tests were skipped" >&2
        exit 1
    fi
    if [ -n "$compiling" ] && wait "$compiling"; then # errors here are reported by the other tests
        mv "$stamp.new" "$stamp"
    fi
    pass -n "$waiting" "${rest[@]}"
fi

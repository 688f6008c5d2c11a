#!/bin/sh
# Judges the working directory. Nothing in it may configure this run: pytest takes its root, its settings and its
# tests from this folder, and the code under test runs in processes of its own.
set -u
tests=${TESTS_DIR:-/tests}
verifier=${VERIFIER_DIR:-/logs/verifier}
WORKSPACE=$(pwd)
export WORKSPACE
unset PYTEST_ADDOPTS PYTEST_PLUGINS PYTHONSTARTUP
export PYTEST_DISABLE_PLUGIN_AUTOLOAD=1 PYTHONDONTWRITEBYTECODE=1

mkdir -p "$verifier"
rm -f "$verifier/reward.txt" "$verifier/reward.json"
cd "$tests" || exit 1
if python -P -m pytest -p no:cacheprovider --noconftest -c "$tests/pytest.ini" --rootdir "$tests" "$tests" \
    >"$verifier/pytest.log" 2>&1; then
    reward=1
else
    reward=0
fi
tail -n 60 "$verifier/pytest.log"
echo "$reward" >"$verifier/reward.txt"

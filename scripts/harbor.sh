#!/usr/bin/env bash
# Validates our trajectories with Harbor's own validator, runs our agent in Harbor from the wheel, and runs an agent of
# Harbor in a bench. All of this uses a separate environment, because Harbor needs Python 3.12 or later: the first one
# found, or the one in PYTHON.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
unset PYTHONPATH PYTHONHOME
scripts/setup.sh test

place=${XDG_CACHE_HOME:-$HOME/.cache}/stackmem/harbor
if [[ ! -x $place/bin/python ]]; then
    if ! .venv/bin/uv venv --quiet --no-python-downloads --python "${PYTHON:->=3.12}" "$place"; then
        echo "scripts/harbor.sh: missing Python 3.12 or later; install it, or pass its path: PYTHON=/path/to/python3.12" >&2
        exit 1
    fi
fi
.venv/bin/uv pip install --quiet --require-hashes --python "$place/bin/python" -r scripts/locks/harbor.lock
wheel=$(mktemp -d)
trap 'rm -rf "$wheel"' EXIT
scripts/wheel.sh -d "$wheel" >/dev/null
HARBOR_PYTHON=$place/bin/python HARBOR_WHEEL=$(echo "$wheel"/*.whl) STACKMEM_CAMPAIGN=1 \
    .venv/bin/python -m pytest tests/formats/test_export_atif.py tests/doors/test_harbor.py tests/lab/bench/test_agent.py \
    -k 'harbors or harbor_itself' "$@"

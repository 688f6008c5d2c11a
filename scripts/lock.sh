#!/usr/bin/env bash
# Writes requirements.lock and requirements-dev.lock: every version and hash, for Python 3.11 and later, no address.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
unset PYTHONPATH PYTHONHOME
scripts/setup.sh test

compile() {
    .venv/bin/uv pip compile pyproject.toml --universal --python-version 3.11 --generate-hashes --no-header \
        --no-emit-index-url --no-emit-find-links --no-emit-index-annotation --custom-compile-command "make lock" --upgrade --quiet "$@"
}

compile --group build --output-file requirements.lock
compile --group build --group dev --all-extras --constraint requirements.lock --output-file requirements-dev.lock

#!/usr/bin/env bash
# Writes the four locks with all versions and hashes, for Python 3.11 and later, without addresses.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
unset PYTHONPATH PYTHONHOME
scripts/setup.sh test

compile() {
    .venv/bin/uv pip compile --universal --python-version 3.11 --generate-hashes --no-header \
        --no-emit-index-url --no-emit-find-links --no-emit-index-annotation --custom-compile-command "make lock" --upgrade --quiet "$@"
}

compile pyproject.toml --group build --output-file requirements.lock
compile pyproject.toml --group build --group dev --all-extras --constraint requirements.lock --output-file requirements-dev.lock
compile pyproject.toml --group build --extra acp --extra bench --extra gateway --extra mcp --extra openai --extra ui \
    --constraint requirements-dev.lock --output-file requirements-install.lock
compile --group release --constraint requirements-dev.lock --output-file requirements-release.lock

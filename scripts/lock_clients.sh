#!/usr/bin/env bash
# Writes the locks of the agents that scripts/clients.sh and scripts/harbor.sh install, with all versions and hashes,
# without addresses.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
unset PYTHONPATH PYTHONHOME
scripts/setup.sh test

for names in scripts/locks/*.in; do
    python=3.11
    [[ $names != */harbor.in ]] || python=3.12
    .venv/bin/uv pip compile --universal --python-version "$python" --generate-hashes --no-header --no-annotate \
        --no-emit-index-url --no-emit-find-links --no-emit-index-annotation --upgrade --quiet \
        "$names" --output-file "${names%.in}.lock"
done
for project in scripts/locks/*/package.json; do
    (cd "${project%/*}" && npm install --package-lock-only --ignore-scripts --omit-lockfile-registry-resolved --no-audit --no-fund --silent)
done

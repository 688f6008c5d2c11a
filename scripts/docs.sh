#!/usr/bin/env bash
# Builds the documents as a site into dist/docs. A link that leads nowhere fails; no page asks another host for anything.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
unset PYTHONPATH PYTHONHOME
scripts/setup.sh test
NO_MKDOCS_2_WARNING=1 .venv/bin/python -m mkdocs build "$@" # --quiet would let dead links pass
echo "docs: open dist/docs/index.html"

#!/usr/bin/env bash
# Builds the documents as a site in dist/docs. Dead links fail, and pages do not load anything from other hosts.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
unset PYTHONPATH PYTHONHOME
scripts/setup.sh test
NO_MKDOCS_2_WARNING=1 .venv/bin/python -m mkdocs build "$@" # --quiet would hide dead links
echo "docs: open dist/docs/index.html"

#!/usr/bin/env bash
# Writes the locks of the agents that scripts/clients.sh and scripts/harbor.sh install: the newest versions, with all
# hashes, without addresses.
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
    folder=${project%/*}
    name=$(.venv/bin/python -c 'import json, sys; print(*json.load(open(sys.argv[1]))["dependencies"])' "$project")
    rm -f "$folder/package-lock.json"
    (cd "$folder" && npm install --package-lock-only --ignore-scripts --omit-lockfile-registry-resolved --no-audit --no-fund \
        --loglevel error --save-exact "$name@latest")
    # `npm ci` refuses a lock without an optional package of another platform, which a registry may not have.
    .venv/bin/python - "$folder/package-lock.json" <<'TRIM'
import json
import sys
from pathlib import Path

lock = Path(sys.argv[1])
value = json.loads(lock.read_text("utf-8"))
locked = {place.rpartition("node_modules/")[2] for place in value["packages"]}
for package in value["packages"].values():
    optional = package.pop("optionalDependencies", {})
    if kept := {name: version for name, version in optional.items() if name in locked}:
        package["optionalDependencies"] = kept
lock.write_text(json.dumps(value, indent=2) + "\n", "utf-8")
TRIM
done

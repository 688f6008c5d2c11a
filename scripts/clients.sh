#!/usr/bin/env bash
# Installs third-party agents, each into its own folder in the cache, and runs each behind a gateway under every
# strategy, with a scripted provider on loopback: first on a short task, then on a job of 13 steps whose record is
# compared with the provider's own sums. Without names the second table replaces that of docs/gateway.md. Versions and
# hashes are in scripts/locks, which
# scripts/lock_clients.sh writes. Names select agents: scripts/clients.sh codex aider
set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
unset PYTHONPATH PYTHONHOME
scripts/setup.sh test || exit 1

place=${XDG_CACHE_HOME:-$HOME/.cache}/stackmem/clients
wanted=("$@")

wants() { ((!${#wanted[@]})) || [[ " ${wanted[*]} " == *" $1 "* ]]; }
missing() { echo "scripts/clients.sh: $1 is skipped, because its installation failed ($2)" >&2; }

python_agent() {
    wants "$1" || return 0
    [[ -x $place/$1/bin/python ]] || .venv/bin/uv venv --quiet --no-python-downloads "$place/$1" || { missing "$1" venv; return 0; }
    .venv/bin/uv pip install --quiet --require-hashes --python "$place/$1/bin/python" -r "scripts/locks/$1.lock" || missing "$1" uv
}

node_agent() {
    wants "$1" || return 0
    command -v npm >/dev/null || { missing "$1" "missing npm"; return 0; }
    mkdir -p "$place/$1"
    cp "scripts/locks/$1/package.json" "scripts/locks/$1/package-lock.json" "$place/$1/"
    npm ci --silent --no-audit --no-fund --prefix "$place/$1" ||
        missing "$1" "npm ci; if the lock lacks packages, run scripts/lock_clients.sh"
}

for name in langgraph pydantic-ai smolagents mini-swe-agent aider; do python_agent "$name"; done
for name in claude-code codex qwen-code opencode gemini-cli; do node_agent "$name"; done

export STACKMEM_CLIENTS=$place
.venv/bin/python -m tests.doors.gateway.clients.table "$@" || exit 1
write=()
((!$#)) && write=(--write docs/gateway.md)
exec .venv/bin/python -m tests.doors.gateway.clients.claims "$@" "${write[@]}"

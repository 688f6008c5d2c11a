#!/usr/bin/env bash
# Installs third-party agents, each into its own folder in STACKMEM_CLIENTS (default: a folder of the cache), and runs
# each behind a gateway with a scripted provider on loopback: first on a short task, then, under every strategy, on a
# job of 14 steps whose record is compared with the provider's own sums. Versions and hashes are in scripts/locks, which
# scripts/lock_clients.sh writes.
#
# Names select agents: scripts/clients.sh codex aider. Without names the tables replace those of docs/gateway.md.
# Finished jobs are kept in STACKMEM_CLIENTS/results, so a run that was stopped continues. With STACKMEM_MINUTES=14 no
# job starts after so many minutes.
set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
unset PYTHONPATH PYTHONHOME
scripts/setup.sh test || exit 1

place=${STACKMEM_CLIENTS:-${XDG_CACHE_HOME:-$HOME/.cache}/stackmem/clients}
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
    cmp -s "scripts/locks/$1/package-lock.json" "$place/$1/installed.json" && return 0
    mkdir -p "$place/$1"
    cp "scripts/locks/$1/package.json" "scripts/locks/$1/package-lock.json" "$place/$1/"
    if npm ci --loglevel error --no-audit --no-fund --prefix "$place/$1" >/dev/null; then
        cp "scripts/locks/$1/package-lock.json" "$place/$1/installed.json"
    else
        missing "$1" "npm ci; if the lock lacks packages, run scripts/lock_clients.sh"
    fi
}

for name in langgraph pydantic-ai smolagents mini-swe-agent aider; do python_agent "$name"; done
for name in claude-code codex qwen-code opencode gemini-cli; do node_agent "$name"; done

export STACKMEM_CLIENTS=$place
flags=(--results "$place/results" --minutes "${STACKMEM_MINUTES:-inf}")
(($#)) || flags+=(--write docs/gateway.md)
.venv/bin/python -m tests.doors.gateway.clients.table "$@" "${flags[@]}" \
    --strategies mask:2,poll=2 window:3,step=2 rolling_summary:3 || exit 1
exec .venv/bin/python -m tests.doors.gateway.clients.claims "$@" "${flags[@]}"

#!/usr/bin/env bash
# Installs agents that nobody here wrote, each into a folder of its own under the cache folder, and has each work behind
# a gateway under every strategy, against a scripted provider on loopback. Names narrow it: scripts/clients.sh codex aider
set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
unset PYTHONPATH PYTHONHOME
scripts/setup.sh test || exit 1

place=${XDG_CACHE_HOME:-$HOME/.cache}/stackmem/clients
wanted=("$@")

wants() { ((!${#wanted[@]})) || [[ " ${wanted[*]} " == *" $1 "* ]]; }
missing() { echo "scripts/clients.sh: $1 is left out: it could not be installed ($2)" >&2; }

python_agent() {
    local name=$1
    shift
    wants "$name" || return 0
    [[ -x $place/$name/bin/python ]] || .venv/bin/uv venv --quiet --no-python-downloads "$place/$name" || { missing "$name" venv; return 0; }
    .venv/bin/uv pip install --quiet --python "$place/$name/bin/python" "$@" || missing "$name" uv
}

node_agent() {
    wants "$1" || return 0
    command -v npm >/dev/null || { missing "$1" "there is no npm"; return 0; }
    mkdir -p "$place/$1"
    npm install --silent --no-audit --no-fund --prefix "$place/$1" "$2" || missing "$1" npm
}

python_agent langgraph langgraph langchain langchain-anthropic
python_agent pydantic-ai 'pydantic-ai-slim[anthropic]'
python_agent smolagents 'smolagents[openai]'
python_agent mini-swe-agent mini-swe-agent
python_agent aider aider-chat
node_agent claude-code @anthropic-ai/claude-code
node_agent codex @openai/codex
node_agent qwen-code @qwen-code/qwen-code
node_agent opencode opencode-ai

STACKMEM_CLIENTS=$place exec .venv/bin/python -m tests.gateway.clients.table "$@"

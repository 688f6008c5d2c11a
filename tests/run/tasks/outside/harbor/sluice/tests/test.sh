#!/bin/sh
verifier=${VERIFIER_DIR:-/logs/verifier}
mkdir -p "$verifier"
if [ "$(cat open.txt 2>/dev/null)" = middle ]; then reward=1; else reward=0; fi
echo "$reward" >"$verifier/reward.txt"

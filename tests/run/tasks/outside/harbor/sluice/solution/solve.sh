#!/bin/sh
set -eu
for log in gates/*.log; do
    if [ "$(tail -n 1 "$log")" = opened ]; then basename "$log" .log >open.txt; fi
done

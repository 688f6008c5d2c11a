#!/bin/sh
set -eu
here=$(cd "$(dirname "$0")" && pwd)
cp "$here"/ledger/*.py src/ledger/
cp "$here"/tests/*.py tests/
python tools/check.py

#!/bin/sh
set -eu
here=$(cd "$(dirname "$0")" && pwd)
mkdir -p src tests
cp "$here/calculator.py" src/calculator.py
cp "$here/test_calculator.py" tests/test_calculator.py

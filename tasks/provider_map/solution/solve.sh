#!/bin/sh
set -eu
here=$(cd "$(dirname "$0")" && pwd)
cp "$here"/parcels/*.py src/parcels/

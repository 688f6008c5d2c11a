#!/bin/sh
set -eu
here=$(cd "$(dirname "$0")" && pwd)
mkdir -p relay/settings
cp "$here"/relay/*.py relay/
cp "$here"/relay/settings/*.py relay/settings/
rm relay/config.py

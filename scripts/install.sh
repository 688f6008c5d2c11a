#!/usr/bin/env bash
# Links `stackmem` into ~/.local/bin (or $BIN) and installs the everyday extras: openai, acp, mcp, ui, gateway and bench.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
unset PYTHONPATH PYTHONHOME
say() { echo "install: $*" >&2; }

bin=${BIN:-$HOME/.local/bin}
link=$bin/stackmem
if [ -e "$link" ] && [ ! -L "$link" ]; then
    say "$link is not a link; remove it, or choose another folder: make install BIN=/path/to/folder"
    exit 2
fi
scripts/setup.sh run
if ! .venv/bin/python -m pip install --quiet --no-input --disable-pip-version-check --require-hashes \
    --only-binary :all: --no-deps --requirement requirements-install.lock; then
    say "pip failed (see above); check the network and the settings of pip; then run make install again"
    exit 2
fi
mkdir -p "$bin"
ln -sfn "$PWD/.venv/bin/stackmem" "$link"
say "linked $link; it runs this checkout"
case ":$PATH:" in
*":$bin:"*) ;;
*) say "$bin is not in PATH; add this line to your shell's profile: export PATH=\"$bin:\$PATH\"" ;;
esac

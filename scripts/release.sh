#!/usr/bin/env bash
# Builds the release artifacts of the last commit in dist/: wheel, source distribution, bill of materials, checksums.
#
# Everything is built twice, with different folders, umasks and time zones, and the results must be identical. The wheel
# is tested in an empty environment of each Python found, the source distribution in one. Missing versions are reported.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
unset PYTHONPATH PYTHONHOME
scripts/setup.sh run

give_up() { echo "release: $*" >&2; exit 1; }
say() { echo "release: $*"; }

here=$PWD
git diff --quiet HEAD || give_up "there are uncommitted changes, but a release needs a commit; commit or stash them"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

build() { # build FOLDER MASK ZONE
    mkdir -p "$work/$1/tree"
    git archive HEAD | tar -x -C "$work/$1/tree"
    (
        umask "$2"
        cd "$work/$1/tree"
        TZ=$3 SOURCE_DATE_EPOCH=$(git -C "$here" log -1 --format=%ct) \
            "$here/.venv/bin/python" -m hatchling build --target wheel --target sdist --directory "$work/$1/dist" >/dev/null
    )
}
build one 022 UTC
build another/place 077 Asia/Tokyo
diff -r "$work/one/dist" "$work/another/place/dist" || give_up "two builds of one commit differ"
say "two builds are identical"

wheel=$(echo "$work"/one/dist/*.whl)
sdist=$(echo "$work"/one/dist/*.tar.gz)

try() { # try PYTHON FILE: uses a fresh environment with the locked packages and a separate home
    local place
    place=$(mktemp -d -p "$work")
    "$1" -m venv "$place/venv"
    PIP_DISABLE_PIP_VERSION_CHECK=1
    export PIP_DISABLE_PIP_VERSION_CHECK
    "$place/venv/bin/pip" install --quiet --require-hashes --only-binary :all: --requirement requirements.lock
    "$place/venv/bin/pip" install --quiet --no-deps --no-index --no-build-isolation "$2"
    (
        cd "$place"
        export HOME=$place/home XDG_STATE_HOME=$place/state XDG_CONFIG_HOME=$place/config
        "$place/venv/bin/stackmem" solve calculator --model demo --quiet >/dev/null
        "$place/venv/bin/stackmem" replay last >/dev/null
    )
    environment=$place/venv
}

tried=()
for version in 3.11 3.12 3.13 3.14; do
    if ! "python$version" -I -c 'import ensurepip, venv' 2>/dev/null; then
        say "python$version: skipped, because it or its venv module is not installed"
        continue
    fi
    try "python$version" "$wheel"
    say "python$version: the wheel solves the calculator, and the run replays"
    tried+=("$version")
done
((${#tried[@]})) || give_up "missing a Python to test the wheel; install python3.11 or later with venv"
try "python${tried[0]}" "$sdist"
say "python${tried[0]}: the source distribution does the same"

"python${tried[0]}" -m venv "$work/bom"
"$work/bom/bin/pip" install --quiet --require-hashes --only-binary :all: --requirement requirements-release.lock
mkdir -p dist
rm -f dist/*.whl dist/*.tar.gz dist/*.cdx.json dist/SHA256SUMS
cp "$wheel" "$sdist" dist/
name=$(basename "$sdist" .tar.gz)
"$work/bom/bin/cyclonedx-py" environment --pyproject pyproject.toml --mc-type application --output-reproducible \
    --output-file "dist/$name.cdx.json" "$environment"
(cd dist && sha256sum -- *.whl *.tar.gz *.cdx.json >SHA256SUMS && cat SHA256SUMS)

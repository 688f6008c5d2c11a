#!/usr/bin/env bash
# Solves tasks/calculator with its scripted model. Arguments are passed to `stackmem solve`.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
unset PYTHONPATH PYTHONHOME
if [[ " $* " =~ --isolation[=\ ](namespaces|landlock|none)\  ]]; then
    export WITHOUT=bubblewrap # a user who selects a weaker level may not be allowed to install bubblewrap
fi
scripts/setup.sh run
unset STACKMEM_SUDO # only for the set-up: stackmem rejects STACKMEM_* variables that are not settings

isolation=()
if [[ " $* " != *" --isolation"* ]] && ! reason=$(.venv/bin/python -I -c '
import sys
from stackmem.core.errors import WorkspaceError
from stackmem.workspace.isolation.levels import choose
from stackmem.workspace.profile import Profile
try:
    choose("auto", Profile())
except WorkspaceError as error:
    sys.exit(str(error))
' 2>&1); then
    echo "solve: $reason" >&2
    echo "solve: neither bubblewrap nor namespaces work here; using --isolation landlock, which is safe for this demo" >&2
    isolation=(--isolation landlock)
fi
exec .venv/bin/stackmem solve tasks/calculator --model demo "${isolation[@]}" "$@"

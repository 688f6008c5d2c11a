"""``python -m tests.unchanged -- make test``: run a command and list every file of the machine that it changed.

Compares kind, mode, owner, size, and the modification and change times of all files before and after. The checkout, the
temporary folders, the user's caches and virtual file systems are left out. Other programs must be idle meanwhile;
exclude folders that they write with ``--except``. Exits with 1 if anything differs, otherwise with the command's exit
code.
"""

import argparse
import os
import pwd
import subprocess
import sys
from collections.abc import Collection
from pathlib import Path

from tests.confinement import writable_folders

HOME = Path(pwd.getpwuid(os.getuid()).pw_dir)
VIRTUAL = tuple(map(Path, ("/proc", "/sys", "/dev", "/run")))
CACHES = (HOME / ".cache", HOME / ".npm")

State = tuple[int, int, int, int, int, int]


def states(root: Path, left_out: Collection[Path]) -> dict[str, State]:
    """Map each path below ``root`` to what ``lstat`` returns; an unreadable folder is recorded without its content."""
    omitted = {os.fspath(place) for place in left_out}
    found: dict[str, State] = {}
    waiting = [os.fspath(root)]
    while waiting:
        try:
            entries = list(os.scandir(waiting.pop()))
        except OSError:
            continue
        for entry in entries:
            if entry.path in omitted:
                continue
            try:
                seen = entry.stat(follow_symlinks=False)
            except OSError:
                continue
            is_folder = entry.is_dir(follow_symlinks=False)
            # A folder's own times change with its entries, which are compared separately.
            size, changed = (0, 0) if is_folder else (seen.st_size, seen.st_ctime_ns)
            found[entry.path] = (
                seen.st_mode,
                seen.st_uid,
                seen.st_gid,
                size,
                0 if is_folder else seen.st_mtime_ns,
                changed,
            )
            if is_folder:
                waiting.append(entry.path)
    return found


def differences(before: dict[str, State], after: dict[str, State]) -> list[str]:
    return [
        f"{'added' if path not in before else 'removed' if path not in after else 'changed'} {path}"
        for path in sorted({*before, *after})
        if before.get(path) != after.get(path)
    ]


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.unchanged")
    parser.add_argument("--root", type=Path, default=Path("/"))
    parser.add_argument("--except", dest="omitted", type=Path, action="append", default=[], metavar="FOLDER")
    parser.add_argument("command", nargs="+")
    given = parser.parse_args()
    left_out = (*writable_folders(), *VIRTUAL, *CACHES, *given.omitted)
    before = states(given.root, left_out)
    code = subprocess.run(given.command, check=False).returncode
    found = differences(before, states(given.root, left_out))
    sys.stdout.write("".join(f"{line}\n" for line in found))
    sys.stdout.write(
        f"unchanged: {len(before):,} files compared, {len(found):,} differ; the command exited with {code}\n"
    )
    return 1 if found else code


if __name__ == "__main__":
    sys.exit(main())

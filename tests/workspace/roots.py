"""A small base system for image tests: programs of this machine with their libraries, and no other files of it."""

import re
import shutil
import subprocess
from functools import cache
from pathlib import Path

PROGRAMS = (
    "bash",
    "cat",
    "chmod",
    "chown",
    "cp",
    "grep",
    "id",
    "ln",
    "ls",
    "mkdir",
    "mv",
    "rm",
    "sleep",
    "tar",
    "touch",
)


def small_base(folder: Path, programs: tuple[str, ...] = PROGRAMS) -> Path:
    """Create a root with a shell below a new folder."""
    (folder / "usr" / "bin").mkdir(parents=True)
    (folder / "bin").symlink_to("usr/bin")
    (folder / "etc").mkdir()
    (folder / "etc" / "passwd").write_text("root:x:0:0::/root:/bin/bash\ndev:x:1001:1001::/home/dev:/bin/bash\n")
    for name in programs:
        found = shutil.which(name, path="/usr/bin:/bin")
        assert found is not None, f"{name} is not on this machine"
        shutil.copy(found, folder / "usr" / "bin" / name)
        for library in _libraries(found):
            place = folder / library.lstrip("/")
            place.parent.mkdir(parents=True, exist_ok=True)
            if not place.exists():
                shutil.copy(library, place)
    (folder / "usr" / "bin" / "sh").symlink_to("bash")
    return folder


@cache
def _libraries(program: str) -> tuple[str, ...]:
    told = subprocess.run(["ldd", program], capture_output=True, text=True, check=False).stdout
    return tuple(re.findall(r"(/\S+) \(0x", told))

"""A temporary folder for benchmarks."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

_PLACES = {
    "HOME": "home", "XDG_CACHE_HOME": "home/.cache", "XDG_CONFIG_HOME": "home/.config",
    "XDG_DATA_HOME": "home/.local/share", "XDG_STATE_HOME": "home/.local/state", "TMPDIR": "tmp",
}  # fmt: skip


@contextmanager
def own_folder(place: Path | None = None) -> Iterator[Path]:
    """Create a temporary folder that is also the home of this process and the temporary folder of its children.

    Args:
        place: The parent folder.
    """
    before = {name: os.environ.get(name) for name in _PLACES}
    tempfile.gettempdir()  # caches the original folder, so that files removed at exit are created outside the new one
    with tempfile.TemporaryDirectory(prefix="stackmem-benchmark-", dir=place, ignore_cleanup_errors=True) as name:
        root = Path(name).resolve()
        for folder in ("work", *_PLACES.values()):
            (root / folder).mkdir(parents=True, exist_ok=True)
        os.environ.update({variable: str(root / folder) for variable, folder in _PLACES.items()})
        try:
            yield root / "work"
        finally:
            for variable, value in before.items():
                if value is None:
                    os.environ.pop(variable, None)
                else:
                    os.environ[variable] = value

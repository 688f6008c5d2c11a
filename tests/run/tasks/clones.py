"""The clone named in the SWE-bench record among the outside tasks; its commit is reproducible."""

import os
import shutil
import subprocess
from pathlib import Path

OUTSIDE = Path(__file__).parent / "outside"
WHEN = "2026-11-20T12:00:00Z"


def git(folder: Path, *arguments: str) -> str:
    who = {"GIT_AUTHOR_NAME": "stackmem", "GIT_AUTHOR_EMAIL": "tests@example.org", "GIT_AUTHOR_DATE": WHEN}
    who |= {name.replace("AUTHOR", "COMMITTER"): value for name, value in who.items()}
    nothing = {"GIT_CONFIG_NOSYSTEM": "1", "GIT_CONFIG_GLOBAL": os.devnull, "PATH": os.environ["PATH"]}
    done = subprocess.run(
        ["git", *arguments], cwd=folder, env=who | nothing, capture_output=True, text=True, check=True
    )
    return done.stdout.strip()


def soundings(place: Path) -> Path:
    """Create a clone with the record's base commit, and a later one, which no task may reveal."""
    shutil.copytree(OUTSIDE / "swebench" / "repo", place, ignore=shutil.ignore_patterns("__pycache__"))
    for path in place.rglob("*"):
        path.chmod(0o755 if path.is_dir() else 0o644)
    git(place, "init", "--quiet", "--initial-branch=main", "--object-format=sha1")
    git(place, "add", "--all")
    git(place, "commit", "--quiet", "--message=soundings")
    (place / "LATER.md").write_text("what came afterwards\n")
    git(place, "add", "--all")
    git(place, "commit", "--quiet", "--message=later")
    return place

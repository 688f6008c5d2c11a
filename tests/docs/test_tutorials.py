"""The tutorials run as written, from top to bottom, and print what they show."""

import re
import subprocess
from collections.abc import Iterator, Mapping
from itertools import groupby
from pathlib import Path

import pytest

from tests.docs.test_pages import DOCS, RECORDED, environ, read, shell
from tests.doors.chat.tmux import Tmux, until
from tests.stage import ROOT

TUTORIALS = sorted((DOCS / "tutorials").glob("*.md"))
PART = re.compile(r"<!-- (?P<kind>runs|typed) -->\n```(?:sh|text)\n(?P<body>.*?)```", re.S)


def parts(page: str) -> Iterator[tuple[str, list[str]]]:
    """Return a reader's actions in order: shell blocks that run in one shell, or a block typed at a terminal."""
    for kind, blocks in groupby(PART.finditer(page), key=lambda found: found["kind"]):
        bodies = [found["body"] for found in blocks]
        yield from ((kind, [body]) for body in bodies) if kind == "typed" else [(kind, bodies)]


def type_in(transcript: str, folder: Path, variables: Mapping[str, str]) -> None:
    """Start the command after ``$``, type the text after ``>``, and wait for every other line."""
    first, *lines = transcript.splitlines()
    window = Tmux(folder, ["bash", "-c", f"{first.removeprefix('$ ')}; sleep 600"], folder, variables)
    try:
        for line in lines:
            if not line.startswith("> "):
                window.wait_for(line)
                continue
            # An idle conversation shows its figures below the line; a busy one shows a spinner before them.
            until(lambda: any(row.startswith(("context ", "starting")) for row in window.screen()), window.history)
            window.type("C-u")  # restored by an undo
            window("send-keys", "-t", "t", "-l", line.removeprefix("> "))
            window.type("Enter")
        window.wait_for("continue with: stackmem chat --resume")
    finally:
        subprocess.run(["tmux", "-S", window.socket, "kill-server"], capture_output=True, check=False)


@pytest.mark.parametrize("page", TUTORIALS, ids=[page.stem for page in TUTORIALS])
def test_a_tutorial_runs_as_it_is_written(page, tmp_path, home):
    (tmp_path / "tasks").symlink_to(ROOT / "tasks")
    variables = environ(home) | {"STACKMEM_RUNS_DIR": str(tmp_path / "runs")}
    done = list(parts(read(page)))
    assert sum(len(bodies) for _, bodies in done) > 3
    said = ""
    for kind, bodies in done:
        if kind == "typed":
            type_in(bodies[0], tmp_path, variables)
            continue
        ran = shell("\n".join(bodies), tmp_path, variables)
        assert ran.returncode == 0, ran.stdout[-3_000:] + ran.stderr[-3_000:]
        said += ran.stdout + ran.stderr
    recorded = [line for block in RECORDED.findall(read(page)) for line in block.splitlines()]
    assert [line for line in recorded if line not in said] == []

"""A conversation in tmux."""

import subprocess
import sys
from collections.abc import Callable, Iterator

import pytest

from tests.stage import Stage

from .tmux import Tmux


@pytest.fixture
def tmux(stage: Stage) -> Iterator[Callable[..., Tmux]]:
    opened: list[Tmux] = []

    def chat(*arguments: str) -> Tmux:
        folder = stage.root / "mine"
        folder.mkdir(exist_ok=True)
        (folder / "a.txt").write_text("one\n")
        line = [sys.executable, "-m", "stackmem", "chat", *arguments]
        opened.append(Tmux(stage.root, line, folder, stage.environ()))
        return opened[-1]

    yield chat
    for each in opened:
        subprocess.run(["tmux", "-S", each.socket, "kill-server"], capture_output=True, check=False)

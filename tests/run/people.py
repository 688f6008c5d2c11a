"""Simulated users: their messages, permissions and stops come from a list, and they leave at its end."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import stackmem
from stackmem.core.person_facts import PersonDecided, PersonSteppedIn, PersonStopped, SessionRules
from stackmem.core.requests import AskPermission, AskUser
from stackmem.run.ports import Left
from stackmem.run.prepare import prepare
from stackmem.run.result import RunResult
from stackmem.run.solve import solve

Meanwhile = PersonSteppedIn | PersonStopped | None


class Scripted:
    """A user with a script.

    Attributes:
        asked: Every question the user received.
    """

    def __init__(
        self,
        *requests: str,
        answers: Sequence[str | None] = (),
        decisions: Sequence[PersonDecided] = (),
        meanwhile: Callable[[int], Meanwhile] = lambda _: None,
    ) -> None:
        self._requests, self._answers, self._decisions = list(requests), list(answers), list(decisions)
        self._meanwhile, self._looked = meanwhile, 0
        self.asked: list[AskUser | AskPermission] = []

    def attend(self, run_dir: Path) -> None:
        self.run_dir = run_dir

    def request(self) -> str:
        if not self._requests:
            raise Left
        return self._requests.pop(0)

    def answer(self, asked: AskUser) -> str | None:
        self.asked.append(asked)
        if not self._answers:
            raise Left
        return self._answers.pop(0)

    def decide(self, asked: AskPermission) -> PersonDecided:
        self.asked.append(asked)
        if not self._decisions:
            raise Left
        return self._decisions.pop(0)

    def poll_user(self) -> Meanwhile:
        self._looked += 1
        return self._meanwhile(self._looked)


def talk(
    stage: Any, person: Any, script: str, rules: SessionRules | None = None, observe: Any = None, **flags: Any
) -> RunResult:
    """Hold a conversation about a small private folder, in this process."""
    folder = Path(stage.root) / "mine"
    if not folder.exists():
        folder.mkdir()
        (folder / "a.txt").write_text("one\n", encoding="utf-8")
    given = {
        "model": script, "runs_dir": str(stage.runs), "sandbox_dir": str(stage.work), "fsync": "none",
        "network": "none", **flags,
    }  # fmt: skip
    prepared = prepare(str(folder), None, given, os.environ, Path.cwd(), rules or SessionRules())
    return solve(prepared, os.environ, observe, person=person)


def replayed(result: RunResult) -> int:
    return stackmem.replay(result.run_dir).prompts

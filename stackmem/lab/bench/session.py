"""A trial as a conversation: a simulated person asks for a world's requests, in one session or in a new one for each.

She comes through the port of real persons and says nothing but her requests; what the agent asks, she leaves to it.
"""

from __future__ import annotations

import shutil
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from msgspec.structs import replace

from stackmem.core.person_facts import SessionRules
from stackmem.core.requests import AskUser
from stackmem.core.strategy import has_frames
from stackmem.lab.worlds import manifest
from stackmem.memory import open_strategy
from stackmem.run.in_memory import open_in_memory, recall
from stackmem.run.models import Nobody
from stackmem.run.open import Observe
from stackmem.run.perform import World
from stackmem.run.ports import Left, Unattended
from stackmem.run.prepare import Prepared, as_session
from stackmem.run.result import RunResult
from stackmem.run.solve import solve
from stackmem.trace.lineage import RunReader
from stackmem.workspace.tree import remove_tree

from .plan import SessionKind

_HERS = "Decide that yourself; I know no more than I have said."


class Requester(Unattended):
    """Makes her requests in their order and leaves."""

    def __init__(self, requests: Sequence[str]) -> None:
        self._left = deque(requests)

    def request(self) -> str:
        if not self._left:
            raise Left
        return self._left.popleft()

    def answer(self, asked: AskUser) -> str | None:
        return _HERS


def converse(
    kind: SessionKind,
    folder: Path,
    prepare_at: Callable[[Path], Prepared],  # a run on the task in a folder
    variables: Mapping[str, str],
    observe: Observe,
    scratch: Path,  # where the world is kept as one session leaves it to the next
) -> RunResult:
    """The requests of the world in ``folder``, one after another; the result is that of the last session."""
    requests: list[str] = manifest(folder)["requests"]
    if kind != "new":
        prepared = _conversation(prepare_at(folder), kind)
        return solve(prepared, variables, observe, person=Requester(requests))
    for number, request in enumerate(requests, 1):
        prepared = _conversation(prepare_at(folder), "flat")
        result = solve(prepared, variables, observe, person=Requester([request]))
        if number == len(requests) or result.ending != "left":
            break
        folder = _as_left(prepared, result, folder, scratch / f"after-{number}")
    return result


def _conversation(prepared: Prepared, kind: SessionKind) -> Prepared:
    """What the task says to everybody stands with the instructions of a project; its last paragraph is the work."""
    framed = kind == "frame" and has_frames(open_strategy(prepared.resolved.settings.strategy))
    told = prepared.subject.text.rstrip().rpartition("\n\n")[0]
    return replace(as_session(prepared, SessionRules("frame" if framed else "flat")), instructions=told)


def _as_left(prepared: Prepared, result: RunResult, folder: Path, fresh: Path) -> Path:
    """The world with its files as a session left them; they were in memory, so its calls are performed once more."""
    workspace = open_in_memory(prepared.subject, None, str)
    world = World(Nobody(), workspace, None, str, lambda: None, prepared.resolved.settings.command_seconds)
    before = dict(workspace.files)
    recall(RunReader(Path(result.run_dir)), result.records, world)
    shutil.copytree(folder, fresh)
    for path, text in workspace.files.items():
        if before.get(path) != text:
            place = fresh / "environment" / "workspace" / path
            place.parent.mkdir(parents=True, exist_ok=True)
            place.write_text(text, encoding="utf-8")
    if folder.parent == fresh.parent:
        remove_tree(folder)
    return fresh

"""Run a trial as a conversation: a simulated user sends a world's requests, in one session or a new one for each.

The simulated user is connected in the same way as a real one and sends only the requests. It leaves every question of
the agent to the agent.
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
from stackmem.run.companion.kept_heap import KEEP
from stackmem.run.in_memory import open_in_memory, recall
from stackmem.run.models import Nobody
from stackmem.run.opened import Observe
from stackmem.run.perform import World
from stackmem.run.ports import Left, Unattended
from stackmem.run.prepare import as_session
from stackmem.run.request import Request
from stackmem.run.result import RunResult
from stackmem.run.solve import solve
from stackmem.trace.lineage import RunReader
from stackmem.workspace.project.instructions import Instructions
from stackmem.workspace.tree import remove_tree

from .plan import SessionKind

_HERS = "Decide that yourself; I know no more than I have said."


class Requester(Unattended):
    """Sends the requests in order and then leaves."""

    def __init__(self, requests: Sequence[str]) -> None:
        self._pending = deque(requests)

    def request(self) -> str:
        if not self._pending:
            raise Left
        return self._pending.popleft()

    def answer(self, question: AskUser) -> str | None:
        return _HERS


def converse(
    kind: SessionKind,
    folder: Path,
    prepare_at: Callable[[Path], Request],  # prepares a run for the task in a folder
    variables: Mapping[str, str],
    observe: Observe,
    scratch: Path,  # folder that carries the world from one session to the next
) -> RunResult:
    """Send the requests of the world in ``folder`` one by one. Returns the result of the last session."""
    requests: list[str] = manifest(folder)["requests"]
    if kind != "new":
        prepared = _conversation(prepare_at(folder), kind)
        return solve(prepared, variables, observe, person=Requester(requests))
    for number, request in enumerate(requests, 1):
        prepared = _keeping(_conversation(prepare_at(folder), "flat"), scratch)
        result = solve(prepared, variables, observe, person=Requester([request]))
        if number == len(requests) or result.ending != "left":
            break
        folder = _as_left(prepared, result, folder, scratch / f"after-{number}")
    return result


def _conversation(prepared: Request, kind: SessionKind) -> Request:
    """Prepare a session.

    The task's text becomes project instructions, except for its last paragraph, which is the work.
    """
    framed = kind == "frame" and has_frames(open_strategy(prepared.resolved.settings.strategy))
    instructions_text = prepared.subject.text.rstrip().rpartition("\n\n")[0]
    return replace(
        as_session(prepared, SessionRules("frame" if framed else "flat")), instructions=Instructions(instructions_text)
    )


def _keeping(prepared: Request, scratch: Path) -> Request:
    """Let ``heap = "keep"`` keep chunks and memory files for the next sessions of the trial."""
    resolved = prepared.resolved
    if resolved.settings.heap != KEEP:
        return prepared
    settings = replace(resolved.settings, heap=str(scratch / "kept.jsonl"))
    return replace(prepared, resolved=replace(resolved, settings=settings))


def _as_left(prepared: Request, result: RunResult, folder: Path, fresh: Path) -> Path:
    """Copy the world with its files as a session left them.

    The files existed only in memory, so the session's calls are performed again.
    """
    workspace = open_in_memory(prepared.subject, None, str)
    world = World(Nobody(), workspace, None, str, lambda: None, prepared.resolved.settings.command_seconds)
    before = dict(workspace.files)
    recall(RunReader(Path(result.run_dir)), result.records, world)
    shutil.copytree(folder, fresh)
    for path, text in workspace.files.items():
        if before.get(path) != text:
            target = fresh / "environment" / "workspace" / path
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_text(text, encoding="utf-8")
    if folder.parent == fresh.parent:
        remove_tree(folder)
    return fresh

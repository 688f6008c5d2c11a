"""Plays a task's demo in a plain folder: the machine and the scripted model are real, the sandbox is left out."""

from __future__ import annotations

import hashlib
import os
import subprocess
from pathlib import Path
from typing import assert_never

from msgspec import Struct

from stackmem.core.facts import CallRejected, ClockRead, Event, RunEnded, SourcesDigested, ToolReturned, VerifyReturned
from stackmem.core.machine import advance, evolve
from stackmem.core.requests import AskModel, DigestSources, Effect, ReadClock, RunChecks, UseTool, Verify
from stackmem.core.state import State
from stackmem.core.tools import ListFiles, ReadFile, RunCommand, WorkspaceCall, WriteFile
from stackmem.memory import open_strategy
from stackmem.models.scripted import ScriptedModel
from stackmem.tasks.reader import Task
from tests.build import started


class Played(Struct, frozen=True):
    events: list[Event]
    end: RunEnded | None

    @property
    def rejected(self) -> list[str]:
        return [event.reason for event in self.events if isinstance(event, CallRejected)]


class PlainFolder(Struct, frozen=True):
    root: Path
    environ: dict[str, str]
    model: ScriptedModel

    def perform(self, effect: Effect) -> Event:
        match effect:
            case AskModel():
                return self.model.reply(effect)
            case UseTool():
                text, code = self.use(effect.call)
                return ToolReturned(text, bool(code), code, self.digests(effect.sources))
            case Verify():
                text, code = self.run(effect.command)
                return VerifyReturned(f"exit {code}", text, self.digests(effect.sources))
            case DigestSources():
                return SourcesDigested(self.digests(effect.sources))
            case ReadClock():
                return ClockRead(0.0)
            case RunChecks():
                raise AssertionError("the demo is checked by the test")
            case _:
                assert_never(effect)

    def use(self, call: WorkspaceCall) -> tuple[str, int | None]:
        match call:
            case ReadFile():
                return (self.root / call.path).read_text(encoding="utf-8"), None
            case WriteFile():
                (self.root / call.path).write_text(call.content, encoding="utf-8")
                return f"wrote {call.path}", None
            case ListFiles():
                return "\n".join(sorted(os.listdir(self.root / call.path))), None
            case RunCommand():
                return self.run(call.command)
            case _:
                assert_never(call)

    def run(self, command: str) -> tuple[str, int]:
        done = subprocess.run(
            ["/bin/bash", "-c", command],
            cwd=self.root,
            env=self.environ,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=100,
            check=False,
        )
        return done.stdout, done.returncode

    def digests(self, sources: tuple[str, ...]) -> dict[str, str]:
        return {path: hashlib.sha256((self.root / path).read_bytes()).hexdigest() for path in sources}


def play_demo(task: Task, workspace: Path, environ: dict[str, str]) -> Played:
    """The run of a task's demo in a workspace, which it changes."""
    assert task.demo is not None
    start = started("stackheap", task=task.instruction, task_name=task.short_name)
    strategy = open_strategy(start.strategy)
    world = PlainFolder(workspace, environ, ScriptedModel.from_file(task.demo))
    events: list[Event] = [start]
    state = evolve(State(), start)
    while (upcoming := advance(state, strategy)) is not None:
        event = world.perform(upcoming) if isinstance(upcoming, Effect) else upcoming
        events.append(event)
        state = evolve(state, event)
    return Played(events, state.end)

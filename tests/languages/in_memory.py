"""Runs a program in memory, with a function that answers its operations."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from msgspec import Struct

from stackmem.core.errors import Halted
from stackmem.core.program_facts import Note
from stackmem.core.requests import LoadSource, Wait
from stackmem.languages.operations import (
    Answer,
    ChunkAnswer,
    DropChunk,
    EnterFrame,
    Group,
    KeepChunk,
    LeaveFrame,
    ListChunks,
    Operation,
    Program,
    ReadChunk,
    Say,
    Source,
    Value,
)


class Done(Struct):
    """The outcome of a program.

    Attributes:
        happened: Every operation and note, in order.
        said: The texts it printed for the user.
        halted: Its fault, if any; ``value`` is then None.
        chunks: The heap at the end.
    """

    value: Value
    happened: list[Operation | Note]
    said: list[str]
    halted: Halted | None
    chunks: dict[str, str]


def run_in_memory(
    program: Program, answer: Callable[[Operation], Answer], sources: Mapping[str, str] | None = None
) -> Done:
    """Run ``program`` to its end.

    Args:
        answer: Returns the answer to every tool call, completion, frame and question.
        sources: Maps paths, as requested, to texts, for ``LoadSource``.
    """
    done = Done(None, [], [], None, {})
    sent: Answer = None
    try:
        while True:
            asked = program.send(sent)
            done.happened.append(asked)
            sent = None if isinstance(asked, Note) else _answered(asked, answer, sources or {}, done)
    except StopIteration as stop:
        done.value = stop.value
    except Halted as halted:
        done.halted = halted
    return done


def _answered(effect: Operation, answer: Callable[[Operation], Answer], sources: Mapping[str, str], done: Done) -> Any:
    match effect:
        case Group():
            return tuple(_answered(each, answer, sources, done) for each in effect.operations)
        case Say():
            done.said.append(effect.text)
            return None
        case EnterFrame() | LeaveFrame() | Wait():
            return None
        case LoadSource():
            found = sources.get(effect.path)
            return Source(effect.path, failed="No such file") if found is None else Source(effect.path, found)
        case KeepChunk():
            done.chunks[effect.name] = effect.content
            return ChunkAnswer()
        case ReadChunk() | DropChunk() if effect.name not in done.chunks:
            return ChunkAnswer(failed=f"unknown chunk {effect.name!r}")
        case ReadChunk():
            return ChunkAnswer(done.chunks[effect.name])
        case DropChunk():
            return ChunkAnswer(done.chunks.pop(effect.name))
        case ListChunks():
            return tuple((name, len(text), "") for name, text in done.chunks.items())
        case _:
            return answer(effect)

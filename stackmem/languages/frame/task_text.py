"""What the agent reads of the work that a program hands to it: the whole task, hints, inputs, and what to return."""

from __future__ import annotations

from typing import Any

from msgspec import json

from stackmem.core.budgets import PROGRAM_RESULT_CHARS
from stackmem.core.requests import InvokeTool
from stackmem.languages.operations import RunFrame

from .values import as_text

INPUT_CHARS = 20_000


def task_text(effect: RunFrame, frame: str) -> str:
    """The task as it stands in the first message of ``frame``; an input that is too long is named by its file."""
    parts = [effect.task]
    if effect.using:
        parts.append("HINTS\n" + "\n".join(f"- {hint}" for hint in effect.using))
    for name, value in effect.inputs.items():
        text = as_text(value)
        if len(text) > INPUT_CHARS:
            text = f"({len(text):,} characters, in the file {input_files(effect, frame)[name]})"
        parts.append(f"INPUT {name}\n{text}")
    if effect.returns:
        parts.append(f"RETURN\n{effect.returns}")
    end = f"When the work is done, call pop_frame; its result may have {PROGRAM_RESULT_CHARS:,} characters"
    if effect.schema is not None:
        end += f" and must be one JSON value that fits this JSON Schema:\n{schema_text(effect.schema)}"
    return "\n\n".join([*parts, end if effect.schema is not None else end + "."])


def words_after_task() -> str:
    """The words of ours that follow every task."""
    return task_text(RunFrame("", ""), "").strip().removesuffix(".")


def input_files(effect: RunFrame, frame: str) -> dict[str, str]:
    """Input to the file that it is written to when it is long; no two share one."""
    found: dict[str, str] = {}
    for name in effect.inputs:
        plain = "".join(char if char.isalnum() or char in "_.-" else "_" for char in name)[:64].strip(".") or "input"
        path = f".stackmem/in/{frame}/{plain}"
        found[name] = path if path not in found.values() else f"{path}-{len(found)}"
    return found


def long_inputs(effect: RunFrame, frame: str) -> tuple[InvokeTool, ...]:
    """The calls that write the inputs which are too long for the message."""
    texts = {name: as_text(value) for name, value in effect.inputs.items()}
    return tuple(
        InvokeTool("write_file", {"path": input_files(effect, frame)[name], "content": text, "parents": True})
        for name, text in texts.items()
        if len(text) > INPUT_CHARS
    )


def schema_text(schema: dict[str, Any] | None) -> str:
    return "" if schema is None else json.encode(schema).decode()

"""The text of a task that a program delegates to the agent: the task, hints, inputs, and the expected result."""

from __future__ import annotations

from typing import Any

from msgspec import json

from stackmem.core.budgets import PROGRAM_RESULT_CHARS
from stackmem.core.requests import InvokeTool
from stackmem.languages.operations import RunFrame

from .values import as_text

INPUT_CHARS = 20_000


def task_text(effect: RunFrame, frame: str) -> str:
    """Return the task for the first message of ``frame``. An input that is too long is replaced by its file's path."""
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
    """Return the fixed text that ends every task."""
    return task_text(RunFrame("", ""), "").strip().removesuffix(".")


def input_files(effect: RunFrame, frame: str) -> dict[str, str]:
    """Map each input to the file used if it is long. No two inputs share a file."""
    paths: dict[str, str] = {}
    for name in effect.inputs:
        plain = "".join(char if char.isalnum() or char in "_.-" else "_" for char in name)[:64].strip(".") or "input"
        path = f".stackmem/in/{frame}/{plain}"
        paths[name] = path if path not in paths.values() else f"{path}-{len(paths)}"
    return paths


def long_inputs(effect: RunFrame, frame: str) -> tuple[InvokeTool, ...]:
    """Return the calls that write the inputs that are too long for the message."""
    texts = {name: as_text(value) for name, value in effect.inputs.items()}
    return tuple(
        InvokeTool("write_file", {"path": input_files(effect, frame)[name], "content": text, "parents": True})
        for name, text in texts.items()
        if len(text) > INPUT_CHARS
    )


def schema_text(schema: dict[str, Any] | None) -> str:
    return "" if schema is None else json.encode(schema).decode()

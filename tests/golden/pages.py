"""Stories as text: a page of events and a page for each prompt. `python -m tests.golden.pages` writes them."""

from __future__ import annotations

import hashlib
import sys
from pathlib import Path

from msgspec import json
from msgspec.structs import replace

from stackmem.core.facts import RULES, Event, ModelFailed, ModelReplied, RunStarted
from stackmem.core.messages import Message, View
from tests.build import part_text
from tests.golden.stories import STORIES

HERE = Path(__file__).parent
RULES_FILE = HERE / "rules.json"


def event_line(event: Event) -> str:
    """Format an event like the trace, without values that depend on the words of prompts and tools."""
    if isinstance(event, RunStarted):
        return json.encode({"type": "RunStarted", "strategy": event.strategy, "task": event.task}).decode()
    if isinstance(event, ModelReplied | ModelFailed):
        event = replace(event, prompt_digest="")
    return json.encode(event).decode()


def message_block(message: Message, number: int, marks: dict[tuple[int, int], str]) -> str:
    lines = [f"=== {number} {message.role}"]
    for place, part in enumerate(message.parts):
        lines.append(part_text(part))
        if (number, place) in marks:
            lines.append(f"--- breakpoint {marks[number, place]}")
    return "\n".join(lines)


def prompt_page(view: View) -> str:
    marks: dict[tuple[int, int], str] = {}
    for point in view.breakpoints:
        marks[point.message, point.part] = f"{marks.get((point.message, point.part), '')} {point.ttl}".strip()
    head = f"=== system\n{view.system}\n--- breakpoint {marks[-1, 0]}"
    return "\n".join([head, *(message_block(message, number, marks) for number, message in enumerate(view.messages))])


def pages(name: str) -> dict[str, str]:
    """Return file name to text for one story: its events, and each prompt sent to the model."""
    played = STORIES[name]()
    texts = {f"{name}/events.jsonl": "".join(event_line(event) + "\n" for event in played.events)}
    for number, request in enumerate(played.asked, 1):
        texts[f"{name}/prompt-{number:02}.txt"] = prompt_page(request.view) + "\n"
    return texts


def digest_of(texts: dict[str, str]) -> str:
    return hashlib.sha256(json.encode(sorted(texts.items()))).hexdigest()


def remembered() -> dict[str, str]:
    return json.decode(RULES_FILE.read_bytes(), type=dict[str, str]) if RULES_FILE.exists() else {}


def kept(name: str) -> dict[str, str]:
    return {
        f"{name}/{path.name}": path.read_text(encoding="utf-8")
        for path in sorted((HERE / name).iterdir())
        if path.is_file()
    }


def write() -> None:
    """Rewrite every page, and record their digest under the current rules number; a number is never reused."""
    for name in STORIES:
        texts = pages(name)
        (HERE / name).mkdir(exist_ok=True)
        for gone in kept(name).keys() - texts.keys():
            (HERE / gone).unlink()
        for path, text in texts.items():
            (HERE / path).write_text(text, encoding="utf-8")
    numbers = remembered()
    digest = digest_of({path: text for name in STORIES for path, text in kept(name).items()})
    if numbers.setdefault(str(RULES), digest) != digest:
        sys.exit(
            f"the pages are written, but RULES {RULES} belongs to other pages: raise it in core/facts.py, and repeat"
        )
    RULES_FILE.write_bytes(json.format(json.encode(numbers), indent=2) + b"\n")


if __name__ == "__main__":
    write()

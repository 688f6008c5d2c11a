"""Golden traces: what the rules make of a script, kept as text, so that every change of behaviour or wording is seen.

STACKMEM_UPDATE_GOLDEN=1 writes the files anew. A changed file means that traces recorded before are not replayed to
the byte, so it takes a higher `RULES` in core/events.py; rules.json remembers which number stands for which files.
"""

import hashlib
import os
from pathlib import Path

import pytest
from msgspec import json
from msgspec.structs import replace

from stackmem.core.events import RULES, Event, ModelFailed, ModelReplied, RunStarted
from stackmem.core.messages import Message, View
from tests.build import part_text, started
from tests.golden.stories import STORIES

HERE = Path(__file__).parent
RULES_FILE = HERE / "rules.json"
UPDATE = os.environ.get("STACKMEM_UPDATE_GOLDEN") == "1"


def event_line(event: Event) -> str:
    """An event as the trace tells it, without what depends on the words of prompts and tools."""
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
    """File name to text of one story: its events, and each prompt the model was shown."""
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


@pytest.mark.parametrize("name", STORIES)
def test_a_story_is_told_as_the_golden_files_tell_it(name):
    texts = pages(name)
    if UPDATE:
        (HERE / name).mkdir(exist_ok=True)
        for gone in kept(name).keys() - texts.keys():
            (HERE / gone).unlink()
        for path, text in texts.items():
            (HERE / path).write_text(text, encoding="utf-8")
    told = kept(name)
    assert list(told) == sorted(texts)
    for path, text in texts.items():
        assert text == told[path], f"{path} differs; if that is wanted: raise RULES, set STACKMEM_UPDATE_GOLDEN=1, test"


def test_a_changed_golden_file_takes_a_higher_number_of_rules():
    texts = {path: text for name in STORIES for path, text in kept(name).items()}
    numbers = remembered()
    if UPDATE and str(RULES) not in numbers:
        numbers[str(RULES)] = digest_of(texts)
        RULES_FILE.write_bytes(json.format(json.encode(numbers), indent=2) + b"\n")
    assert numbers.get(str(RULES)) == digest_of(texts), (
        f"the golden files are not those of RULES {RULES}: raise it in core/events.py, then STACKMEM_UPDATE_GOLDEN=1"
    )
    assert max(map(int, numbers)) == RULES, "the number of the rules only rises"
    assert len(set(numbers.values())) == len(numbers), "a number was raised, yet nothing changed"


def test_the_calculator_goes_the_way_of_the_worked_example():
    played = STORIES["calculator"]()
    assert [part.name for event in played.of(ModelReplied) for part in event.parts] == [
        "read_file", "heap_alloc",
        "push_frame", "heap_read", "write_file", "run_command", "pop_frame",
        "push_frame", "heap_read", "write_file", "run_command", "pop_frame",
        "heap_free", "pop_frame",
    ]  # fmt: skip
    assert [kind for kind in played.kinds if kind != "ModelReplied"] == [
        "RunStarted", "ToolReturned", "SourcesDigested", "ChunkAllocated",
        "FramePushed", "ChunkRead", "ToolReturned", "ToolReturned", "FramePopped",
        "FramePushed", "ChunkRead", "ToolReturned", "ToolReturned", "VerifyReturned", "FramePopped",
        "ChunkFreed", "FramePopped", "RunEnded", "ChecksReturned",
    ]  # fmt: skip
    assert played.state.outcome == "solved"


def test_the_mishaps_are_of_many_kinds():
    codes = {event.code for event in STORIES["mishaps"]().events if hasattr(event, "code")}
    assert codes == {
        "no_call", "empty", "truncated", "refused", "several_calls", "unknown_tool", "bad_arguments",
        "chunk_exists", "heap_refused", "no_chunk", "no_lines", "push_refused", "constraint", "pop_refused",
        "limit:steps",
    }  # fmt: skip


def test_no_prompt_page_depends_on_the_words_of_prompts_and_tools():
    text = "".join(text for name in STORIES for text in kept(name).values())
    for tool in started().tools:
        assert tool.description not in text
    assert "You are a coding agent" not in text

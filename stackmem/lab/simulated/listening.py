"""Update the knowledge from messages: from each tool's call and result.

A result is interpreted by its call: lines of a file count as seen, lines of a chunk as told. A shortened or masked
result does not prove that something was read.
"""

from __future__ import annotations

import re
from typing import assert_never

from stackmem.core.messages import Message, Text, Thinking, ToolCall, ToolResult

from .knowledge import CHILD, SEEN, TOLD, FramesAdvised, Knowledge, ShownLines
from .lines import Changed, StatedFact, UnitFailed, fact_line, keys_in, lines, topic_of

CHILD_TOOLS = frozenset({"push_frame", "delegate", "branch"})
_OBJECTIVE = re.compile(r"\bDo units (\d{1,6}) to (\d{1,6})\b")
_OPENING = re.compile(r"^[A-Z][A-Z-]{2,11} '[^'\n]{0,80}', depth (\d{1,3}) of (\d{1,3})$", re.MULTILINE)
_PLAN = re.compile(r"\./work plan (\d{1,6})-(\d{1,6})\s*")
_DO = re.compile(r"\./work do (\d{1,6})((?: \S+=\S+)*)\s*")
_FRAMES = re.compile(r"^FRAMES PAY above (\d{1,9}) steps: push phases of (\d{1,9})\b", re.MULTILINE)
_FIRST = re.compile(r"unit (\d{1,6}) comes first")
_SPAN = re.compile(r"\[lines? (\d{1,9})(?:-(\d{1,9}))? of (more than )?(\d{1,9})")
_SHORTENED = re.compile(r"\[(?:shortened: |\.\.\. [\d,]{1,12} of [\d,]{1,12} characters left out)")
_MASKED = re.compile(r"\[[a-z]{4,12}: [\d,]{1,12} characters of output")
_CHUNK = re.compile(r"^heap '([^'\n]{1,64})', [\d,]{1,12} characters(?=,|;|$)", re.MULTILINE)
_STORED = re.compile(r"\[stored on the heap: ([^\]\n]*)\]")
_STUB = re.compile(r"; expand index (\d{1,6}) ")
_ENDED = re.compile(r"\[exit \d{1,3}\]\s*\Z")
_NEXT_PAGE = re.compile(r"(\./work [a-z]{1,20}(?: [0-9]{1,6}){1,3}) shows the next")
_ALL_LINES = 10**9
_ROOT = (0, 5)
BLOCKS_HEAD = "\nMEMORY BLOCKS: "
_BLOCK = re.compile(r"^- (/memories/\S{1,200}) \(", re.MULTILINE)
_SUMMED_UP = "SUMMARY of the steps up to "
_CONVERSATION = "\nconversation: "
_REQUEST = "\nREQUEST\n"
"""Precedes the user's current request. The text before it contains the earlier requests."""
_TRANSCRIPT = "STEP "
"""Prefix of the turns that a compaction request shows as plain text, in their order."""


def read_message(known: Knowledge, message: Message) -> None:
    """Update ``known`` with the message."""
    for part in message.parts:
        known.order += 1
        match part:
            case Text():
                known.chars += len(part.text)
                if message.role == "user":
                    _hear(known, part.text)
                else:
                    known.agent_order = known.order
                    known.take(lines(part.text), TOLD)
            case ToolResult():
                known.chars += len(part.text)
                _answered(known, part)
            case ToolCall():
                known.agent_order = known.order
                _asked(known, part)
            case Thinking():
                known.chars += len(str(part.raw))
            case _:
                assert_never(part)


def read_blocks(known: Knowledge, system: str) -> None:
    """Read all memory blocks in the system prompt."""
    _, head, blocks = system.partition(BLOCKS_HEAD)
    if head:
        known.listing = blocks
        known.files.update((path, blocks) for path in _BLOCK.findall(blocks))
        said = lines(blocks)
        known.take(said, TOLD)
        known.mark_saved(said)


def _hear(known: Knowledge, text: str) -> None:
    known.talks = known.talks or _CONVERSATION in text
    known.summed_up = known.summed_up or text.startswith(_SUMMED_UP)
    asked = text[:100_000].rpartition(_REQUEST)[2]
    ranges = [(int(first), int(last)) for first, last in _OBJECTIVE.findall(asked)]
    ranges = [one for one in ranges if 0 < one[0] <= one[1]]
    if ranges:
        narrowest = min(ranges, key=lambda one: one[1] - one[0])
        if narrowest != known.objective:
            known.begin(narrowest)
        known.objective_order = known.order
    if found := _OPENING.search(text[:2_000]):
        known.depth = (int(found[1]), int(found[2]))
    if "of the model's window. At " in text[:400]:
        known.crowded = True
    for found in _FRAMES.finditer(text):
        known.frames = FramesAdvised(int(found[1]), max(1, int(found[2])))
        known.depth = known.depth or _ROOT  # the opening of a child states its depth
    known.take(lines(text), SEEN if text.startswith(_TRANSCRIPT) else TOLD)
    known.look_at_index(text)
    if found := _CHUNK.search(text):
        _read_chunks(known, text[found.start() :])


def _asked(known: Knowledge, call: ToolCall) -> None:
    arguments = call.arguments if isinstance(call.arguments, dict) else {}
    known.chars += len(call.name) + len(str(call.arguments))
    known.asked[call.id] = call
    signature = signed(call.name, arguments)
    known.repeats[signature] = known.repeats.get(signature, 0) + 1
    if call.name in CHILD_TOOLS:
        known.children += 1
    else:
        known.calls += 1
    command = arguments.get("command")
    if call.name == "run_command" and isinstance(command, str):
        if found := _PLAN.fullmatch(command):
            known.planned_from = max(known.planned_from, int(found[1]) - 1)
        elif found := _DO.fullmatch(command):
            _sent(known, int(found[1]), dict(pair.split("=", 1) for pair in found[2].split()))


def _sent(known: Knowledge, unit: int, values: dict[str, str]) -> None:
    """Learn facts and progress from the values passed to a unit, even if its output is no longer visible."""
    known.planned_from = max(known.planned_from, unit - 1)
    known.sent[unit] = values
    known.used.update(dict.fromkeys(values, known.order))
    for key, value in values.items():
        if key not in known.facts and known.changed_at(key)[0] == 0:
            known.take(lines(fact_line(key, value, 0)), TOLD)


def _answered(known: Knowledge, result: ToolResult) -> None:
    call = known.asked.pop(result.call_id, None)
    arguments = call.arguments if call is not None and isinstance(call.arguments, dict) else {}
    tool, text = call.name if call is not None else "", result.text
    command = str(arguments.get("command", ""))
    if (unit := _DO.fullmatch(command)) and (found := _STUB.search(text[-200:])):
        known.stubs[int(unit[1])] = int(found[1])
    if tool == "run_command":
        _ran(known, command, text)
    elif result.failed:
        _refusal(known, tool, text)
    elif _MASKED.match(text):
        pass  # treated as if it had never been read
    elif tool == "read_file":
        _read_file(known, str(arguments.get("path", "")), text)
    elif tool == "heap_read":
        _read_chunk(known, str(arguments.get("name", "")), text, whole=not arguments.get("start_line"))
    elif tool == "heap_load":
        _read_chunks(known, text)
    elif tool in CHILD_TOOLS and _OPENING.match(text):
        _hear(known, text)  # this is the child; the task answers its parent's call
    elif tool in CHILD_TOOLS:
        _child(known, text)
        _stored(known, arguments)
    else:
        _kept(known, tool, arguments, text)


def _ran(known: Knowledge, command: str, text: str) -> None:
    said = lines(text)
    # otherwise it was shortened and is not known as a whole
    if _ENDED.search(text[-40:]) and not _SHORTENED.search(text):
        known.ran[command] = known.order
        if found := _NEXT_PAGE.search(text[:400]):
            known.next_page[command] = found[1]
    known.take(said, SEEN)
    for line in said:
        if isinstance(line, UnitFailed):
            _failed(known, line)


def _failed(known: Knowledge, line: UnitFailed) -> None:
    if found := _FIRST.search(line.reason):
        known.done = known.planned_from = max(0, int(found[1]) - 1)
        known.progress_seen = True
        return
    for key in keys_in(line.reason):
        value = known.sent.get(line.unit, {}).get(key)
        if value is None or "missing" in line.reason:
            known.missing[line.unit] = known.missing.get(line.unit, set()) | {key}
            continue
        known.wrong[key, value] = known.order
        if key in known.facts and known.facts[key].value == value:
            del known.facts[key]


def _refusal(known: Knowledge, tool: str, text: str) -> None:
    known.refused[tool] = known.refused.get(tool, 0) + 1
    if tool in CHILD_TOOLS:
        known.too_deep = known.too_deep or "deepest" in text
        _child(known, text)  # a child that the harness ended reports a failure, but its text is true
    known.closed = known.closed or "only pop_frame" in text


def _read_file(known: Knowledge, path: str, text: str) -> None:
    said = lines(text)
    found = _SPAN.match(text)
    if _SHORTENED.search(text):
        pass  # lines that are no longer visible must be read again
    elif found:
        total = -1 if found[3] else int(found[4])
        span = ShownLines(int(found[1]), int(found[2] or found[1]), total, known.order)
        known.show(path, span)
    elif said:
        known.show(path, ShownLines(1, _ALL_LINES, _ALL_LINES, known.order))
    known.take(said, SEEN, path)


def _read_chunk(known: Knowledge, name: str, text: str, *, whole: bool) -> None:
    head, _, content = text.partition("\n")
    row = known.index.rows.get(name) if known.index else None
    if "; STALE: " in head or (row is not None and row.stale):
        return
    if whole and "characters left out ...]" not in content:
        known.chunks[name] = content
    said = lines(content)
    known.take(said, TOLD, f"chunk:{name}")
    known.mark_saved(said)


def _read_chunks(known: Knowledge, text: str) -> None:
    """Read several consecutive chunks up to the end of the text."""
    heads = list(_CHUNK.finditer(text))
    for head, after in zip(heads, [*heads[1:], None], strict=True):
        _read_chunk(known, head[1], text[head.start() : after.start() - 2 if after else None], whole=True)


def _child(known: Knowledge, text: str) -> None:
    said = lines(text)
    known.results.append(known.order)
    known.take(said, CHILD)
    for names in _STORED.findall(text[-4_000:]):
        stored = names.split(", ")
        for name in stored:
            known.chunks.pop(name, None)
        topics = {topic_of(name) for name in stored}
        known.mark_saved(
            line for line in said
            if (isinstance(line, StatedFact) and topic_of(line.key) in topics)
            or (isinstance(line, Changed) and topic_of(line.scope) in topics)
        )  # fmt: skip


def _kept(known: Knowledge, tool: str, arguments: dict[str, object], text: str) -> None:
    """Learn from the answers of memory tools."""
    content = arguments.get("content")
    if tool in ("heap_alloc", "heap_write") and isinstance(content, str):
        known.chunks[str(arguments.get("name"))] = content
        _own(known, content)
    elif tool == "heap_free":
        known.chunks.pop(str(arguments.get("name")), None)
    elif tool == "heap_list":
        known.look_at_index(text)
    elif tool == "add_note":
        _own(known, str(arguments.get("text", "")))
    elif tool == "memory":
        _memory(known, arguments, text)
    else:
        known.take(lines(text), TOLD)


def _memory(known: Knowledge, arguments: dict[str, object], text: str) -> None:
    path, command = str(arguments.get("path", "")), arguments.get("command")
    if command == "view" and path.rstrip("/") in ("/memories", ""):
        known.listing = text
    elif command == "view":
        said = lines(text)
        known.files[path] = text
        known.take(said, TOLD)
        known.mark_saved(said)
    else:
        for name in ("file_text", "insert_text", "new_str"):
            _own(known, str(arguments.get(name) or ""))
        if command in ("create", "insert"):
            known.files[path] = str(arguments.get("file_text") or known.files.get(path, ""))


def _stored(known: Knowledge, arguments: dict[str, object]) -> None:
    entries = arguments.get("store")
    for entry in entries if isinstance(entries, list) else ():
        if isinstance(entry, dict) and isinstance(entry.get("content"), str):
            known.mark_saved(lines(entry["content"]))


def _own(known: Knowledge, text: str) -> None:
    """Learn from text that the reader wrote itself, as long as its call is visible."""
    said = lines(text)
    known.take(said, TOLD)
    known.mark_saved(said)


def signed(tool: str, arguments: object) -> str:
    """Return a signature that identifies a call."""
    return f"{tool} {str(arguments)[:2_000]}"

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
_VARIABLE = "which the variable `context` of the program `history` contains."
_CONVERSATION = "\nconversation: "
_REQUEST = "\nREQUEST\n"
"""Precedes the user's current request. The text before it contains the earlier requests."""
_TRANSCRIPT = "STEP "
"""Prefix of the turns that a compaction request shows as plain text, in their order."""


def read_message(knowledge: Knowledge, message: Message) -> None:
    """Update ``knowledge`` with the message."""
    for part in message.parts:
        knowledge.order += 1
        match part:
            case Text():
                knowledge.chars += len(part.text)
                if message.role == "user":
                    _hear(knowledge, part.text)
                else:
                    knowledge.agent_order = knowledge.order
                    knowledge.take(lines(part.text), TOLD)
            case ToolResult():
                knowledge.chars += len(part.text)
                _note_result(knowledge, part)
            case ToolCall():
                knowledge.agent_order = knowledge.order
                _note_call(knowledge, part)
            case Thinking():
                knowledge.chars += len(str(part.raw))
            case _:
                assert_never(part)


def read_blocks(knowledge: Knowledge, system: str) -> None:
    """Read all memory blocks in the system prompt."""
    _, head, blocks = system.partition(BLOCKS_HEAD)
    if head:
        knowledge.listing = blocks
        knowledge.files.update((path, blocks) for path in _BLOCK.findall(blocks))
        statements = lines(blocks)
        knowledge.take(statements, TOLD)
        knowledge.mark_saved(statements)


def _hear(knowledge: Knowledge, text: str) -> None:
    knowledge.talks = knowledge.talks or _CONVERSATION in text
    knowledge.summed_up = knowledge.summed_up or text.startswith(_SUMMED_UP) or _VARIABLE in text
    request = text[:100_000].rpartition(_REQUEST)[2]
    ranges = [(int(first), int(last)) for first, last in _OBJECTIVE.findall(request)]
    ranges = [span for span in ranges if 0 < span[0] <= span[1]]
    if ranges:
        narrowest = min(ranges, key=lambda span: span[1] - span[0])
        if narrowest != knowledge.objective:
            knowledge.begin(narrowest)
        knowledge.objective_order = knowledge.order
    if match := _OPENING.search(text[:2_000]):
        knowledge.depth = (int(match[1]), int(match[2]))
    if "of the model's window. At " in text[:400]:
        knowledge.crowded = True
    for match in _FRAMES.finditer(text):
        knowledge.frames = FramesAdvised(int(match[1]), max(1, int(match[2])))
        knowledge.depth = knowledge.depth or _ROOT  # the opening of a child states its depth
    knowledge.take(lines(text), SEEN if text.startswith(_TRANSCRIPT) else TOLD)
    knowledge.look_at_index(text)
    if match := _CHUNK.search(text):
        _read_chunks(knowledge, text[match.start() :])


def _note_call(knowledge: Knowledge, call: ToolCall) -> None:
    arguments = call.arguments if isinstance(call.arguments, dict) else {}
    knowledge.chars += len(call.name) + len(str(call.arguments))
    knowledge.open_calls[call.id] = call
    signature = signed(call.name, arguments)
    knowledge.repeats[signature] = knowledge.repeats.get(signature, 0) + 1
    if call.name in CHILD_TOOLS:
        knowledge.children += 1
    else:
        knowledge.calls += 1
    command = arguments.get("command")
    if call.name == "run_command" and isinstance(command, str):
        if match := _PLAN.fullmatch(command):
            knowledge.planned_from = max(knowledge.planned_from, int(match[1]) - 1)
        elif match := _DO.fullmatch(command):
            _sent(knowledge, int(match[1]), dict(pair.split("=", 1) for pair in match[2].split()))


def _sent(knowledge: Knowledge, unit: int, values: dict[str, str]) -> None:
    """Learn facts and progress from the values passed to a unit, even if its output is no longer visible."""
    knowledge.planned_from = max(knowledge.planned_from, unit - 1)
    knowledge.sent[unit] = values
    knowledge.used.update(dict.fromkeys(values, knowledge.order))
    for key, value in values.items():
        if key not in knowledge.facts and knowledge.changed_at(key)[0] == 0:
            knowledge.take(lines(fact_line(key, value, 0)), TOLD)


def _note_result(knowledge: Knowledge, result: ToolResult) -> None:
    call = knowledge.open_calls.pop(result.call_id, None)
    arguments = call.arguments if call is not None and isinstance(call.arguments, dict) else {}
    tool, text = call.name if call is not None else "", result.text
    command = str(arguments.get("command", ""))
    if (unit := _DO.fullmatch(command)) and (match := _STUB.search(text[-200:])):
        knowledge.stubs[int(unit[1])] = int(match[1])
    if tool == "run_command":
        _ran(knowledge, command, text)
    elif result.failed:
        _refusal(knowledge, tool, text)
    elif _MASKED.match(text):
        pass  # treated as if it had never been read
    elif tool == "read_file":
        _read_file(knowledge, str(arguments.get("path", "")), text)
    elif tool == "heap_read":
        _read_chunk(knowledge, str(arguments.get("name", "")), text, complete=not arguments.get("start_line"))
    elif tool == "heap_load":
        _read_chunks(knowledge, text)
    elif tool in CHILD_TOOLS and _OPENING.match(text):
        _hear(knowledge, text)  # this is the child; the task answers its parent's call
    elif tool in CHILD_TOOLS:
        _child(knowledge, text)
        _stored(knowledge, arguments)
    else:
        _note_memory_result(knowledge, tool, arguments, text)


def _ran(knowledge: Knowledge, command: str, text: str) -> None:
    statements = lines(text)
    # otherwise it was shortened and is not known as a whole
    if _ENDED.search(text[-40:]) and not _SHORTENED.search(text):
        knowledge.ran[command] = knowledge.order
        if match := _NEXT_PAGE.search(text[:400]):
            knowledge.next_page[command] = match[1]
    knowledge.take(statements, SEEN)
    for line in statements:
        if isinstance(line, UnitFailed):
            _failed(knowledge, line)


def _failed(knowledge: Knowledge, line: UnitFailed) -> None:
    if match := _FIRST.search(line.reason):
        knowledge.done = knowledge.planned_from = max(0, int(match[1]) - 1)
        knowledge.progress_seen = True
        return
    for key in keys_in(line.reason):
        value = knowledge.sent.get(line.unit, {}).get(key)
        if value is None or "missing" in line.reason:
            knowledge.missing[line.unit] = knowledge.missing.get(line.unit, set()) | {key}
            continue
        knowledge.wrong[key, value] = knowledge.order
        if key in knowledge.facts and knowledge.facts[key].value == value:
            del knowledge.facts[key]


def _refusal(knowledge: Knowledge, tool: str, text: str) -> None:
    if text.startswith("checkpoint: "):
        knowledge.remind(text)
        return
    knowledge.refused[tool] = knowledge.refused.get(tool, 0) + 1
    if tool in CHILD_TOOLS:
        knowledge.too_deep = knowledge.too_deep or "deepest" in text
        _child(knowledge, text)  # a child that the harness ended reports a failure, but its text is true
    knowledge.closed = knowledge.closed or "only pop_frame" in text


def _read_file(knowledge: Knowledge, path: str, text: str) -> None:
    statements = lines(text)
    match = _SPAN.match(text)
    if _SHORTENED.search(text):
        pass  # lines that are no longer visible must be read again
    elif match:
        total = -1 if match[3] else int(match[4])
        span = ShownLines(int(match[1]), int(match[2] or match[1]), total, knowledge.order)
        knowledge.show(path, span)
    elif statements:
        knowledge.show(path, ShownLines(1, _ALL_LINES, _ALL_LINES, knowledge.order))
    knowledge.take(statements, SEEN, path)


def _read_chunk(knowledge: Knowledge, name: str, text: str, *, complete: bool) -> None:
    head, _, content = text.partition("\n")
    row = knowledge.index.rows.get(name) if knowledge.index else None
    if "; STALE: " in head or (row is not None and row.stale):
        return
    if complete and "characters left out ...]" not in content:
        knowledge.chunks[name] = content
    statements = lines(content)
    knowledge.take(statements, TOLD, f"chunk:{name}")
    knowledge.mark_saved(statements)


def _read_chunks(knowledge: Knowledge, text: str) -> None:
    """Read several consecutive chunks up to the end of the text."""
    heads = list(_CHUNK.finditer(text))
    for head, after in zip(heads, [*heads[1:], None], strict=True):
        _read_chunk(knowledge, head[1], text[head.start() : after.start() - 2 if after else None], complete=True)


def _child(knowledge: Knowledge, text: str) -> None:
    statements = lines(text)
    knowledge.results.append(knowledge.order)
    knowledge.take(statements, CHILD)
    for names in _STORED.findall(text[-4_000:]):
        stored = names.split(", ")
        for name in stored:
            knowledge.chunks.pop(name, None)
        topics = {topic_of(name) for name in stored}
        knowledge.mark_saved(
            line for line in statements
            if (isinstance(line, StatedFact) and topic_of(line.key) in topics)
            or (isinstance(line, Changed) and topic_of(line.scope) in topics)
        )  # fmt: skip


def _note_memory_result(knowledge: Knowledge, tool: str, arguments: dict[str, object], text: str) -> None:
    """Learn from the answers of memory tools."""
    content = arguments.get("content")
    if tool in ("heap_alloc", "heap_write") and isinstance(content, str):
        knowledge.chunks[str(arguments.get("name"))] = content
        _own(knowledge, content)
    elif tool == "heap_free":
        knowledge.chunks.pop(str(arguments.get("name")), None)
    elif tool == "heap_list":
        knowledge.look_at_index(text)
    elif tool == "add_note":
        _own(knowledge, str(arguments.get("text", "")))
    elif tool == "memory":
        _memory(knowledge, arguments, text)
    elif tool == "compact_context":
        _hear(knowledge, str(arguments.get("summary", "")))
    else:
        knowledge.take(lines(text), TOLD)


def _memory(knowledge: Knowledge, arguments: dict[str, object], text: str) -> None:
    path, command = str(arguments.get("path", "")), arguments.get("command")
    if command == "view" and path.rstrip("/") in ("/memories", ""):
        knowledge.listing = text
    elif command == "view":
        statements = lines(text)
        knowledge.files[path] = text
        knowledge.take(statements, TOLD)
        knowledge.mark_saved(statements)
    else:
        for name in ("file_text", "insert_text", "new_str"):
            _own(knowledge, str(arguments.get(name) or ""))
        if command in ("create", "insert"):
            knowledge.files[path] = str(arguments.get("file_text") or knowledge.files.get(path, ""))


def _stored(knowledge: Knowledge, arguments: dict[str, object]) -> None:
    entries = arguments.get("store")
    for entry in entries if isinstance(entries, list) else ():
        if isinstance(entry, dict) and isinstance(entry.get("content"), str):
            knowledge.mark_saved(lines(entry["content"]))


def _own(knowledge: Knowledge, text: str) -> None:
    """Learn from text that the reader wrote itself, as long as its call is visible."""
    statements = lines(text)
    knowledge.take(statements, TOLD)
    knowledge.mark_saved(statements)


def signed(tool: str, arguments: object) -> str:
    """Return a signature that identifies a call."""
    return f"{tool} {str(arguments)[:2_000]}"

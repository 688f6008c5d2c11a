"""Reads a program: parses Markdown into agents, playbooks and their lines. Nothing is evaluated."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from functools import lru_cache
from typing import Any

from markdown_it import MarkdownIt
from markdown_it.token import Token
from msgspec import Struct
from msgspec.structs import replace

from .errors import PlaybookError
from .literals import read_params
from .metadata import NO_EFFECT, Metadata
from .python_functions import functions_of
from .tree import (
    Caveat,
    Number,
    Playbook,
    PlaybookAgent,
    PlaybookProgram,
    Remark,
    StepLine,
    Trigger,
    is_coded,
    is_plain_trigger,
    note_line,
    split_lines,
    step_line,
    trigger_line,
)

_MAX_CHARS = 5_000_000
_MAX_DEPTH = 20
_PUBLIC = re.compile(r"public\s*+:\s*+")
_NOT_IN_NAME = re.compile(r"[()\->]")
_WORD = re.compile(r"[A-Za-z0-9_]+")
_SECTIONS = {name: f"{name.rstrip('s')}s" for name in ("trigger", "triggers", "step", "steps", "note", "notes")}
_SECTION_LEVEL = 3
_KIND = re.compile(r"([^:(]*?)\s*:\s*(AI|Human)\s*", re.I)


class _Draft(Struct):
    """A playbook that is being read."""

    book: Playbook
    meta: Metadata
    section: str = ""
    seen: list[str] = []
    says: list[str] = []
    steps: list[StepLine] = []
    triggers: list[Trigger] = []
    notes: list[Remark] = []
    plain: list[str] = []  # the sections whose sentences have no codes

    def add(self, text: str, line: int, number: Number) -> None:
        """Add a line of the section, which is the steps or the triggers."""
        if self.section == "triggers":
            if is_plain_trigger(text):
                self.mark_plain()
            else:
                self.triggers.append(trigger_line(text, line, len(self.triggers) + 1))
        elif is_coded(text):
            self.steps.append(step_line(text, line, number))
        else:
            self.mark_plain()

    def next_number(self) -> int:
        """Return the number of a step without bullet and number."""
        return max((step.number[0] for step in self.steps), default=0) + 1

    def mark_plain(self) -> None:
        if self.section not in self.plain:
            self.plain.append(self.section)


class ListItem(Struct, frozen=True):
    """One list item: its text, its line, and its index path in the nested list, outermost first."""

    text: str
    line: int
    number: Number


def read_program(text: str) -> PlaybookProgram:
    """Parse a program. Raise PlaybookError with the first fault if the text is not a program."""
    if len(text) > _MAX_CHARS:
        raise PlaybookError("Long Program", f"the program has over {_MAX_CHARS:,} characters; split it")
    return _ProgramReader(text).program()


@lru_cache(maxsize=1)
def _markdown() -> MarkdownIt:
    """Return a parser for blocks only. Inline markup is left for the model."""
    return MarkdownIt("commonmark", {"maxNesting": 2 * _MAX_DEPTH + 4}).disable(["inline", "lheading"])


class _ProgramReader:
    """Walks the top-level blocks once."""

    def __init__(self, text: str) -> None:
        self._lines = _blank_front_matter(text.replace("\r\n", "\n").replace("\r", "\n").split("\n"))
        self._agents: list[PlaybookAgent] = []
        self._names: set[str] = set()
        self._playbooks: list[Playbook] = []
        self._python: list[tuple[str, int]] = []
        self._public: list[tuple[str, int]] = []
        self._draft: _Draft | None = None
        self._says: list[str] = []
        self._meta = Metadata()

    def program(self) -> PlaybookProgram:
        tokens = _markdown().parse("\n".join(self._lines))
        index = 0
        while index < len(tokens):
            index = self._block(tokens, index)
        self._close_agent()
        if not self._agents:
            raise PlaybookError("Missing Agent", "Missing H1 header (Agent name); begin with `# Name`")
        if not any(agent.playbooks for agent in self._agents):
            agent = self._agents[0]
            message = f"No playbooks defined for AI agent {agent.name}: Missing H2 header (Playbook definition)"
            raise PlaybookError("Missing Playbook", message, agent.line)
        return PlaybookProgram(tuple(self._agents))

    def _block(self, tokens: list[Token], index: int) -> int:
        """Read the block that begins at ``index``, and return the index after it."""
        token = tokens[index]
        end = _end(tokens, index)
        line = (token.map or [0])[0]
        match token.type:
            case "heading_open":
                self._heading(int(token.tag[1:]), tokens[index + 1].content.strip(), line)
            case "fence":
                self._fence(token, line)
            case "bullet_list_open" | "ordered_list_open":
                self._list(tokens[index:end], line)
            case "paragraph_open":
                self._paragraph(tokens[index + 1].content, line)
            case "code_block":
                self._paragraph(token.content, line)
            case _:
                pass
        return end

    def _heading(self, level: int, text: str, line: int) -> None:
        section = _SECTIONS.get(text.rstrip(":").strip().lower(), "")
        if section and self._draft is not None:
            self._section(section, level, text, line)
        elif level == 1:
            self._close_agent()
            self._agent(text, line)
        elif not self._agents:
            raise PlaybookError("Missing Agent", "Missing H1 header (Agent name); begin with `# Name`", line + 1)
        elif level == 2 and not section:
            self._close_playbook()
            self._draft = _Draft(_parse_heading(text, line + 1), Metadata())
        elif level == 3 and self._draft is not None:
            message = f"{text[:80]!r} is not a section of a playbook; known: Triggers, Steps, Notes"
            raise PlaybookError("Unknown Section", message, line + 1)
        else:
            raise PlaybookError("Unknown Heading", f"{'#' * level} {text[:80]} has no meaning here", line + 1)

    def _agent(self, text: str, line: int) -> None:
        kind = _KIND.fullmatch(text)
        name = _camel(kind[1] if kind else text.partition("(")[0])
        if not name:
            raise PlaybookError("Missing Agent", "Agent name is required; write `# Name`", line + 1)
        if name in self._names:
            raise PlaybookError("Duplicate Agent", f"two agents are called {name}; rename one", line + 1)
        self._names.add(name)
        self._agents.append(PlaybookAgent(name, "", line + 1))
        if kind and kind[2].lower() == "human":
            message = f"{name} is not a separate person: there is one user, whom agents address as `human`"
            self._meta.caveats.append(Caveat(NO_EFFECT, message, line + 1))
        elif "(" in text:
            message = "the text after the agent's name has no effect; every agent runs here"
            self._meta.caveats.append(Caveat(NO_EFFECT, message, line + 1))

    def _section(self, name: str, level: int, text: str, line: int) -> None:
        draft = self._draft
        if draft is None:
            return
        if level != _SECTION_LEVEL:
            message = f"{'#' * level} {text[:80]} is read as a section of {draft.book.name}; write ### {text[:80]}"
            draft.meta.caveats.append(Caveat("Wrong Heading Level", message, line + 1))
        if name in draft.seen:
            raise PlaybookError("Duplicate Section", f"### {text[:80]} stands twice; join the two", line + 1)
        draft.section = name
        draft.seen.append(name)

    def _fence(self, token: Token, line: int) -> None:
        kind = token.info.strip().lower()
        if not self._agents:
            return
        if kind in ("python", "py"):
            self._playbooks += functions_of(token.content, line + 2)
            self._python.append((token.content, line + 2))
        elif kind in ("public.json", "json public", "public"):
            self._public += _public_names(token.content, line + 2)
        else:
            self._paragraph(token.content, line)

    def _paragraph(self, text: str, line: int) -> None:
        draft = self._draft
        if draft is None:
            if self._agents:
                self._says.append(self._meta.take_from(text, line + 1))
        elif not draft.section:
            draft.says.append(draft.meta.take_from(text, line + 1))
        elif draft.section == "notes":
            draft.notes.append(note_line(text, line + 1, len(draft.notes) + 1))
        else:
            for part, offset in split_lines(text):
                draft.add(part, line + 1 + offset, (draft.next_number(),))

    def _list(self, tokens: list[Token], line: int) -> None:
        draft = self._draft
        if draft is None or not draft.section:
            self._paragraph("\n".join(f"- {item.text}" for item in _items(tokens)), line)
            return
        for item in _items(tokens):
            if draft.section == "notes":
                draft.notes.append(note_line(item.text, item.line, len(draft.notes) + 1))
                continue
            first, *more = split_lines(item.text, numbered=True) or [("", 0)]
            draft.add(first[0], item.line, item.number)
            for part, offset in more:  # lines without bullets after a list belong to its last item in Markdown
                draft.add(part, item.line + offset, (draft.next_number(),))

    def _close_playbook(self) -> None:
        draft, self._draft = self._draft, None
        if draft is None:
            return
        seen: dict[Number, StepLine] = {}
        for step in draft.steps:
            if step.number in seen:
                message = f"line {step.label} of {draft.book.name} occurs twice; renumber it"
                raise PlaybookError("Duplicate Line", message, step.line)
            seen[step.number] = step
        book, meta = draft.book, draft.meta
        if meta.mode == "react" and "steps" in draft.seen:
            message = "execution_mode: react is for playbooks without steps; these steps are followed"
            meta.caveats.append(Caveat(NO_EFFECT, message, meta.mode_line))
        self._playbooks.append(
            replace(
                book, says="\n\n".join(filter(None, draft.says)), triggers=tuple(draft.triggers),
                steps=() if "steps" in draft.plain else tuple(draft.steps), notes=tuple(draft.notes),
                public=book.public if meta.public is None else meta.public, plain=tuple(draft.plain),
                entry=meta.entry, caveats=tuple(meta.caveats),
            )
        )  # fmt: skip

    def _close_agent(self) -> None:
        self._close_playbook()
        if not self._agents:
            return
        agent = self._agents[-1]
        if not self._playbooks:
            message = f"{agent.name} has no playbooks, so it does nothing; add one or remove the agent"
            self._meta.caveats.append(Caveat("Missing Playbook", message, agent.line))
        source, first = _joined(self._python)
        names: dict[str, Playbook] = {}
        for each in self._playbooks:
            book = replace(each, python=source, python_line=first) if each.python else each
            if book.name in names:
                message = f"two playbooks of {agent.name} are called {book.name}; rename one"
                raise PlaybookError("Duplicate Playbook", message, book.line)
            names[book.name] = book
        for name, line in self._public:
            if name not in names:
                message = f"the public block names {name[:80]!r}, which {agent.name} has not; mend the name"
                raise PlaybookError("Unknown Playbook", message, line)
            names[name] = replace(names[name], public=True)
        says = "\n\n".join(filter(None, self._says))
        self._agents[-1] = replace(
            agent, says=says, playbooks=tuple(names.values()), python=source, python_line=first,
            caveats=tuple(self._meta.caveats),
        )  # fmt: skip
        self._playbooks, self._python, self._public, self._says, self._meta = [], [], [], [], Metadata()


def _joined(blocks: list[tuple[str, int]]) -> tuple[str, int]:
    """Join an agent's Python blocks into one source, and return it with the file line of the first block.

    Blank lines keep each block at its line in the file, so that line numbers in errors are right.
    """
    source, first = "", blocks[0][1] if blocks else 0
    for text, line in blocks:
        source += "\n" * (line - first - source.count("\n")) + text
    return source, first


def _blank_front_matter(lines: list[str]) -> list[str]:
    """Blank out the front matter, so that the other lines keep their numbers."""
    if lines and lines[0].startswith("#!"):
        lines = ["", *lines[1:]]
    start = next((index for index, line in enumerate(lines) if line.strip()), len(lines))
    if start == len(lines) or lines[start].strip() != "---":
        return lines
    end = next((index for index in range(start + 1, len(lines)) if lines[index].strip() == "---"), None)
    if end is None:
        raise PlaybookError("Open Front Matter", "the front matter has no closing `---`", start + 1)
    return [""] * (end + 1) + lines[end + 1 :]


def _parse_heading(text: str, line: int) -> Playbook:
    """Parse a playbook's heading: a name, parameters in parentheses, and a type after an arrow."""
    head, opened, rest = text.partition("(")
    params, closed, tail = rest.rpartition(")")
    if not opened or "->" in head:
        head, arrow, kind = text.partition("->")
        params, closed, tail = "", ")", arrow + kind
    public = _PUBLIC.match(head)
    says = head[public.end() :] if public else head
    name = "" if _NOT_IN_NAME.search(says) else _camel(says.strip())
    returns = tail.strip().removeprefix("->").strip()
    if not closed or not name or (tail.strip() and (not returns or not tail.lstrip().startswith("->"))):
        message = "a playbook is headed `## Name($parameter) -> type`; write it so"
        raise PlaybookError("Bad Heading", message, line)
    return Playbook(name, read_params(params, line), returns, "", line, public=bool(public))


def _camel(text: str) -> str:
    """Return a valid name unchanged, and convert other texts to CamelCase."""
    words: list[str] = _WORD.findall(text)
    if len(words) == 1 and text.strip() == words[0] and not words[0][0].isdigit():
        return words[0]
    joined = "".join(word[0].upper() + word[1:] for word in words)
    return f"_{joined}" if joined[:1].isdigit() else joined


def _public_names(text: str, line: int) -> list[tuple[str, int]]:
    try:
        listing: Any = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise PlaybookError("Invalid JSON", f"the public block is not JSON ({error})", line) from error
    names = (
        [each.get("name") if isinstance(each, dict) else None for each in listing] if isinstance(listing, list) else [0]
    )
    if not all(isinstance(name, str) for name in names):
        raise PlaybookError("Invalid JSON", "the public block is a list of objects with a name each", line)
    return [(str(name), line) for name in names]


def _end(tokens: list[Token], index: int) -> int:
    """Return the index after the block that opens at ``index``."""
    if tokens[index].nesting != 1:
        return index + 1
    depth = 0
    while True:
        depth += tokens[index].nesting
        index += 1
        if depth == 0:
            return index


def _items(tokens: list[Token]) -> Iterator[ListItem]:
    """Yield every item of a list and its nested lists, in file order."""
    counters: list[int] = []
    texts: list[str] = []
    line = 0
    for token in tokens:
        match token.type:
            case "bullet_list_open" | "ordered_list_open":
                if texts:
                    yield ListItem("\n".join(texts), line, tuple(counters))
                    texts = []
                counters.append(0)
                if len(counters) > _MAX_DEPTH:
                    raise PlaybookError("Deep List", f"steps are nested over {_MAX_DEPTH} deep; use a playbook", line)
            case "bullet_list_close" | "ordered_list_close":
                counters.pop()
            case "list_item_open":
                counters[-1] += 1
                texts, line = [], (token.map or [0])[0] + 1
            case "list_item_close":
                if texts:
                    yield ListItem("\n".join(texts), line, tuple(counters))
                texts = []
            case "inline" | "fence" | "code_block":
                texts.append(token.content.strip())
            case _:
                pass

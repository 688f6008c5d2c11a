"""Read the conversation that mini-swe-agent prints from a terminal log, ignoring other output.

Lines stay wrapped at the width of the screen, and usage is not shown. Logs of other agents are refused, because they do
not contain whole conversations.
"""

from __future__ import annotations

import re

from stackmem.core.errors import UsageError
from stackmem.core.messages import ToolCall

from .session import RecordedReply, RecordedResult, RecordedSession, RecordedText, plain

_CODES = re.compile(r"\x1b\][^\x07\x1b]{0,200}\x07|\x1b\[[0-9;?]{0,40}[A-Za-z]")
_WAITING = re.compile(r"^.? ?Waiting for the LM to respond\.\.\.[ \t]*$\n?", re.MULTILINE)
_RULE = re.compile(r"^─{20,}[ \t]*$\n?", re.MULTILINE)
_HEAD = re.compile(r"^(?:(System|User):|mini-swe-agent \(step (\d+), \$([\d.]+)\):)[ \t]*$", re.MULTILINE)
_BLOCK = re.compile(r"```[\w-]*[ \t]*\n(.*?)\n```", re.DOTALL)
_MODEL = re.compile(r"\bmini -m (?:\w+/)?([\w.:-]{1,80})")
_VERSION = re.compile(r"This is mini-swe-agent version (\d[\w.]{0,20}\w)")
_RETURNED = re.compile(r"\s*<returncode>(-?\d{1,9})</returncode>")
_SAVED = "\nSaved trajectory to "


def is_terminal_log(text: str) -> bool:
    return "mini-swe-agent (" in _CODES.sub("", text) or "This is mini-swe-agent version" in text


def read_terminal(text: str, location: str) -> RecordedSession:
    """Read the conversation as a session. Its cost is the last one that the screen shows.

    Raise UsageError if the recording shows no step.
    """
    screen = _RULE.sub("", _WAITING.sub("", _CODES.sub("", text).replace("\r\n", "\n").replace("\r", "\n")))
    heads = list(_HEAD.finditer(screen))
    if not any(head[2] for head in heads):
        raise UsageError(f"{location} does not show a step of mini-swe-agent; logs of other agents cannot be read")
    model, version = _MODEL.search(screen), _VERSION.search(screen)
    session = RecordedSession(
        origin=f"terminal (mini-swe-agent {version[1] if version else 'of unknown version'})",
        id="log",
        model=model[1] if model else "",
        turns=[],
        left_out=[
            "times and tokens: the terminal does not show them",
            "original line breaks: the terminal wraps lines",
        ],
    )
    for position, head in enumerate(heads):
        end = heads[position + 1].start() if position + 1 < len(heads) else len(screen)
        _add(session, head, screen[head.end() : end].split(_SAVED, 1)[0].strip("\n"))
    last = session.turns[-1]
    session.finished = isinstance(last, RecordedReply) or "COMPLETE_TASK" in screen[heads[-1].start() - 400 :]
    return session


def _add(session: RecordedSession, head: re.Match[str], text: str) -> None:
    last = session.turns[-1] if session.turns else None
    if head[2]:
        session.turns.append(_recorded_reply(text, len(session.turns), session.model))
        session.usd = float(head[3]) if head[3].count(".") <= 1 and head[3] != "." else session.usd
    elif not session.turns and head[1] == "System":
        session.system = text
    elif not session.turns and not session.task:
        session.task = text
    elif isinstance(last, RecordedReply) and last.calls and not last.answers:
        code = _RETURNED.match(text)
        number = int(code[1]) if code else None
        last.answers.append(RecordedResult(last.calls[0].id, text, number not in (None, 0), exit_code=number))
    elif text:
        session.turns.append(RecordedText(text))


def _recorded_reply(text: str, number: int, model: str) -> RecordedReply:
    blocks = list(_BLOCK.finditer(text))
    if len(blocks) != 1:
        return RecordedReply(plain(text), stop="end", model=model, answers=[])
    prose = (text[: blocks[0].start()] + text[blocks[0].end() :]).strip()
    call = ToolCall(f"call_{number}", "bash", {"command": blocks[0][1]})
    return RecordedReply((*plain(prose), call), model=model, answers=[])

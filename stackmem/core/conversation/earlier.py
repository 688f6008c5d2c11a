"""The log of earlier requests and their results, which each request of a conversation starts with.

Rule 1: The log grows at its end, so the provider's cache can read it. When it exceeds its size, it is shortened to half
    of that, and it takes long until the next time.
Rule 2: Its size follows from the window and the price of reading from the cache (``log_chars``).
Rule 3: Nothing leaves the log without a line that says what is missing and how to get it.
Rule 4: The user's standing words are never shortened. Changes of them are in the log at their place; when it is
    shortened, those that still apply move to its top.
"""

from __future__ import annotations

import re

from msgspec import UNSET, Struct

from stackmem.core.facts import RunStarted
from stackmem.core.state import Frame, PoppedFrame, State
from stackmem.core.text import mark_cut

from .standing import block

_READ_TOKENS = 800.0
"""Reading the whole log from the cache costs at most as much as this many tokens of input."""
_WINDOW_SHARE = 1 / 16
_DEFAULT_READ = 0.1
_CHARS_PER_TOKEN = 2.5
_MIN_CHARS = 1_000
_MAX_CHANGES_CHARS = 16_000
"""Maximum characters of the changes of standing words at their place in the log."""
_VERBATIM_SHARE = 1 / 8
"""Maximum length of a request or a result in full, relative to the log."""
_LEFT_SHARE = 0.5
_REQUEST_CHARS, _RESULT_CHARS = 300, 120
_OLD_LOG_CHARS = 4_000
_OLD_VERBATIM_CHARS = 1_500
_OLD_SHORT_CHARS = 120
_IMITATED = re.compile(r"^(?=\s*(?:REQUEST|RESULT|STANDING) )", re.MULTILINE)


def log_chars(start: RunStarted) -> int:
    """Return the maximum length of the log in characters, without the standing words.

    20,000 with a window of 128,000 tokens or more and cached reads at a tenth of the price of input.
    """
    price = start.price
    read = price.cache_read / price.input if price is not None and price.input > 0 else _DEFAULT_READ
    tokens = min(start.window_tokens * _WINDOW_SHARE, _READ_TOKENS / min(1.0, max(0.02, read)))
    return max(_MIN_CHARS, int(tokens * _CHARS_PER_TOKEN))


def earlier_requests(state: State) -> str:
    """Return the log for the next request."""
    if state.session is None or state.session.rules.words is UNSET:
        return _old_log(state)
    log = _logged(state)
    now = state.session.requests
    # The request itself says what its own wording made an entry; from the next request on, the log says it after it.
    changes = tuple(change for change in state.session.standing if change.request < now or change.by != "wording")
    gathered = tuple(change for change in changes if change.request <= log.shortened)
    later = changes[len(gathered) :]
    if sum(len(change.line) for change in later) > _MAX_CHANGES_CHARS:
        gathered, later = changes, ()
    lines = [text for text in (block(gathered), _left_out(state.begun, log)) if text]
    for entry in log.entries:
        lines += [change.line for change in later if change.request < entry.number]
        later = tuple(change for change in later if change.request >= entry.number)
        lines.append(entry.text)
    return "\n".join([*lines, *(change.line for change in later)])


def _left_out(start: RunStarted, log: _Requests) -> str:
    """Return the line that says what the log lacks, and how the model finds it."""
    if not log.shortened:
        return ""
    first = log.entries[0].number if log.entries else log.shortened + 1
    missing = [f"requests 1 to {first - 1} are not listed"] if first > 1 else []
    if log.shortened >= first:
        missing.append(f"requests up to {log.shortened} may be cut to one line")
    can_recall = any(tool.name == "recall" for tool in start.tools)
    how = "recall searches the whole conversation" if can_recall else "ask the user if you need them"
    return f"({'; '.join(missing)}; {how})"


def last_shortened(state: State) -> int:
    """Return the number of the last request that the log may show cut to one line, or not at all; 0 if it is whole."""
    if state.session is None or state.session.rules.words is UNSET:
        return 0
    return _logged(state).shortened


def request_number(frame: Frame) -> int:
    """Return the number of the request that a frame handles."""
    return int(frame.name.rpartition("-")[2])


def _logged(state: State) -> _Requests:
    most = log_chars(state.begun)
    return state.popped.fold(_with_request, _Requests(most), f"requests in {most} characters")


def left_out_line(log: str) -> str:
    """Return what a log says that it lacks, without how the model finds it. Empty if it is complete."""
    for line in log.split("\n"):
        if line.startswith("REQUEST "):
            break
        if line.startswith("(requests "):
            return line[1:].rpartition("; ")[0]
    return ""


class _LoggedRequest(Struct, frozen=True):
    number: int
    text: str  # as it is listed
    short: str  # the same in one line


class _Requests(Struct, frozen=True):
    """The part of the log that is listed."""

    most: int  # maximum length
    shortened: int = 0  # number of the last request when the log was shortened; 0 if it never was
    entries: tuple[_LoggedRequest, ...] = ()


def _with_request(log: _Requests, popped: PoppedFrame) -> _Requests:
    frame = popped.frame
    if not frame.request:
        return log
    number, forced = request_number(frame), f" ({popped.forced})" if popped.forced else ""
    verbatim = int(log.most * _VERBATIM_SHARE)
    task, result = own_words(frame.task), own_words(popped.result)
    text = f"REQUEST {number}: {mark_cut(task, verbatim)}\nRESULT {number}{forced}: {mark_cut(result, verbatim)}"
    line = f"REQUEST {number}: {_one_line(task, _REQUEST_CHARS)} -> {_one_line(result, _RESULT_CHARS)}"
    entry = _LoggedRequest(number, text, min(line, text, key=len))
    grown = _Requests(log.most, log.shortened, (*log.entries, entry))
    return grown if _length(grown.entries) <= log.most else _shortened(grown)


def _shortened(log: _Requests) -> _Requests:
    """Cut the oldest requests to one line each, then drop the oldest, until half of the maximum is left."""
    entries, remaining = list(log.entries), int(log.most * _LEFT_SHARE)
    length = _length(log.entries)
    for position in range(len(entries) - 1):
        if length <= remaining:
            break
        entry = entries[position]
        length -= len(entry.text) - len(entry.short)
        entries[position] = _LoggedRequest(entry.number, entry.short, entry.short)
    first = 0
    while length > remaining and first < len(entries) - 1:
        length -= len(entries[first].text) + 1
        first += 1
    return _Requests(log.most, entries[-1].number, tuple(entries[first:]))


def _length(entries: tuple[_LoggedRequest, ...]) -> int:
    return sum(len(entry.text) + 1 for entry in entries)


def _one_line(text: str, most: int) -> str:
    return mark_cut(" ".join(text.split()), most)


def own_words(text: str) -> str:
    """Mark lines of a request or a result that look like lines of the log or like standing words."""
    return _IMITATED.sub("| ", text)


def _old_log(state: State) -> str:
    """Return the log of a conversation recorded before ``SessionRules.words``: at most about 4,000 characters."""
    initial = _Exchanges(divisor=3 if state.heap.brief else 2)
    folded = state.popped.fold(_with_exchange, initial, f"exchanges, one in {initial.divisor} left")
    if not folded.texts:
        return ""
    before = f"(requests 1 to {folded.dropped} are no longer listed)\n" if folded.dropped else ""
    return before + "\n".join(folded.texts)


class _Exchanges(Struct, frozen=True):
    """The part of the log that is still listed."""

    count: int = 0  # requests so far
    dropped: int = 0  # number of requests that are no longer listed
    short: tuple[str, ...] = ()  # the listed ones, each shortened to one line
    texts: tuple[str, ...] = ()  # the listed ones as they are shown
    divisor: int = 2  # if the log is too long even so, one entry in this many is kept


def _with_exchange(log: _Exchanges, popped: PoppedFrame) -> _Exchanges:
    frame, result = popped.frame, popped.result
    if not frame.request:
        return log
    number, forced = log.count + 1, f" ({popped.forced})" if popped.forced else ""
    text = (
        f"REQUEST {number}: {mark_cut(frame.task, _OLD_VERBATIM_CHARS)}\n"
        f"RESULT {number}{forced}: {mark_cut(result, _OLD_VERBATIM_CHARS)}"
    )
    line = f"REQUEST {number}: {_one_line(frame.task, _OLD_SHORT_CHARS)} -> {_one_line(result, _OLD_SHORT_CHARS)}"
    short, texts, dropped = (*log.short, line), (*log.texts, text), log.dropped
    if sum(map(len, texts)) > _OLD_LOG_CHARS:
        half = len(texts) // 2
        texts = (*short[:half], *texts[half:])
        if sum(map(len, texts)) > _OLD_LOG_CHARS:  # its older half is short already
            removed = len(texts) * (log.divisor - 1) // log.divisor
            texts, short, dropped = texts[removed:], short[removed:], dropped + removed
    return _Exchanges(number, dropped, short, texts, log.divisor)

"""A request's body as a strategy shows it: whole messages left out, results shortened, the rest as it came.

Rule 1: the bytes of a message that no strategy changes go on as they are; a shortened one is spelled one way only.
Rule 2: no cache mark is added, and one in a shortened message is left out: there are never more than the client's.
Rule 3: where the provider binds thinking to what stands before it, thinking behind the first change is left out.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import msgspec
from msgspec import Raw
from msgspec.structs import replace

from stackmem.core.messages import ToolResult

from .cutting import ForeignCut
from .wires.wire import ForeignRequest, WireFormat

_object = msgspec.json.Decoder(dict[str, Raw])


def rewritten(
    body: bytes,
    wire: WireFormat,
    request: ForeignRequest,
    cut: ForeignCut,
    shorten: Callable[[ToolResult, int], ToolResult],
) -> bytes:
    """The body with the cut made; the body itself where there is nothing to cut.

    Raises:
        ValueError: The messages cannot be replaced in it, or there is no place for what is said of the dropped ones.
    """
    shown = _messages(wire, request, cut, shorten)
    if shown == list(request.raw):
        return body
    old = bytes(_object.decode(body)[wire.field])
    at = body.find(old)
    made = body[:at] + b"[" + b",".join(shown) + b"]" + body[at + len(old) :]
    if wire.read(made).raw != tuple(shown):
        raise ValueError("the messages cannot be found in the body")
    return made


def _messages(
    wire: WireFormat, request: ForeignRequest, cut: ForeignCut, shorten: Callable[[ToolResult, int], ToolResult]
) -> list[bytes]:
    if not cut.exchanges or not (cut.dropped or cut.short):
        return list(request.raw)
    shown = list(request.raw[: cut.exchanges[0].said])
    if cut.head:
        shown = _with_head(wire, request, shown, cut.head)
    changed = False
    for number, one in enumerate(cut.exchanges):
        if cut.drops(number):
            changed = True
            kept = (place for place in range(one.said, one.end) if request.messages[place].role == "system")
            shown += (request.raw[place] for place in kept)
            continue
        said = request.raw[one.said : one.told]
        shown += map(wire.unbound, said) if changed and wire.unbound else said
        shortens, known = cut.shortens(number), partial(_shown, cut, shorten, number)
        for place in range(one.told, one.end):
            raw = request.raw[place]
            # Most messages of a long conversation hold no result: those need not be read again at every turn.
            holds = shortens and any(isinstance(part, ToolResult) for part in request.messages[place].parts)
            short = wire.shortened(raw, known) if holds else raw
            changed = changed or short != raw
            shown.append(short)
    last = request.raw[cut.exchanges[-1].end :]
    shown += map(wire.unbound, last) if changed and wire.unbound else last
    return shown


def _shown(
    cut: ForeignCut, shorten: Callable[[ToolResult, int], ToolResult], number: int, result: ToolResult
) -> ToolResult:
    answer = cut.answers.get(number, {}).get(result.call_id)
    return shorten(result, number + 1) if answer is None else replace(result, text=answer)


def _with_head(wire: WireFormat, request: ForeignRequest, shown: list[bytes], head: str) -> list[bytes]:
    for place in range(len(shown) - 1, -1, -1):
        if request.messages[place].role == "user":
            return [*shown[:place], wire.added(shown[place], head), *shown[place + 1 :]]
    raise ValueError("the conversation begins with no message of the user's")

"""Summaries for strategies: extra requests with the client's key, sent before the client's request continues.

- One request per beginning of a conversation serves all that wait for it; it is canceled when no one waits any
  longer.
- Time and size are limited, and there is one attempt. Without a summary, the client's request continues as the
  strategy shows it without one.
- The summary request extends the prompt that the provider has cached. It calls no tools and adds no cache marks.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterable
from functools import partial
from typing import Any

import anyio
import httpx2
import msgspec
from msgspec import Raw, Struct

from stackmem.core.facts import ModelReplied
from stackmem.doors.gateway.wires.wire import MIN_REPLY_TOKENS, WireFormat
from stackmem.providers.failures import failed
from stackmem.run.prompts import prompt_text

from .cutting import SummaryWanted
from .exchanges import SummaryPassed
from .ledger import CameRequest, GatewayLedger, reply_of
from .upstream import client_left
from .workers import Workers

_MAX_SECONDS = 600.0
_MAX_ANSWER_BYTES = 4 << 20
_REPLY_LIMIT_FIELDS = ("max_tokens", "max_completion_tokens", "max_output_tokens")
_NOT_ASKED_FOR = ("n", "prediction", "stop", "stop_sequences")
_NOT_SENT = {b"content-encoding", b"idempotency-key"}
_fields = msgspec.json.Decoder(dict[str, Raw])


def summary_body(body: bytes, wire: WireFormat, model: str, summary: SummaryWanted, system: str) -> bytes:
    """Build the body of a summary request.

    ``body`` is the client's request. The question for the summary follows its messages. ``system`` is the system prompt
    of a request outside the conversation. Raise ValueError if the body is not a request.
    """
    if summary.cold:
        return msgspec.json.encode(wire.plain(model, system, (part.text for part in summary.cold)))
    fields, request = _fields.decode(body), wire.read(body)
    raw = request.raw
    if summary.joined_late and wire.unbound is not None and not request.needs_thinking:
        raw = tuple(map(wire.unbound, raw))
    question = b",".join(wire.asking(raw, summary.request_text))
    fields[wire.field] = Raw(b"[" + question + b"]")
    for name in _NOT_ASKED_FOR:
        fields.pop(name, None)
    for name in _REPLY_LIMIT_FIELDS:
        limit = _value(fields.get(name))
        if isinstance(limit, int) and limit < MIN_REPLY_TOKENS:
            fields[name] = Raw(str(MIN_REPLY_TOKENS).encode())
    choice = _value(fields.get("tool_choice"))
    if isinstance(choice, dict) and choice.get("type") in ("any", "tool"):
        fields["tool_choice"] = Raw(b'{"type":"none"}')
    elif choice == "required" or (isinstance(choice, dict) and wire.provider == "openai"):
        fields["tool_choice"] = Raw(b'"none"')
    return msgspec.json.encode(fields)


def _value(raw: Raw | None) -> Any:
    return None if raw is None else msgspec.json.decode(raw)


class WaitedSummary(Struct):
    """A summary in progress."""

    task: asyncio.Task[SummaryPassed]
    waiting: int = 0  # number of waiting requests
    recorded: bool = False  # whether one of the waiting requests has recorded it


class Summaries:
    """The texts that are being written for one gateway."""

    def __init__(self, ledger: GatewayLedger, client: httpx2.AsyncClient, workers: Workers) -> None:
        self._ledger, self._client, self._workers = ledger, client, workers
        self._underway: dict[bytes, WaitedSummary] = {}

    async def bring(
        self, came: CameRequest, wire: WireFormat, due: SummaryWanted, beginning: bytes,
        to: tuple[str, Iterable[tuple[bytes, bytes]]], take: Callable[[str], None],
    ) -> bool:  # fmt: skip
        """Request a summary and wait for it; return whether the client stayed. Only one waiting request records it.

        Raise ValueError if the summary request cannot be made from the client's request.

        Args:
            beginning: The digest of the conversation so far.
            to: The address and the headers.
            take: Receives the summary, or an empty text if there is none.
        """
        summary = self._underway.get(beginning)
        if summary is None:
            content = came.content
            model = content.model if content is not None else ""
            build = partial(summary_body, came.rewritten, wire, model, due, prompt_text("compaction_system"))
            body = await self._workers.run(len(came.rewritten), build)
            summary = self._underway.get(beginning)  # another request may have asked in the meantime
        if summary is None:
            headers = [(name, value) for name, value in to[1] if name.lower() not in _NOT_SENT]
            request = httpx2.Request("POST", to[0], headers=headers, content=body)
            task = asyncio.ensure_future(self._ask(wire, model, due, request, take))
            summary = self._underway[beginning] = WaitedSummary(task)
            task.add_done_callback(lambda _: self._underway.pop(beginning, None))
        summary.waiting += 1
        disconnect = asyncio.ensure_future(client_left(came.request))
        try:
            await asyncio.wait({summary.task, disconnect}, return_when=asyncio.FIRST_COMPLETED)
            stayed = summary.task.done()
        finally:
            disconnect.cancel()
            summary.waiting -= 1
            if not summary.task.done() and not summary.waiting:
                summary.task.cancel()
        if not stayed and not summary.waiting:
            await asyncio.wait({summary.task})
        if summary.task.done() and not summary.task.cancelled() and not summary.recorded:
            summary.recorded = True
            came.summary = summary.task.result()
        return stayed

    async def _ask(
        self, wire: WireFormat, model: str, due: SummaryWanted, request: httpx2.Request, take: Callable[[str], None]
    ) -> SummaryPassed:
        began, chunks, size, reason = time.monotonic(), list[bytes](), 0, ""
        answer: httpx2.Response | None = None
        try:
            async with asyncio.timeout(_MAX_SECONDS):
                answer = await self._client.send(request, stream=True)
                async for chunk in answer.aiter_raw():
                    chunks.append(chunk)
                    size += len(chunk)
                    if size > _MAX_ANSWER_BYTES:
                        reason = "the answer is too long for a summary"
                        break
        except asyncio.CancelledError:
            reason = "nobody waited for the summary any longer"
        except TimeoutError:
            reason = f"the summary took longer than {_MAX_SECONDS:.0f} seconds"
        except (httpx2.HTTPError, httpx2.InvalidURL) as error:
            reason = f"the upstream gave no summary ({type(error).__name__})"
        finally:
            if answer is not None:
                with anyio.CancelScope(shield=True):
                    await answer.aclose()
        reply, plain = reply_of(wire, answer, chunks, reason)
        content = msgspec.structs.replace(wire.read(request.content), model=model)
        reply, lost = self._ledger.counted(wire, content, reply, plain)
        passed = SummaryPassed(
            due.turns, due.kept_exchanges, due.request_text,
            answer.status_code if answer is not None else 0, reply,
            round(time.monotonic() - began, 6), len(request.content),
            lost,
        )  # fmt: skip
        if isinstance(reply, ModelReplied) and not passed.text:
            passed = msgspec.structs.replace(
                passed, reply=failed("incomplete", "the model wrote no summary"), lost=reply.usage
            )
        self._ledger.spend(model, passed.usage)
        if not isinstance(passed.reply, ModelReplied):
            self._ledger.note(f"a request of {wire.name} was sent without its summary: {passed.reply.detail}")
        await self._workers.run(len(request.content), partial(take, passed.text))
        return passed

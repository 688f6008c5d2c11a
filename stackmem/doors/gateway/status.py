"""Reports on gateway runs from their logs, including gateways that are still running or were killed."""

from __future__ import annotations

from pathlib import Path

from msgspec import UNSET, Struct
from msgspec.structs import replace

from stackmem.core.errors import StackmemError, UsageError
from stackmem.core.facts import ModelReplied
from stackmem.core.messages import Part, Text, Usage
from stackmem.core.pricing import cost_usd
from stackmem.lab.whatif.recorded import WhatIfQuestion, tell_again
from stackmem.models.catalog import lookup
from stackmem.review.kept.cache_bill import moments_of
from stackmem.run.run_folder import EXCHANGES, RESULT, TRACE
from stackmem.trace.lock import is_held

from .exchanges import AnswerPassed, Passed, RequestPassed, read_exchanges
from .framing import FRAMES
from .recording import tell_to_end

_MIN_COMMON_CHARS = 40
"""Of replies that a request must repeat, so that short equal replies do not link two runs."""
_MAX_EARLIER_RUNS = 64


class Savings(Struct, frozen=True):
    """A strategy's savings: an estimate without a bound, from a simulation that assumes identical replies."""

    usd: float  # simulated bill under ``full`` minus that under the strategy; negative if the strategy cost more
    # difference between the simulated and the real bill under the strategy. The error of ``usd`` may be larger, because
    # the simulated bill under ``full`` has an error too
    off_usd: float


class GatewayRunStatus(Struct, frozen=True):
    """One run in the status list."""

    run: str
    state: str  # ``running`` while a gateway writes it, else ``ended``
    strategy: str
    model: str
    conversations: int  # including sub-agents and side requests; ``sub_agents`` counts the former
    sub_agents: int
    requests: int  # requests for a reply; ``retries`` repeated earlier bytes, ``failed`` got no complete reply
    retries: int
    failed: int
    summaries: int  # the strategy's own requests for summaries
    context_tokens: int  # tokens of the last prompt
    usage: Usage  # reported by the provider, including the known part of incomplete answers
    cost_usd: float | None  # None if the price of a model is unknown
    sent_share: float  # share of the received bytes that went upstream
    no_effect: bool = False  # whether the strategy has changed no request so far
    began: float = 0.0  # time of the first request, in seconds since 1970
    session: str = ""  # the client's own id of its session, if it sends one
    continues: str = ""  # the run before with the same session; empty if there is none
    savings: Savings | None = None  # None under ``full``, without a price, or while the run is being written


def gateway_status(runs_dir: Path) -> list[GatewayRunStatus]:
    """Return the gateway runs in a folder, oldest first; runs of killed gateways are completed first.

    Raise UsageError if the folder cannot be read, and TraceError if a record is broken.
    """
    try:
        folders = sorted(path.parent for path in runs_dir.glob(f"*/{EXCHANGES}"))
    except OSError as error:
        raise UsageError(f"{runs_dir} cannot be read ({error.strerror}); name a folder with -o") from error
    rows: list[GatewayRunStatus] = []
    newest: dict[str, str] = {}
    for row in sorted(map(run_status, folders), key=lambda status: status.began):
        without = [other.run for other in rows if not other.session]
        before = newest.get(row.session, "") if row.session else _run_before(runs_dir, row.run, without)
        rows.append(replace(row, continues=before))
        if row.session:
            newest[row.session] = row.run
    return rows


def _run_before(runs_dir: Path, run: str, earlier: list[str]) -> str:
    """Return the run that a client without session ids resumed: the newest whose replies its first request repeats."""
    first = next(read_exchanges(runs_dir / run / EXCHANGES), None)
    texts = _repeated(first)
    if sum(map(len, texts)) < _MIN_COMMON_CHARS:
        return ""
    recent = reversed(earlier[-_MAX_EARLIER_RUNS:])
    return next((other for other in recent if _replies(runs_dir / other)[: len(texts)] == texts), "")


def _replies(folder: Path) -> list[str]:
    """Return the texts of the replies in a run's first conversation, including those of its first request."""
    conversation: dict[int, int] = {}
    texts: list[str] = []
    for passed in read_exchanges(folder / EXCHANGES):
        if isinstance(passed, RequestPassed):
            texts += _repeated(passed) if not conversation else []
            conversation[passed.number] = passed.conversation
        elif isinstance(passed, AnswerPassed) and conversation.get(passed.number) == next(
            iter(conversation.values()), None
        ):
            texts += [_text_of(passed.reply.parts)] if isinstance(passed.reply, ModelReplied) else []
    return list(filter(None, texts))


def _repeated(request: Passed | None) -> list[str]:
    """Return the texts of the replies that a request contains."""
    messages = request.new_messages if isinstance(request, RequestPassed) else ()
    return list(filter(None, (_text_of(message.parts) for message in messages if message.role == "assistant")))


def _text_of(parts: tuple[Part, ...]) -> str:
    return " ".join(" ".join(part.text.split()) for part in parts if isinstance(part, Text))


def run_status(folder: Path) -> GatewayRunStatus:
    """Return the status of one run; raise ``TraceError`` if its record is broken."""
    running = is_held(folder / TRACE)
    if not running and not (folder / RESULT).exists():
        tell_to_end(folder)
    by_number: dict[int, RequestPassed] = {}
    usage, usd, priced, failed, context = Usage(), 0.0, True, 0, 0
    for passed in read_exchanges(folder / EXCHANGES):
        if isinstance(passed, RequestPassed):
            by_number[passed.number] = passed
            row, used = lookup(passed.model), UNSET if passed.summary is UNSET else passed.summary.usage
            if used is not UNSET:
                usage += used
                usd += cost_usd(used, row.price) if row and row.price else 0.0
                priced = priced and (not used.total or bool(row and row.price))
        elif isinstance(passed, AnswerPassed) and passed.number in by_number:
            reply_usage = passed.reply.usage if isinstance(passed.reply, ModelReplied) else None
            used = reply_usage or (Usage() if passed.lost is UNSET else passed.lost)
            row = lookup(by_number[passed.number].model)
            usage += used
            failed += reply_usage is None
            context = reply_usage.prompt if reply_usage else context
            usd += cost_usd(used, row.price) if row and row.price else 0.0
            priced = priced and (not used.total or bool(row and row.price))
    requests = list(by_number.values())
    cost = round(usd, 6) if priced else None
    summaries = [request.summary for request in requests if request.summary is not UNSET]
    sent = sum(request.sent_bytes for request in requests) + sum(summary.sent_bytes for summary in summaries)
    strategy = next((request.strategy for request in requests if request.strategy), "full")
    came = sum(request.body_bytes for request in requests)
    return GatewayRunStatus(
        run=folder.name,
        state="running" if running else "ended",
        strategy=strategy,
        model=requests[0].model if requests else "",
        conversations=len({request.conversation for request in requests}),
        sub_agents=len({request.conversation for request in requests if request.kind == "child"}),
        requests=len(requests),
        retries=sum(request.retry for request in requests),
        failed=failed,
        summaries=len(summaries),
        context_tokens=context,
        usage=usage,
        cost_usd=cost,
        sent_share=round(sent / came, 4) if came else 1.0,
        no_effect=strategy != "full"
        and not summaries
        and not any(request.dropped or request.short for request in requests),
        began=requests[0].at if requests else 0.0,
        session=next((request.session for request in requests if request.session), ""),
        savings=None if running or strategy in ("full", FRAMES) or cost is None else _savings(folder, cost),
    )


def _savings(folder: Path, cost: float) -> Savings | None:
    """Return the estimated savings; None if the run has no reply or cannot be simulated."""
    try:
        comparison = tell_again(folder.name, lambda: moments_of(folder), WhatIfQuestion(("full",), phases=None))
    except StackmemError:
        return None
    bills = [row.outcome.usd if row.outcome is not None else None for row in comparison.rows]
    if len(bills) != 2 or bills[0] is None or bills[1] is None:
        return None
    return Savings(round(bills[1] - bills[0], 6), round(abs(bills[0] - cost), 6))

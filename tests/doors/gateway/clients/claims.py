"""Compares what the gateway records about real agents' jobs with the provider's own sums.

Run it with ``python -m tests.doors.gateway.clients.claims [AGENT...]`` after ``scripts/clients.sh``.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import signal
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import TypeVar

from msgspec import UNSET, Struct

from stackmem.core.facts import ContextCompacted, FramePushed, ModelReplied
from stackmem.core.messages import Text, ToolCall, Usage
from stackmem.doors.gateway.exchanges import AnswerPassed, RequestPassed, read_exchanges
from stackmem.doors.gateway.recording import outcome
from stackmem.doors.gateway.status import GatewayRunStatus, gateway_status
from stackmem.doors.gateway.verifying import GatewayVerified, verify_gateway_run
from stackmem.doors.gateway.wires import wire_of
from stackmem.foreign.files import read_start
from stackmem.formats.import_ import ImportedRun, import_file
from stackmem.run.run_folder import EXCHANGES, TRACE
from stackmem.trace.store import TraceReader
from tests.doors.gateway.clients.agent_jobs import JOBS, JobClient
from tests.doors.gateway.clients.frames import FRAME_AGENTS, framed, run_with_frames
from tests.doors.gateway.clients.job import BEGIN, DONE, RESUME, TITLE, JobProvider, begin
from tests.doors.gateway.clients.results import Results, add_result_flags, stop_if_out_of_time, write_between
from tests.doors.gateway.clients.table import STRATEGIES, environ_of, place_of, version
from tests.doors.gateway.upstream import RawUpstream

T = TypeVar("T")
MINI_DONE = "COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT"
_SECONDS = 400
_BEGIN, _END = "<!-- jobs of real agents -->", "<!-- end of the jobs -->"
_COLUMNS = {
    "bodies": ("bodies", "unchanged", "no request refused"),
    "usage, bill, steps": ("finishes", "usage", "usage of the trace", "bill", "steps"),
    "tree": ("sub-agents", "side requests"),
    "import": ("import",),
    "resume": ("resume",),
}
"""The table's columns and their claims."""


class JobRun(Struct, frozen=True):
    """The outcome of a job."""

    codes: tuple[int, ...]
    said: str
    status: list[GatewayRunStatus]
    asked: list[RequestPassed]
    verified: list[GatewayVerified]
    provider: JobProvider
    notes: list[str]
    folders: list[Path]
    home: Path
    passed: list[tuple[str, dict[str, str], bytes]]  # the requests that reached the upstream

    @property
    def is_done(self) -> bool:
        return bool(self.codes) and self.said.count(DONE) + self.said.count(MINI_DONE) >= len(self.codes)

    @property
    def recorded(self) -> list[int]:
        """Return the recorded sums of uncached, read, written and output tokens."""
        used = [one.usage for one in self.status]
        written = sum(one.cache_write_5m + one.cache_write_1h for one in used)
        read = sum(one.cache_read for one in used)
        return [sum(one.uncached for one in used), read, written, sum(one.output for one in used)]


def run_job(
    job: JobClient, strategy: str, clients: Path, scratch: Path, flags: Sequence[str] = (), name: str = "one"
) -> JobRun:
    """Run an agent's job, and its resume if the agent has one, each behind a gateway."""
    place = place_of(job.client, clients)
    if place is None:
        raise FileNotFoundError(job.client.name)
    work, runs, home = scratch / "work", scratch / "runs", scratch / "home"
    begin(work / name, git=job.git)
    home.mkdir()
    for file, value in job.client.files.items():
        (home / file).parent.mkdir(parents=True, exist_ok=True)
        (home / file).write_text(json.dumps(value))
    provider, codes, said = JobProvider(work, job.client.last if job.client.name == "mini-swe-agent" else None), [], ""
    with RawUpstream(at=provider.answer) as upstream:
        for words, task, typed in zip((job.command, job.resume), (BEGIN, RESUME), job.typed, strict=True):
            slots = {"{task}": task.format(job=name), "{python}": str(place / "python"), "{bin}": str(place)}
            command = list(words)
            for slot, value in slots.items():
                command = [word.replace(slot, value) for word in command]
            if not command:
                continue
            gateway = [sys.executable, "-m", "stackmem", "gateway", "run", "--upstream", upstream.url, "--strategy",
                       strategy, *flags, "-o", str(runs), "--", *command]  # fmt: skip
            code, output = _finished(
                gateway, work / name, environ_of(job.client, home), typed, name, 90 if flags else _SECONDS
            )
            codes.append(code)
            said += output
    folders = sorted(path.parent for path in runs.glob(f"*/{EXCHANGES}"))
    asked = [one for folder in folders for one in read_exchanges(folder / EXCHANGES) if isinstance(one, RequestPassed)]
    return JobRun(
        tuple(codes), said, gateway_status(runs), asked, [verify_gateway_run(folder) for folder in folders], provider,
        [line for line in said.splitlines() if line.startswith("note: ")], folders, home,
        [one for one in upstream.seen if wire_of(one[0].partition("?")[0]) is not None],
    )  # fmt: skip


def _finished(
    command: list[str], folder: Path, environ: dict[str, str], typed: Sequence[str], name: str, seconds: float
) -> tuple[int, str]:
    """Run a command; return its exit code and output. One that waits for its user after an error is interrupted."""
    process = subprocess.Popen(
        command, cwd=folder, env=environ, text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT, start_new_session=True,
    )  # fmt: skip
    try:
        output, _ = process.communicate("".join(f"{line.format(job=name)}\n" for line in typed), seconds)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGINT)
        output, _ = process.communicate(timeout=_SECONDS)
    return process.returncode, output


def claims(job: JobClient, found: JobRun, strategy: str) -> dict[str, str]:
    """Return each claim with its contradiction; empty if it holds."""
    provider = found.provider
    replies = sum(provider.asked.values()) + provider.compacted + provider.titles
    outcomes = [outcome(folder) for folder in found.folders]
    usd = sum(one.cost_usd or 0.0 for one in found.status)
    whole = sum((one.usage for one in outcomes), Usage())
    sums = [whole.uncached, whole.cache_read, whole.cache_write_5m + whole.cache_write_1h, whole.output]
    pushed = sum(_own_pushes(folder) for folder in found.folders)
    steps = sum(one.steps for one in outcomes) - pushed
    decided = sum(one.cuts for one in found.verified)
    left = sum(one.not_followed for one in found.verified)
    bodies = sorted(hashlib.sha256(body).hexdigest() for _, _, body in found.passed if body)
    summaries = sum(one.summary is not UNSET for one in found.asked)
    untouched = {one.sent_sha256 for one in found.asked if one.sent_sha256 == one.body_sha256}
    refused = [
        why for why, body in zip(provider.refused, provider.refused_bodies, strict=True)
        if hashlib.sha256(body).hexdigest() not in untouched
    ]  # fmt: skip
    return {
        "finishes": "" if not any(found.codes) and found.is_done else f"exit codes {found.codes}",
        "no request refused": "; ".join((*refused, *found.notes)),
        "bodies": _unequal(bodies, sorted(one.sent_sha256 for one in found.asked)) if not summaries else "",
        "unchanged": "" if strategy != "full" or all(one.body_sha256 == one.sent_sha256 for one in found.asked)
        else "a body was changed",
        "usage": _unequal(found.recorded, provider.billed),
        "usage of the trace": _unequal(sums, provider.billed),
        "bill": _unequal(round(usd, 4), round(provider.usd, 4)) if provider.usd is not None else "",
        "steps": _unequal(steps, replies) if strategy == "full" else "",
        "cuts": "" if strategy == "full" else _unequal((decided, left), (len(found.asked), 0)),
        "sub-agents": _tree(job, found),
        "side requests": _sides(found),
        "import": _imported(job, found, steps, usd) if strategy == "full" and job.sessions else "",
        "resume": "" if not job.is_linked or _is_linked(found.status) else "not linked",
    }  # fmt: skip


def _is_linked(status: list[GatewayRunStatus]) -> bool:
    return len(status) == 1 or status[-1].continues == status[0].run


def _unequal(recorded: object, stated: object) -> str:
    return "" if recorded == stated else f"{recorded} for {stated}"


def _imported(job: JobClient, found: JobRun, steps: int, usd: float) -> str:
    """Compare the agent's own session files with the recording, except for replies that the files never contain."""
    imports: list[ImportedRun] = []
    for file in sorted(found.home.glob(job.sessions)):
        if '"parent_thread_id"' not in (start := read_start(file, 2_000).decode("utf-8", "replace")):
            imports += import_file(file, None, found.home / "imported") if _has_replies(start, file) else ()
    whole = sum((one.usage for one in imports), Usage())
    sums = [whole.uncached, whole.cache_read, whole.cache_write_5m + whole.cache_write_1h, whole.output]
    cost = sum(one.cost_usd or 0.0 for one in imports)
    missing = [one for one in found.provider.texts if any(one[0].text.startswith(start) for start in job.unsaved)]
    for _, used, price in missing:
        sums, cost = [one + more for one, more in zip(sums, used, strict=True)], cost + price
    number = sum(one.steps + _summaries(Path(one.run_dir)) for one in imports) + len(missing)
    cost = cost if found.provider.usd is not None else usd  # of a model without a price, a cost is not known
    return _unequal((number, sums, round(cost, 4)), (steps, found.recorded, round(usd, 4)))


def _summaries(folder: Path) -> int:
    """Return the number of replies that an import keeps as compactions, which are not steps."""
    events = (record.event for record in TraceReader(folder / TRACE))
    return sum(isinstance(one, ContextCompacted) and one.usage.total > 0 for one in events)


def _has_replies(start: str, file: Path) -> bool:
    """Return whether a file has replies; Gemini CLI begins another one when it resumes."""
    return "projectHash" not in start or '"tokens"' in file.read_text()


def _own_pushes(folder: Path) -> int:
    """Return the steps that the gateway added to begin a parallel strand."""
    replies = (record.event for record in TraceReader(folder / TRACE) if isinstance(record.event, ModelReplied))
    calls = (part for one in replies for part in one.parts if isinstance(part, ToolCall))
    return sum(call.name == "push_frame" and call.id.startswith("strand_") for call in calls)


def _tree(job: JobClient, found: JobRun) -> str:
    """Compare the sub-agents of the first run with the calls that started them."""
    strands = [one for one in ("BLOCK", "BACK") if ("one", one) in found.provider.asked]
    children = {one.conversation: one for one in found.asked if one.kind == "child"}
    if job.agents != len(strands) or len(children) != len(strands):
        return f"{len(children)} recorded and {len(strands)} worked of {job.agents}"
    pushes = [record.event for record in TraceReader(found.folders[0] / TRACE) if isinstance(record.event, FramePushed)]
    named_ = [strand for strand in strands for one in pushes if f"-{strand}-" in one.name]
    without = [one.number for one in children.values() if not one.call_id]
    return f"requests {without} without their call" if without else _unequal(named_, strands)


def _sides(found: JobRun) -> str:
    """Compare the side requests for titles and commit messages with those that the provider wrote."""
    recorded = 0
    for folder in found.folders:
        passed = list(read_exchanges(folder / EXCHANGES))
        sides = {one.number for one in passed if isinstance(one, RequestPassed) and one.kind == "side"}
        replies = (one.reply for one in passed if isinstance(one, AnswerPassed) and one.number in sides)
        texts = (part.text for one in replies if isinstance(one, ModelReplied) for part in one.parts
                 if isinstance(part, Text))  # fmt: skip
        recorded += sum(text.startswith(TITLE) for text in texts)
    return _unequal(recorded, found.provider.titles)


def bounded(found: JobRun) -> str:
    """Return what contradicts a bound of 0.00001 USD; empty if no request was sent after the first answers."""
    most = len(found.codes) + found.provider.titles  # a title is requested in parallel with the first step
    if len(found.passed) > most or "--max-usd" not in found.said:
        return f"{len(found.passed)} requests were sent"
    return ""


class Attempt(Struct, frozen=True):
    """A job under a strategy: its figures, and each claim that does not hold with its contradiction."""

    wrong: dict[str, str]
    requests: int
    children: int
    compacted: int
    model: str


def _attempt(name: str, strategy: str, clients: Path) -> Attempt:
    with tempfile.TemporaryDirectory(prefix="stackmem-jobs-", ignore_cleanup_errors=True) as scratch:
        found = run_job(JOBS[name], strategy, clients, Path(scratch))
        wrong = {claim: why for claim, why in claims(JOBS[name], found, strategy).items() if why}
    print(f"{name} under {strategy}: {len(found.asked)} requests; {wrong or 'every claim holds'}", file=sys.stderr)
    children = len({(one.session, one.conversation) for one in found.asked if one.kind == "child"})
    (model, _), *_ = Counter(one.model for one in found.asked).most_common() or [("-", 0)]
    return Attempt(wrong, len(found.asked), children, found.provider.compacted, model)


def _bound(name: str, clients: Path) -> str:
    with tempfile.TemporaryDirectory(prefix="stackmem-jobs-", ignore_cleanup_errors=True) as scratch:
        why = bounded(run_job(JOBS[name], "full", clients, Path(scratch), ("--max-usd", "0.00001")))
    print(f"{name} with --max-usd: {why or 'the claim holds'}", file=sys.stderr)
    return why


def _frames(name: str, clients: Path) -> str:
    with tempfile.TemporaryDirectory(prefix="stackmem-jobs-", ignore_cleanup_errors=True) as scratch:
        try:
            why = framed(*run_with_frames(name, clients, Path(scratch)))
        except subprocess.SubprocessError as error:
            why = str(error)
    print(f"{name} with frames: {why or 'the claim holds'}", file=sys.stderr)
    return why


def _row(name: str, clients: Path, whole: Attempt, attempts: Sequence[Attempt], bound: str, frames: str | None) -> str:
    """Return an agent's row of the table, from its jobs under ``full``, under each strategy, with a bound and frames.

    Args:
        bound: What contradicts its bound; empty if nothing does. ``frames`` likewise, None if it cannot have them.
    """
    job = JOBS[name]
    cells = {title: _cell(whole.wrong, names) for title, names in _COLUMNS.items()}
    cells["import"] = cells["import"] if job.sessions else "-"
    cells["resume"] = cells["resume"] if job.is_linked and job.resume else "-"
    under = f"{sum(not one.wrong for one in attempts)} of {len(attempts)}"
    shown = (f"{job.client.package} {version(job.client, clients)}", whole.model, whole.requests, whole.children,
             whole.compacted, *cells.values(), "no" if bound else "yes", under,
             "-" if frames is None else "no" if frames else "yes")  # fmt: skip
    return f"| {' | '.join(map(str, shown))} |"


def _cell(wrong: dict[str, str], names: tuple[str, ...]) -> str:
    return "no" if any(name in wrong for name in names) else "yes"


def main() -> None:
    """Run the named agents' jobs, or all, under all strategies, and print or write the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("agents", nargs="*", default=list(JOBS))
    parser.add_argument("--strategies", nargs="*", default=STRATEGIES[1:], help="in addition to full")
    parser.add_argument("--workers", type=int, default=os.cpu_count(), help="jobs at a time")
    parser.add_argument("--write", type=Path, help="a page; the table replaces that between its marks")
    add_result_flags(parser)
    chosen, clients = parser.parse_args(), Path(os.environ["STACKMEM_CLIENTS"])
    results = Results(chosen.results, chosen.minutes)
    chosen_jobs = [name for name in chosen.agents if name in JOBS]
    installed = [name for name in chosen_jobs if place_of(JOBS[name].client, clients) is not None]
    titles = ("agent", "model", "requests", "sub-agents", "compactions", *_COLUMNS, "bound", "strategies", "frames")
    head = f"| {' | '.join(titles)} |\n|---|---|" + "---:|" * 3 + "---|" * (len(titles) - 5)
    with ThreadPoolExecutor(chosen.workers) as pool:

        def started(kind: type[T], job: Callable[..., T], name: str, *words: str) -> Future[T]:
            key = (job.__name__, name, version(JOBS[name].client, clients), *words)
            return pool.submit(results.of, kind, partial(job, name, *words, clients), *key)

        jobs = {name: [started(Attempt, _attempt, name, one) for one in ("full", *chosen.strategies)]
                for name in installed}  # fmt: skip
        bounds = {name: started(str, _bound, name) for name in installed}
        frames = {name: started(str, _frames, name) for name in installed if name in FRAME_AGENTS}
    stop_if_out_of_time([*(one for row in jobs.values() for one in row), *bounds.values(), *frames.values()])
    rows = list[str]()
    for name in installed:
        whole, *attempts = (one.result() for one in jobs[name])
        pushed = frames[name].result() if name in frames else None
        rows.append(_row(name, clients, whole, attempts, bounds[name].result(), pushed))
    names = ", ".join(f"`{strategy}`" for strategy in chosen.strategies)
    table = "\n".join((f"Run on {results.run_on} under `full` and {names}:", "", head, *rows))
    print(table)
    if chosen.write is not None:
        write_between(chosen.write, _BEGIN, _END, table)


if __name__ == "__main__":
    main()

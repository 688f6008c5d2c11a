"""What the gateway states about real agents' jobs, held against the provider's own sums.

Run it with ``python -m tests.doors.gateway.clients.claims [AGENT...]`` after ``scripts/clients.sh``.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from msgspec import Struct

from stackmem.doors.gateway.exchanges import RequestPassed, read_exchanges
from stackmem.doors.gateway.status import GatewayRunStatus, gateway_status
from stackmem.doors.gateway.verifying import GatewayVerified, verify_gateway_run
from stackmem.run.run_folder import EXCHANGES
from tests.doors.gateway.clients.job import BEGIN, RESUME, JobProvider, begin
from tests.doors.gateway.clients.table import CLIENTS, Client, environ_of, place_of
from tests.doors.gateway.upstream import RawUpstream

NAMED = {client.name: client for client in CLIENTS}
_SECONDS = 240


class JobClient(Struct, frozen=True):
    """An agent with a job.

    Attributes:
        command: Starts the job; ``resume`` continues it; empty if the agent cannot. ``{task}`` is the prompt.
        sessions: Where it keeps its session files, below its home; empty if it keeps none.
    """

    client: Client
    command: tuple[str, ...]
    resume: tuple[str, ...] = ()
    sessions: str = ""


_CLAUDE = ("{bin}/claude", "-p", "{task}", "--dangerously-skip-permissions", "--autocompact", "100000", "--model")
_CODEX = ("--skip-git-repo-check", "--dangerously-bypass-approvals-and-sandbox",
          "-c", "model_auto_compact_token_limit=100000", "-m")  # fmt: skip
_OPENCODE = ("{bin}/opencode", "run", "--model")
_GEMINI = ("{bin}/gemini", "--model", "gemini-3.8-flash", "--yolo", "-p", "{task}")


def _claude(model: str) -> JobClient:
    command = (*_CLAUDE, model)
    return JobClient(NAMED["claude-code"], command, (*command, "--continue"), ".claude/projects/*/*.jsonl")


def _codex(model: str) -> JobClient:
    started = ("{bin}/codex", "exec", *_CODEX, model, "{task}")
    resumed = ("{bin}/codex", "exec", "resume", "--last", *_CODEX, model, "{task}")
    return JobClient(NAMED["codex"], started, resumed, ".codex/sessions/*/*/*/*.jsonl")


def _opencode(model: str) -> JobClient:
    command = (*_OPENCODE, f"anthropic/{model}", "{task}")
    return JobClient(NAMED["opencode"], command, (*_OPENCODE[:2], "--continue", *command[2:]), "")


JOBS = {
    "claude-code": _claude("claude-sonnet-5-5"),
    "claude-code-4": _claude("claude-sonnet-4-5"),
    "codex": _codex("gpt-5.4"),
    "codex-code": _codex("gpt-5.6-sol"),
    "opencode": _opencode("claude-sonnet-5-5"),
    "opencode-4": _opencode("claude-sonnet-4-5"),
    "gemini-cli": JobClient(
        NAMED["gemini-cli"], _GEMINI, (*_GEMINI, "--resume", "latest"), ".gemini/tmp/*/chats/*.jsonl"
    ),
    "mini-swe-agent": JobClient(NAMED["mini-swe-agent"], NAMED["mini-swe-agent"].command),
}


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
    begin(work / name)
    home.mkdir()
    for file, value in job.client.files.items():
        (home / file).parent.mkdir(parents=True, exist_ok=True)
        (home / file).write_text(json.dumps(value))
    provider, codes, said = JobProvider(work, job.client.last if job.client.name == "mini-swe-agent" else None), [], ""
    with RawUpstream(at=provider.answer) as upstream:
        for words, task in ((job.command, BEGIN), (job.resume, RESUME)):
            slots = {"{task}": task.format(job=name), "{python}": str(place / "python"), "{bin}": str(place)}
            command = list(words)
            for slot, value in slots.items():
                command = [word.replace(slot, value) for word in command]
            if not command:
                continue
            gateway = [sys.executable, "-m", "stackmem", "gateway", "run", "--upstream", upstream.url, "--strategy",
                       strategy, *flags, "-o", str(runs), "--", *command]  # fmt: skip
            done = subprocess.run(
                gateway, cwd=work / name, env=environ_of(job.client, home), capture_output=True, text=True,
                check=False, input="", timeout=_SECONDS,
            )  # fmt: skip
            codes.append(done.returncode)
            said += done.stdout + done.stderr
    folders = sorted(path.parent for path in runs.glob(f"*/{EXCHANGES}"))
    asked = [one for folder in folders for one in read_exchanges(folder / EXCHANGES) if isinstance(one, RequestPassed)]
    return JobRun(
        tuple(codes), said, gateway_status(runs), asked, [verify_gateway_run(folder) for folder in folders], provider,
        [line for line in said.splitlines() if line.startswith("note: ")], folders, home,
    )  # fmt: skip


def main() -> None:
    """Run the named agents' jobs under ``full`` and print what was found."""
    import tempfile

    names = sys.argv[1:] or list(JOBS)
    for name in names:
        with tempfile.TemporaryDirectory(prefix="stackmem-jobs-", ignore_cleanup_errors=True) as scratch:
            found = run_job(JOBS[name], "full", Path(os.environ["STACKMEM_CLIENTS"]), Path(scratch))
            print(name, found.codes, found.provider.refused, found.notes)
            print(found.recorded, found.provider.billed, [one.cost_usd for one in found.status])


if __name__ == "__main__":
    main()

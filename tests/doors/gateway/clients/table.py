"""Third-party agents, each behind a gateway under every strategy.

Run it with ``python -m tests.doors.gateway.clients.table``.

``scripts/clients.sh`` installs each agent into its own folder and runs this module; the table goes to docs/gateway.md.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

from msgspec import UNSET, Struct

from stackmem.doors.gateway.exchanges import RequestPassed, read_exchanges
from stackmem.doors.gateway.status import GatewayRunStatus, run_status
from stackmem.doors.gateway.verifying import verify_gateway_run
from stackmem.run.run_folder import EXCHANGES
from tests.doors.gateway.clients.provider import DONE, FAREWELL, TASK, ScriptedProvider
from tests.doors.gateway.clients.results import Results, add_result_flags, stop_if_out_of_time, write_between
from tests.doors.gateway.clients.spelling import Call, Reply
from tests.doors.gateway.upstream import RawUpstream

AGENTS = Path(__file__).parent / "agents"
STRATEGIES = (
    "full", "clear:1500,keep=2", "mask:2,poll=2", "truncate:300", "window:3,step=2", "rolling_summary:3",
    "summary:2500,keep=2", "structured_summary:2500,keep=2", "hierarchical:2,2",
)  # fmt: skip
_LITELLM = {"LITELLM_LOCAL_MODEL_COST_MAP": "True"}
_MINI_ENDS = {"command": "echo COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT"}
_TALKS = tuple(f"First I look at part_{number}.txt.\n" + "It holds lines. " * 60 for number in range(1, 8))
_OPENCODE = {"provider": {"anthropic": {
    "options": {"baseURL": "{env:ANTHROPIC_BASE_URL}/v1", "apiKey": "{env:ANTHROPIC_API_KEY}"},
    "models": {
        "claude-sonnet-5-5": {"name": "Sonnet", "limit": {"context": 200_000, "output": 32_000}},
        "claude-haiku-4-5": {"options": {"thinking": {"type": "enabled", "budgetTokens": 4_000}}},
    },
}}, "permission": "allow"}  # fmt: skip
_SECONDS = 240
_RECOGNIZED = ("<!-- agents on a short task -->", "<!-- end of the short task -->")
_SHARES = ("<!-- shares on a short task -->", "<!-- end of the shares -->")


class Client(Struct, frozen=True):
    """An agent.

    Attributes:
        name: The folder of its installation.
        package: Its name in the registry.
        command: ``{task}`` is the task; ``{python}`` and ``{bin}`` point into the installation.
        last: The end of its work; ``talks`` are the answers if it has no tools.
        typed: The user's input, line after line.
        variables: Environment variables in addition to those of every agent.
        files: JSON files in its home.
        own: It is installed with our tests.
    """

    name: str
    package: str
    command: tuple[str, ...]
    wire: str
    last: Reply = FAREWELL
    talks: tuple[str, ...] = ()
    typed: tuple[str, ...] = ()
    variables: dict[str, str] = {}
    files: dict[str, object] = {}
    own: bool = False


def _python(name: str, package: str, file: str, wire: str, *, own: bool = False) -> Client:
    return Client(name, package, ("{python}", str(AGENTS / file), "{task}"), wire, own=own)


CLIENTS = (
    _python("anthropic", "anthropic", "anthropic_sdk.py", "Messages", own=True),
    Client(
        "anthropic-4", "anthropic", ("{python}", str(AGENTS / "anthropic_sdk.py"), "{task}"), "Messages",
        variables={"AGENT_MODEL": "claude-haiku-4-5"}, own=True,
    ),
    _python("openai", "openai", "openai_sdk.py", "Responses", own=True),
    _python("openai-chat", "openai", "openai_chat_sdk.py", "Chat Completions", own=True),
    _python("openai-agents", "openai-agents", "openai_agents.py", "Responses", own=True),
    _python("langgraph", "langgraph", "langgraph_agent.py", "Messages"),
    _python("pydantic-ai", "pydantic-ai-slim", "pydantic_ai_agent.py", "Messages"),
    Client(
        "smolagents", "smolagents", ("{python}", str(AGENTS / "smolagents_agent.py"), "{task}"), "Chat Completions",
        Reply("All is counted.", (Call("final_answer", {"answer": DONE}),)),
    ),
    Client(
        "mini-swe-agent", "mini-swe-agent",
        ("{bin}/mini", "--yolo", "--exit-immediately", "-m", "anthropic/claude-sonnet-5-5", "-t", "{task}"),
        "Messages", Reply("All is counted.", (Call("bash", _MINI_ENDS),)),
        variables={"MSWEA_CONFIGURED": "true", "MSWEA_COST_TRACKING": "ignore_errors", **_LITELLM},
    ),
    Client(
        "aider", "aider-chat",
        ("{bin}/aider", "--yes-always", "--no-git", "--model", "openai/gpt-5.6-sol",
         "--no-show-model-warnings", "--no-check-update", "--no-show-release-notes", "--no-analytics",
         "--map-tokens", "0", "--no-pretty", "--no-gitignore"),
        "Chat Completions", talks=_TALKS, variables=_LITELLM,
        typed=(TASK, *(f"And part {number}, please." for number in range(1, len(_TALKS) + 1))),
    ),
    Client(
        "claude-code", "@anthropic-ai/claude-code",
        ("{bin}/claude", "-p", "{task}", "--model", "claude-sonnet-5-5", "--dangerously-skip-permissions"),
        "Messages", variables={"IS_SANDBOX": "1"},
    ),
    Client(
        "codex", "@openai/codex",
        ("{bin}/codex", "exec", "--skip-git-repo-check", "--dangerously-bypass-approvals-and-sandbox", "-m",
         "gpt-5.6", "{task}"),
        "Responses",
    ),
    Client(
        "qwen-code", "@qwen-code/qwen-code",
        ("{bin}/qwen", "--auth-type", "openai", "--model", "gpt-5.6-sol", "--yolo", "-p", "{task}"), "Chat Completions",
    ),
    Client(
        "gemini-cli", "@google/gemini-cli", ("{bin}/gemini", "--model", "gemini-3.8-flash", "--yolo", "-p", "{task}"),
        "Gemini", variables={"GEMINI_CLI_TRUST_WORKSPACE": "true"},
        files={".gemini/settings.json": {"security": {"auth": {"selectedType": "gemini-api-key"}}}},
    ),
    Client(
        "opencode", "opencode-ai", ("{bin}/opencode", "run", "--model", "anthropic/claude-sonnet-5-5", "{task}"),
        "Messages", variables={"OPENCODE_CONFIG_CONTENT": json.dumps(_OPENCODE), "OPENCODE_DISABLE_MODELS_FETCH": "1"},
    ),
)  # fmt: skip


class ClientRun(Struct, frozen=True):
    """The outcome of a client under a strategy.

    Attributes:
        said: Its output; ``notes`` lists what the gateway reported about its own faults.
        runs: The recorded runs, one for each tree of conversations.
        asked: All their requests; ``largest`` is the size in bytes of the longest body sent upstream.
        refused: The provider's reasons for refusing requests.
        billed: The provider's own sums of uncached, read, written and output tokens.
        verified: Requests whose cut follows from their conversation; ``not_followed`` counts those that cannot be
            checked.
    """

    code: int
    said: str
    runs: list[GatewayRunStatus]
    asked: list[RequestPassed]
    refused: list[str]
    notes: list[str]
    largest: int
    billed: list[int]
    verified: int = 0
    not_followed: int = 0

    def count(self, *kinds: str) -> int:
        return sum(one.kind in kinds for one in self.asked)

    @property
    def sent(self) -> int:
        """Return the bytes sent upstream, including requests for summaries."""
        texts = (one.summary.sent_bytes for one in self.asked if one.summary is not UNSET)
        return sum(one.sent_bytes for one in self.asked) + sum(texts)

    @property
    def recorded(self) -> list[int]:
        """Return the recorded sums of uncached, read, written and output tokens."""
        used = [one.usage for one in self.runs]
        written = sum(one.cache_write_5m + one.cache_write_1h for one in used)
        read = sum(one.cache_read for one in used)
        return [sum(one.uncached for one in used), read, written, sum(one.output for one in used)]

    @property
    def usd(self) -> float:
        return sum(one.cost_usd or 0.0 for one in self.runs)


def place_of(client: Client, clients: Path) -> Path | None:
    """Return the folder of its programs; None if it is not installed."""
    if client.own:
        return Path(sys.executable).parent
    found = [clients / client.name / "bin", clients / client.name / "node_modules" / ".bin"]
    program = client.command[0].replace("{python}", "python").replace("{bin}/", "")
    return next((one for one in found if (one / program).exists()), None)


def run(client: Client, strategy: str, clients: Path, scratch: Path) -> ClientRun:
    """Run the client on the task, in an empty home, behind ``stackmem gateway run``."""
    place = place_of(client, clients)
    if place is None:
        raise FileNotFoundError(client.name)
    work, runs = scratch / "work", scratch / "runs"
    for folder in (work, scratch / "home"):
        folder.mkdir(parents=True)
    for name, value in client.files.items():
        file = scratch / "home" / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(json.dumps(value))
    for number in range(1, 8):
        (work / f"part_{number}.txt").write_text("line\n" * number)
    slots = {"{task}": TASK, "{python}": str(place / "python"), "{bin}": str(place)}
    command = list(client.command)
    for slot, value in slots.items():
        command = [word.replace(slot, value) for word in command]
    provider = ScriptedProvider(client.last, client.talks)
    with RawUpstream(at=provider.answer) as upstream:
        words = [sys.executable, "-m", "stackmem", "gateway", "run", "--upstream", upstream.url, "--strategy", strategy,
                 "-o", str(runs), "--", *command]  # fmt: skip
        done = subprocess.run(
            words, cwd=work, env=environ_of(client, scratch / "home"), capture_output=True, text=True, check=False,
            input="".join(f"{line}\n" for line in client.typed), timeout=_SECONDS,
        )  # fmt: skip
    folders = sorted(path.parent for path in runs.glob(f"*/{EXCHANGES}"))
    verified = [verify_gateway_run(folder) for folder in folders]
    return ClientRun(
        done.returncode,
        done.stdout + done.stderr,
        [run_status(folder) for folder in folders],
        [one for folder in folders for one in read_exchanges(folder / EXCHANGES) if isinstance(one, RequestPassed)],
        provider.refused,
        [line for line in done.stderr.splitlines() if line.startswith("note: ")],
        max(map(len, provider.seen), default=0),
        provider.billed,
        sum(one.cuts for one in verified),
        sum(one.not_followed for one in verified),
    )


def environ_of(client: Client, home: Path) -> dict[str, str]:
    """Return the environment of a client, with fake keys and a separate home."""
    given = {name: os.environ[name] for name in ("PATH", "LANG", "TERM") if name in os.environ}
    keys = {"ANTHROPIC_API_KEY": "sk-ant-none-0123456789", "OPENAI_API_KEY": "sk-none-0123456789abcdef",
            "GEMINI_API_KEY": "AIza" + "b" * 35}  # fmt: skip
    quiet = {"DISABLE_AUTOUPDATER": "1", "OPENCODE_DISABLE_AUTOUPDATE": "1", "NO_COLOR": "1"}
    return {**given, **keys, **quiet, "HOME": str(home), "XDG_CACHE_HOME": str(home / "cache"), **client.variables}


def version(client: Client, clients: Path) -> str:
    """Return its installed version."""
    if not client.own and (file := clients / client.name / "node_modules" / client.package / "package.json").exists():
        return str(json.loads(file.read_text())["version"])
    python = sys.executable if client.own else str(clients / client.name / "bin" / "python")
    asked = f"import importlib.metadata as m; print(m.version({client.package!r}))"
    return subprocess.run([python, "-c", asked], capture_output=True, text=True, check=False).stdout.strip()


class Measured(Struct, frozen=True):
    """The figures of a client under a strategy: requests by kind, retries, bytes and cost.

    Attributes:
        kinds: New conversations, turns, edits, sub-agents and side requests.
        tokens: Whether the recorded sums equal the provider's; otherwise both.
        sent: Bytes that reached the provider.
        faults: Refusals, notes of the gateway, and a failing exit code with the end of the output.
    """

    requests: int
    kinds: tuple[int, ...]
    retries: int
    tokens: str
    sent: int
    usd: float
    faults: list[str]


def main() -> None:
    """Run the named clients, or all, and print or write a table of recognized features and one of savings."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("agents", nargs="*", default=[client.name for client in CLIENTS])
    parser.add_argument("--strategies", nargs="+", default=STRATEGIES[1:], help="in addition to full")
    parser.add_argument("--workers", type=int, default=os.cpu_count(), help="jobs at a time")
    parser.add_argument("--write", type=Path, help="a page; the tables replace those between their marks")
    add_result_flags(parser)
    chosen, clients = parser.parse_args(), Path(os.environ["STACKMEM_CLIENTS"])
    results, strategies = Results(chosen.results, chosen.minutes), ("full", *chosen.strategies)
    installed = [one for one in CLIENTS if one.name in chosen.agents and place_of(one, clients) is not None]
    if missing := {one.name for one in CLIENTS if one.name in chosen.agents} - {one.name for one in installed}:
        print(f"not installed: {', '.join(sorted(missing))}", file=sys.stderr)
    labels = {one.name: _label(one, version(one, clients)) for one in installed}
    with ThreadPoolExecutor(chosen.workers) as pool:
        jobs = {
            one.name: [
                pool.submit(results.of, Measured, partial(_measured, one, strategy, clients), "short", one.name,
                            labels[one.name], strategy)
                for strategy in strategies
            ]
            for one in installed
        }  # fmt: skip
    stop_if_out_of_time([one for row in jobs.values() for one in row])
    rows, saved = list[str](), list[str]()
    for client in installed:
        found = [one.result() for one in jobs[client.name]]
        rows.append(_recognized(client, labels[client.name], found[0]))
        cells = (labels[client.name], client.wire, *(_share(one, found[0]) for one in found[1:]))
        saved.append("| " + " | ".join(cells) + " |")
    names = ", ".join(f"`{strategy}`" for strategy in chosen.strategies)
    head = "| agent | wire | requests | new | turns | edits | sub-agents | side | retries | tokens |"
    recognized = "\n".join((f"Run on {results.run_on} under `full` and {names}. Under `full`:", "", head,
                            "|---|---|---:|---:|---:|---:|---:|---:|---:|---|", *rows))  # fmt: skip
    head = "| agent | wire | " + " | ".join(f"`{one}`" for one in chosen.strategies) + " |"
    shares = "\n".join((head, "|---|---|" + "---:|" * len(chosen.strategies), *saved))
    print(f"{recognized}\n\n{shares}")
    if chosen.write is not None:
        write_between(chosen.write, *_RECOGNIZED, recognized)
        write_between(chosen.write, *_SHARES, shares)


def _measured(client: Client, strategy: str, clients: Path) -> Measured:
    with tempfile.TemporaryDirectory(prefix="stackmem-clients-", ignore_cleanup_errors=True) as scratch:
        found = run(client, strategy, clients, Path(scratch))
    faults = [*found.refused, *found.notes] + ([found.said[-600:]] if found.code else [])
    print(f"{client.name} under {strategy}: {len(found.asked)} requests; {faults or 'finished'}", file=sys.stderr)
    kinds = tuple(found.count(kind) for kind in ("new", "turn", "edit", "child", "side"))
    tokens = "equal" if found.recorded == found.billed else f"{found.recorded} for {found.billed}"
    retries = sum(one.retry for one in found.asked)
    return Measured(len(found.asked), kinds, retries, tokens, found.sent, found.usd, faults)


def _label(client: Client, installed: str) -> str:
    model = client.variables.get("AGENT_MODEL")
    return f"{client.package} {installed}" + (f", {model}" if model else "")


def _recognized(client: Client, label: str, found: Measured) -> str:
    cells = (label, client.wire, found.requests, *found.kinds, found.retries,
             "failed" if found.faults else found.tokens)  # fmt: skip
    return f"| {' | '.join(map(str, cells))} |"


def _share(found: Measured, full: Measured) -> str:
    """Return upstream bytes and cost as a share of those under ``full``."""
    if found.faults or not full.sent:
        return "failed"
    bill = f" · {found.usd / full.usd:.0%}" if full.usd else ""
    return f"{found.sent / full.sent:.0%}{bill}"


if __name__ == "__main__":
    main()

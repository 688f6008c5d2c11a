"""``stackmem gateway``: a recording proxy between any agent and its provider."""

from __future__ import annotations

import os
import signal
from contextlib import ExitStack

import typer
from msgspec.structs import replace

from stackmem.cli.options import Json, JsonArray, argument, flag, option, runs_folder, switch
from stackmem.cli.screen.text import align, echo_json, one_line, readable, terminal_width
from stackmem.core.errors import UsageError
from stackmem.core.messages import Usage
from stackmem.core.text import quantity
from stackmem.doors.gateway.agents import route_of, run_agent
from stackmem.doors.gateway.cutting import FITTING
from stackmem.doors.gateway.framing import cutter_of
from stackmem.doors.gateway.isolation import agent_network
from stackmem.doors.gateway.serving import TOKEN_VARIABLE, GatewayBill, GatewayTerms, bill_of, serving
from stackmem.doors.gateway.status import GatewayRunStatus, gateway_status
from stackmem.doors.gateway.upstream import own_keys, upstreams

app = typer.Typer(help="Record any agent with a gateway between it and its provider.", invoke_without_command=True)

_UPSTREAM = option(
    "--upstream", "Forward only to anthropic, openai or google, or everything to one address.", "NAME|URL"
)
_MAX_USD = option("--max-usd", "Refuse requests once this much is spent, in USD.", "AMOUNT")
_MAX_TOKENS = option("--max-tokens-per-request", "Refuse prompts with more tokens than this, by estimate.", "N")
_STRATEGIES = f"full, {', '.join(FITTING)}, with parameters; or stackheap for agents with stackmem mcp."
_STRATEGY = option("--strategy", _STRATEGIES, "NAME", default="full")
_HOST = option("--host", f"Listen at this address; {TOKEN_VARIABLE} sets the token.", "HOST", default="127.0.0.1")
_PORT = option("--port", "Listen at this port; 0 for any free port.", "PORT", default=0)
_ALLOW_NO_REQUESTS = switch("--allow-no-requests", "Accept an agent that sends no request to the gateway.")
_ISOLATE = switch("--isolate-network", "Start the agent in its own network, from which it reaches only the gateway.")
_RUNS = flag("runs_dir")


def _terms(
    upstream: str | None,
    strategy: str,
    max_usd: float | None,
    max_tokens: int | None,
    host: str,
    port: int,
    runs_dir: str | None,
) -> GatewayTerms:
    if (max_usd is not None and not max_usd > 0) or (max_tokens is not None and max_tokens <= 0):
        raise UsageError("--max-usd and --max-tokens-per-request must be above 0")
    cutter_of(strategy)
    to = replace(upstreams(upstream, os.environ), keys=own_keys(os.environ))
    token = os.environ.get(TOKEN_VARIABLE, "")
    return GatewayTerms(to, runs_folder(runs_dir), host, port, token, max_usd, max_tokens, strategy)


@app.callback()
def gateway_command(
    context: typer.Context,
    upstream: str | None = _UPSTREAM,
    strategy: str = _STRATEGY,
    max_usd: float | None = _MAX_USD,
    max_tokens: int | None = _MAX_TOKENS,
    host: str = _HOST,
    port: int = _PORT,
    runs_dir: str | None = _RUNS,
) -> None:
    """Forward agents' requests to their providers unchanged, and record them as runs, until Ctrl-C."""
    if context.invoked_subcommand is not None:
        return
    terms = _terms(upstream, strategy, max_usd, max_tokens, host, port, runs_dir)
    signal.pthread_sigmask(signal.SIG_BLOCK, _ENDS)  # before the server's thread starts, so that it inherits the mask
    try:
        with serving(terms, os.environ) as served:
            typer.echo(f"export ANTHROPIC_BASE_URL={served.url} OPENAI_BASE_URL={served.url}/v1")
            typer.echo(f"recording to {readable(str(terms.runs_dir))}; Ctrl-C ends it", err=True)
            signal.sigwait(_ENDS)
    finally:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, _ENDS)
    _tell(bill_of(served.gateway))


_ENDS = {signal.SIGINT, signal.SIGTERM}


@app.command("run", short_help="Start an agent behind its own gateway.")
def run_command(
    command: list[str] = argument("CMD...", "The agent's command, after --."),
    upstream: str | None = _UPSTREAM,
    strategy: str = _STRATEGY,
    max_usd: float | None = _MAX_USD,
    max_tokens: int | None = _MAX_TOKENS,
    runs_dir: str | None = _RUNS,
    isolate_network: bool = _ISOLATE,
    allow_no_requests: bool = _ALLOW_NO_REQUESTS,
    json: Json = False,
) -> None:
    """Start an agent behind its own gateway, print its cost and runs at the end, and exit with its exit code.

    If the agent sent no request, explain how to route it, and exit with 2 in place of 0.
    """
    terms = _terms(upstream, strategy, max_usd, max_tokens, "127.0.0.1", 0, runs_dir)
    with ExitStack() as stack:
        network = stack.enter_context(agent_network(os.environ)) if isolate_network else None
        terms = replace(terms, listener=network.listener if network else None)
        served = stack.enter_context(serving(terms, os.environ))
        code = run_agent(command, os.environ, served, network)
    bill = bill_of(served.gateway)
    if json:
        echo_json(bill)
    else:
        _tell(bill)
    if bill.requests == 0 and not allow_no_requests:
        typer.echo(readable(route_of(command)), err=True)
        code = code or UsageError.exit_code
    raise typer.Exit(code)


@app.command("status", short_help="Show the runs of gateways, including running ones.")
def status_command(runs_dir: str | None = _RUNS, json: JsonArray = False) -> None:
    """Show gateway runs: conversations, context, cost, and a strategy's estimated savings."""
    folder = runs_folder(runs_dir)
    rows = gateway_status(folder)
    if json:
        echo_json(rows)
        return
    if not rows:
        typer.echo(f"no gateway runs in {folder}")
        return
    for line in align([_HEADINGS, *map(_cells, rows)], left=(0, 1, 2, 3), width=terminal_width()):
        typer.echo(line)
    for row in rows:
        if row.continues:
            typer.echo(f"{one_line(row.run)} continues the session of {one_line(row.continues)}")


_HEADINGS = (
    "run", "state", "strategy", "model", "conversations", "requests", "failed", "context", "cost", "sent", "saved",
)  # fmt: skip


def _cells(row: GatewayRunStatus) -> tuple[str, ...]:
    cost = _cost(row.cost_usd, row.usage)
    strategy = one_line(row.strategy) + (" (no effect)" if row.no_effect else "")
    saved = "" if row.savings is None else f"about ${row.savings.usd:.4f}"
    return (
        one_line(row.run), row.state, strategy, one_line(row.model), f"{row.conversations:,}",
        f"{row.requests:,}", f"{row.failed:,}", f"{row.context_tokens:,}", cost, f"{row.sent_share:.0%}", saved,
    )  # fmt: skip


def _cost(usd: float | None, usage: Usage) -> str:
    """Return a cost; ``about`` marks one that contains estimated tokens."""
    return "unknown" if usd is None else f"{'about ' if usage.estimated else ''}${usd:.4f}"


def _tell(bill: GatewayBill) -> None:
    """Print the bill and the runs to stderr, because stdout belongs to the agent."""
    for run in bill.runs:
        cost = "cost unknown" if run.cost_usd is None else _cost(run.cost_usd, run.usage)
        prefix = "about " if run.usage.estimated else ""
        counts = f"{quantity(run.steps, 'step')}, {quantity(run.frames, 'frame')}"
        typer.echo(readable(f"{run.run}: {counts}, {prefix}{run.usage.total:,} tokens, {cost}"), err=True)
    unpriced = f"; replies of unknown price: {bill.unpriced:,}" if bill.unpriced else ""
    guessed = f"; replies without usage, estimated: {bill.estimated:,}" if bill.estimated else ""
    ends = f"{unpriced}{guessed}; stackmem view RUN shows one"
    typer.echo(f"{quantity(len(bill.runs), 'run')}, ${bill.usd:.4f}{ends}", err=True)
    for note in bill.notes[-5:]:
        typer.echo(readable(f"note: {note}"), err=True)

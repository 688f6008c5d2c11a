"""``stackmem chat``."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable
from functools import partial
from itertools import islice
from pathlib import Path
from typing import get_args

from msgspec import UNSET
from msgspec.structs import replace

from stackmem.cli.options import (
    Flags,
    JsonResult,
    Quiet,
    StreamJson,
    argument,
    option,
    run_folder,
    runs_folder,
    settings,
    switch,
    takes,
)
from stackmem.cli.placement import RESUME
from stackmem.cli.screen.text import one_line, say
from stackmem.core.errors import UsageError
from stackmem.core.person_facts import Approve, Policy, SessionRules
from stackmem.core.strategy import has_frames
from stackmem.doors.chat.command_files import request_of
from stackmem.doors.chat.conversations import EarlierConversation, conversations, find_named
from stackmem.doors.chat.headless import play_request, request_from
from stackmem.memory import open_strategy
from stackmem.run.companion.find import newest_session
from stackmem.run.prepare import prepare
from stackmem.run.request import Request
from stackmem.run.stored_request import read_request
from stackmem.settings.options import LIMIT_OPTIONS
from stackmem.settings.tools.mcp_servers import own_servers
from stackmem.trace.open_run import Run

_ROWS = 15
_MOST = 200


@takes("flags", settings(
    "model", "strategy", "isolation", "network", "allow", "credentials",
    "include", "git", "extra_tools", "instructions", "skills", "programs", "learn", "layer",
    "runs_dir", "sandbox_dir", *LIMIT_OPTIONS, "command_seconds", "prompt",
    "profile", "base_url", "window_tokens", "size", "price", "temperature", "effort", "service_tier", "headers",
    "text_calls", "vision", "call_schema", "seed", "heap", "heap_chars", "heap_chunks", "depth", "checkpoints",
    "read_calls", "parallel_frames", "jobs", "upkeep", "otel", "fsync", "yes",
))  # fmt: skip
def command(
    folder: str = argument("FOLDER", "The folder to work on; by default the current one.", default="."),
    *,
    flags: Flags,
    policy: str | None = option(
        "--policy", "frame: a frame for each request; flat: all requests in one conversation.", "frame|flat"
    ),
    approve: str = option(
        "--approve",
        "Ask before calls in the sandbox: never, before writes, also before commands, or always.",
        "never|writes|commands|all",
        default="never",
    ),
    mode: str = option(
        "--mode", "plan: the agent only looks, and answers with a plan to accept.", "work|plan", default="work"
    ),
    keys: str = option("--keys", "Edit the input line with the keys of emacs or vim.", "emacs|vim", default="emacs"),
    plain: bool = switch("--plain", "For screen readers: no colors, no spinner, no text that changes in place."),
    continues: bool = switch(
        "--continue", "Continue the newest conversation about the folder that no process has open."
    ),
    taken_up: str | None = option(
        "--resume",
        "Continue the conversation with this id or name; without one, choose from a list.",
        "RUN",
    ),
    request: str | None = option(
        "-p --request",
        "Make this request without a terminal, print the answer and leave. - reads it from stdin.",
        "TEXT",
    ),
    json: JsonResult = False,
    stream_json: StreamJson = False,
    quiet: Quiet = False,
) -> None:
    """Talk with the agent about a folder. The agent works on a copy."""
    _refuse_output(json=json, stream_json=stream_json, headless=request is not None or taken_up == "")
    _must_be_one_of("--approve", approve, get_args(Approve))
    _must_be_one_of("--mode", mode, ("work", "plan"))
    _must_be_one_of("--keys", keys, ("emacs", "vim"))
    if policy is not None:
        _must_be_one_of("--policy", policy, get_args(Policy))
    words = None if request is None else request_from(request)
    root = (Path.cwd() / os.path.expanduser(folder)).resolve()
    words = words and (request_of(words, root, os.environ) or words)
    with own_servers(os.environ, Path.cwd(), root=root, asks=words is None) as warnings:
        say(*warnings)
        rules = SessionRules(approve=approve, mode="plan" if mode == "plan" else UNSET)  # type: ignore[arg-type]
        if continues or taken_up is not None:
            if mode == "plan":
                raise UsageError("--mode is for a new conversation; use /plan in this one")
            first: Request | Path = _find_conversation(root, taken_up, flags, asks=words is None and _at_terminal())
        else:
            first = _prepared(root, flags, rules, policy, say)
        if words is not None:
            sys.exit(play_request(words, first, json=json, stream=stream_json, quiet=quiet))
        prepares = partial(_prepared, root, flags, rules, policy)
        sys.exit(_talk(root, first, prepares, vim=keys == "vim", plain=plain))


def _refuse_output(*, json: bool, stream_json: bool, headless: bool) -> None:
    if json and stream_json:
        raise UsageError("--json and --stream-json exclude each other; the last line of --stream-json has the result")
    if (json or stream_json) and not headless:
        raise UsageError(f"{'--json' if json else '--stream-json'} needs a request; pass it with -p TEXT")
    if not headless and not _at_terminal():
        raise UsageError(
            "stackmem chat needs a terminal; for a single request use stackmem chat FOLDER -p TEXT, or stackmem solve "
            "FOLDER -t TEXT"
        )


def _at_terminal() -> bool:
    return sys.stdin.isatty() and sys.stdout.isatty()


def _prepared(
    folder: Path, flags: Flags, rules: SessionRules, policy: str | None, tell: Callable[..., object]
) -> Request:
    """Prepare a new conversation."""
    request = prepare(str(folder), None, flags, os.environ, Path.cwd(), rules)
    tell(*request.warnings)
    rules = replace(request.session or rules, policy=_policy(policy, request.resolved.settings.strategy))
    return replace(request, session=rules)


def _talk(
    folder: Path,
    first: Request | Path,
    prepares: Callable[[Callable[..., object]], Request],
    *,
    vim: bool,
    plain: bool,
) -> int:
    from stackmem.doors.chat.conversation import begin, take_up, talk  # slow to import: loads the line editor

    if isinstance(first, Path):
        subject = Path(read_request(first).subject)
        return talk(subject, first.parent, partial(take_up, first), prepares, vim=vim, plain=plain)
    return talk(folder, first.folders[0], partial(begin, first), prepares, vim=vim, plain=plain)


def _must_be_one_of(flag: str, value: str, allowed: tuple[str, ...]) -> None:
    if value not in allowed:
        raise UsageError(f"{flag} must be one of {', '.join(allowed)}, not {value[:40]!a}")


def _policy(policy: str | None, strategy: str) -> Policy:
    """Return the requested policy, or the one that suits the strategy.

    Raise UsageError if the strategy has no frames.
    """
    framed = has_frames(open_strategy(strategy))
    if policy == "frame" and not framed:
        raise UsageError(f"the strategy {strategy} has no frames; use --policy flat or another strategy")
    return "flat" if policy == "flat" or not framed else "frame"


def _run_or_named(name: str, runs_dir: str | None) -> Path:
    """Find a run by its id, or else a conversation by the name that the user gave it."""
    try:
        return run_folder(name, runs_dir)
    except UsageError:
        run_dir = find_named(runs_folder(runs_dir), name)
        if run_dir is None:
            raise
        return run_dir


def _find_conversation(folder: Path, name: str | None, flags: Flags, *, asks: bool) -> Path:
    """Find the conversation to continue."""
    if name == "":
        return _choose(conversations(runs_folder(flags.get("runs_dir")), folder), folder, asks=asks)
    if name is not None:
        run_dir = _run_or_named(name, flags.get("runs_dir"))
        if Run(run_dir).state.session is None:
            raise UsageError(f"{run_dir.name} is not a conversation; continue it with stackmem resume {run_dir.name}")
        return run_dir
    newest, busy = newest_session(runs_folder(flags.get("runs_dir")), folder)
    names = ", ".join(path.name for path in busy[:5])
    if newest is None and busy:
        raise UsageError(
            f"every conversation about {folder} is open in another process ({names}); leave out --continue"
        )
    if newest is None:
        raise UsageError(f"no conversation about {folder} yet; leave out --continue")
    if busy:
        say(f"another process has {names} open; continuing {newest.name}, the newest one that is free")
    return newest


def _choose(candidates: Iterable[EarlierConversation], folder: Path, *, asks: bool) -> Path:
    """Return the conversation that the user chooses.

    Raise UsageError if there is none, the user chose none, or the user cannot be asked.
    """
    every = list(islice(candidates, _MOST))
    if not every:
        raise UsageError(f"no conversation about {folder} yet; leave out {RESUME}")
    if not asks:
        say(*(_row(each) for each in every[:_ROWS]))
        say(*([f"and {len(every) - _ROWS} older ones"] if len(every) > _ROWS else []))
        raise UsageError(f"{RESUME} without an id needs a terminal; choose one: stackmem chat {RESUME} {every[0].run}")
    matching = every
    while True:
        say(*(f"{number:>3}  {_row(each)}" for number, each in enumerate(matching[:_ROWS], 1)))
        say(*([f"     and {len(matching) - _ROWS} older ones"] if len(matching) > _ROWS else []))
        say("A number continues that conversation, words search in what was said, Enter leaves:")
        line = sys.stdin.readline().strip()
        if not line:
            raise UsageError("no conversation was chosen; start a new one with stackmem chat")
        if line.isdecimal() and len(line) < 4 and 0 < int(line) <= min(len(matching), _ROWS):
            return matching[int(line) - 1].folder
        matching = [each for each in every if each.mentions(line)]
        if not matching:
            say(f"no conversation contains {one_line(line)}")
            matching = every


def _row(each: EarlierConversation) -> str:
    state = "open in another process" if each.busy else f"{len(each.messages)} requests"
    name = f"{each.name}  " if each.name else ""
    return f"{each.run}  {state}  {name}{one_line(each.messages[0] if each.messages else '(no request yet)')}"

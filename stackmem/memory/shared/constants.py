"""The first lines of every frame's first message: constants of the run, so that these bytes never change."""

from __future__ import annotations

from functools import lru_cache

from msgspec import UNSET

from stackmem.core.budgets import SmallSize
from stackmem.core.facts import RunStarted
from stackmem.core.guidance.reading import advice
from stackmem.core.limits import RUN_LIMITS

_LEVELS = {
    "bubblewrap": "commands run in a sandbox: they see the workspace, system programs read-only, and a private /tmp",
    "namespaces": "commands run in a sandbox: they can write only in the workspace and a private /tmp",
    "landlock": "commands run with restricted file access: they can write only in the workspace",
    "none": "commands run without a sandbox; touch nothing outside the workspace",
    "client": "the agent works with its own tools, which are not recorded here",
}


_SESSION = (
    "a user reads along: a reply in plain words, without a call, is the result of the request and ends it, as "
    "pop_frame does; if you need an answer to continue, end it with a question or call ask_user"
)


def _network(start: RunStarted) -> str:
    if start.allowed is UNSET:
        return "no network access" if start.network == "none" else "the network can be reached"
    hosts = ", ".join(each.partition("=")[0] for each in start.allowed)
    seen = "; request an https:// host as http://HOST" if "https://" in hosts else ""
    return f"only these hosts can be reached, through the proxy in HTTPS_PROXY: {hosts}{seen}"


def _visibility_notes(start: RunStarted) -> list[str]:
    """Return a line for each thing that the model does not see or sees changed."""
    return [] if start.unseen is UNSET else [f"note: {line}" for line in start.unseen]


def _first_look(small: SmallSize) -> list[str]:
    if small.look is UNSET:
        return []
    listing = small.look.listing.strip()
    blocks = (f"{file.path}:\n```\n{file.text.rstrip()}\n```\n" for file in small.look.files)
    return [*([f"FILES\n{listing}\n"] if listing else []), *blocks]


@lru_cache(maxsize=8)
def run_constants(start: RunStarted) -> str:
    limits = [
        f"{amount:,.10g} {limit.unit}"
        for limit in RUN_LIMITS
        if (amount := limit.allowed(start.limits, priced=bool(start.price))) is not None
    ]
    level = start.isolation.split(" ", 1)[0]
    network = _network(start)
    if start.small is not UNSET:
        return "\n".join(
            (
                *_first_look(start.small),
                f"Commands run in the folder of the files; paths are relative to it; {network}.",
                *([f"conversation: {_SESSION}"] if start.session is not UNSET else []),
                *([start.project] if start.project else []),
                *advice(start),
                *_visibility_notes(start),
                *([start.instructions] if start.instructions else []),
            )
        )
    location = f"; commands start in {start.place}, and relative paths start there" if start.place else ""
    return "\n".join(
        (
            "RUN",
            f"workspace: {start.workspace}{location}",
            f"isolation: {start.isolation}; {_LEVELS.get(level, 'commands run in memory')}; {network}",
            f"limits of the run: {', '.join(limits) or 'none'}; {start.command_seconds:g} s per command",
            *([f"conversation: {_SESSION}"] if start.session is not UNSET else []),
            *([start.project] if start.project else []),
            *advice(start),
            *_visibility_notes(start),
            *([start.instructions] if start.instructions else []),
        )
    )

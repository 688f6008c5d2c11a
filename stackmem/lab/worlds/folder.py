"""Write a world as a task folder."""

from __future__ import annotations

import json
from collections.abc import Iterator

import msgspec
from msgspec import Struct

from stackmem.run.tasks import work

from .kernel import DayRequest, WorldDraft
from .oracle import OracleCall

FORMAT = 1

_DOCKERFILE = "FROM python:3.12-slim\nCOPY workspace/ /workspace/\nWORKDIR /workspace\n"
_TEST = """\
#!/bin/sh
# Judges the journal that ./work kept, with a copy of the program that lies here, out of the agent's reach.
set -u
tests=${TESTS_DIR:-/tests}
verifier=${VERIFIER_DIR:-/logs/verifier}
mkdir -p "$verifier"
rm -f "$verifier/reward.txt" "$verifier/reward.json"
python3 "$tests/judge.py" "$verifier/reward.txt"
"""
_JUDGE = '''\
"""Writes the reward of the journal in the working directory."""

import json
import sys
from pathlib import Path

sys.dont_write_bytecode = True
import work  # noqa: E402 - the copy in this folder

answers = json.loads((Path(__file__).parent / "answers.json").read_text(encoding="utf-8"))
try:
    journal = Path(work.JOURNAL).read_text(encoding="utf-8")
except (OSError, ValueError):
    journal = ""
reward, says = work.verdict({work.JOURNAL: journal}, answers)
Path(sys.argv[1]).write_text(f"{reward:g}\\n", encoding="utf-8")
print(says)
'''
_RULES = """\

The work is cut into units 1 to {units}. They are done in order, each by one command; one command a reply is one unit of
work:

- `./work plan A-B` says what the units A to B need, at most 10 units a call, in lines such as
  `unit 12: needs {key} <{way}>`. Between the angle brackets stands how the fact is found: `<read PATH>`,
  `<run COMMAND>`, `<probe PATH>` (the file lists candidates; `./work probe KEY CANDIDATE` tries one), `<unit 9>` (the
  output of that unit gave it), `<step>` (the unit before gave it).
- `./work do K KEY=VALUE KEY=VALUE` performs unit K with the values it needs. Its output ends with `done unit K`.
- `./work status` says how far the work is.

Facts stand as lines `KEY = VALUE`, or `KEY = VALUE @ 47` for what was found in unit 47; the later one holds. A line
`changed TOPIC @ 47` says that what is known of the topic no longer holds and must be found again. The values given to a
unit must be true at that moment. The journal and the plan in `.work/` are kept by the program; leave them alone.

Do units 1 to {units}.
"""


class Made(Struct, frozen=True):
    """A world with everything that its folder contains."""

    family: str
    seed: int
    horizon: int
    noise: float
    world: WorldDraft
    salt: str
    files: dict[str, str]  # the workspace: path to text
    calls: tuple[OracleCall, ...]  # every call of the oracle; their number is ``necessary_steps``
    commands: tuple[str, ...]  # the calls that perform a unit


def task_files(world: Made) -> Iterator[tuple[str, str, int]]:
    """Yield the path, text and mode of every file in the folder."""
    yield "task.toml", _task_toml(world), 0o644
    yield "instruction.md", instruction(world.world), 0o644
    yield "demo.yaml", _demo(world), 0o644
    yield "environment/Dockerfile", _DOCKERFILE, 0o644
    for path, text in world.files.items():
        yield f"environment/workspace/{path}", text, 0o755 if path == "work" else 0o644
    yield "tests/test.sh", _TEST, 0o644
    yield "tests/judge.py", _JUDGE, 0o644
    yield "tests/work.py", world.files["work"], 0o644
    yield "tests/answers.json", _json(answers(world)), 0o644
    yield "tests/manifest.json", _json(manifest(world)), 0o644
    yield "solution/solve.sh", _solution(world), 0o644


def instruction(world: WorldDraft) -> str:
    """Return the whole instruction. Its last paragraph says which units to do."""
    units = len(world.units)
    need = next((need for unit in world.units for need in unit.needs), None)
    key, way = (need.key, need.way) if need else ("topic.item", "read PATH")
    return f"# {world.title}\n\n{world.text}\n{_RULES.format(units=units, key=key, way=way)}"


def answers(world: Made) -> dict[str, object]:
    """Return the data that the check compares the journal with."""
    units = [
        work.unit_digest(world.salt, number, {need.key: need.value for need in unit.needs})
        for number, unit in enumerate(world.world.units, 1)
    ]
    return {"units": units, "repeats": world.world.repeats}


def manifest(world: Made) -> dict[str, object]:
    """Return what was planted, how to find it, and when it is needed."""
    return {
        "format": FORMAT,
        "family": world.family,
        "seed": world.seed,
        "horizon": world.horizon,
        "noise": world.noise,
        "units": len(world.world.units),
        "necessary_steps": len(world.calls),
        "silent": world.world.silent,
        "repeats": world.world.repeats,
        "facts": msgspec.to_builtins(world.world.facts),
        "extras": world.world.extras,
        **({"requests": [_request_text(request) for request in world.world.requests]} if world.world.requests else {}),
    }


def _request_text(request: DayRequest) -> str:
    return f"{request.description}\nDo units {request.first} to {request.last}."


def _task_toml(world: Made) -> str:
    # [agent] timeout_sec is omitted: a limit in seconds would put the clock into the trace, and two runs would differ.
    return f"""\
schema_version = "1.4"

[task]
name = "stackworlds/{world.family}-s{world.seed}-h{world.horizon}-n{world.noise:g}"
version = "{FORMAT}.0.0"
description = "{world.world.title}."
keywords = ["stackworlds", "{world.family}", "memory"]

[metadata]
category = "memory"

[metadata.stackmem]
max_steps = {3 * world.horizon + 20}

[verifier]
timeout_sec = 120.0

[environment]
workdir = "/workspace"
network_mode = "no-network"
"""


def _demo(world: Made) -> str:
    lines = [f"description: An agent with perfect memory, in {len(world.calls)} calls.", "replies:"]
    for call in world.calls:
        args = ", ".join(f"{name}: {json.dumps(value)}" for name, value in call.args.items())
        lines += [f"  - call: {call.tool}", f"    args: {{{args}}}"]
    return "\n".join(lines) + "\n"


def _solution(world: Made) -> str:
    return "\n".join(["#!/bin/sh", "set -eu", *(f"{command} >/dev/null" for command in world.commands), ""])


def _json(value: object) -> str:
    return json.dumps(value, indent=1, sort_keys=True) + "\n"

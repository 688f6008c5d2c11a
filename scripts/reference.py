"""Writes the generated tables of the docs anew, each between its two marks; with ``--check`` only says which are old.

A mark is ``<!-- generated: NAME -->`` up to ``<!-- end of NAME -->``.
"""

import inspect
import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import get_args

from msgspec import NODEFAULT, UNSET, Struct, json
from msgspec.structs import asdict, fields

from stackmem.core.budgets import Budgets, Limits
from stackmem.core.facts import Ending, Event, FailureKind, Redaction, Stop
from stackmem.core.messages import Text, Thinking, ToolCall, ToolSpec, Usage
from stackmem.core.pricing import Price
from stackmem.core.program_facts import Continued, ProgramEvent
from stackmem.core.requests import ANSWERS, GIVEN, Effect
from stackmem.core.tool_schemas import parameters, spec
from stackmem.measure.metrics import METRICS
from stackmem.memory import STRATEGIES
from stackmem.trace.record import Record

DOCS = Path(__file__).parents[1] / "docs"
_MORE = {
    "event": "The fact.",
    "task_name": "As `--json` prints it.",
    "RunStarted.model": "The model's name, as `--model` takes it again.",
    "network": "`none` or `host`.",
    "budgets": "Characters of memory, refused when exceeded.",
    "limits": "Resources of the run, which end it.",
    "rules": "Number of the rules; replay is strict between equal ones.",
    "usage": "Tokens of the prompt and the reply.",
    "ModelFailed.kind": "See [Words](#words).",
    "ModelFailed.detail": "The provider's own words, on one line.",
    "ModelFailed.prompt_digest": "The digest of the view that was sent.",
    "VerifyReturned.outcome": "`exit N`, `timeout`, or what else ended it.",
    "VerifyReturned.text": "The last 10 lines, at most 1,000 characters.",
    "digests": "As in `ToolReturned`.",
    "elapsed_seconds": "Since the run began.",
    "FramePushed.name": "As the call says; may repeat in a run.",
    "intent": "R0.",
    "return_spec": "R1.",
    "context": "As the call says.",
    "FramePopped.frame": "Its id.",
    "FramePopped.result": "What the parent is given.",
    "stored": "Names of the chunks that the same call stored.",
    "chars": "Characters of the content; of a read: of what was read.",
    "code": "One word per cause ([machine](machine.md#refusals)).",
    "reason": "What the model reads.",
    "NoticeGiven.text": "What the model reads.",
    "ReplyNudged.text": "What the model reads.",
    "ending": "See [Words](#words).",
    "RunEnded.result": "The root's result, or what stood when the run was stopped.",
    "name": "As the call says.",
}
"""Of fields whose docstring leaves it to the name."""


def summary(kind: type) -> str:
    """The first paragraph of a class's docstring, on one line."""
    return " ".join(inspect.cleandoc(kind.__doc__ or "").split("\n\n")[0].split()).replace("``", "`")


def notes(kind: type) -> dict[str, str]:
    """What a docstring says of each attribute."""
    said = inspect.cleandoc(kind.__doc__ or "").partition("Attributes:")[2]
    found: dict[str, str] = {}
    for names, text in re.findall(r"^ {4}([a-z_0-9, ]+): (.*(?:\n {8,}.*)*)", said, re.M):
        for name in names.split(", "):
            found[name] = " ".join(text.split()).replace("``", "`")
    return found


def field_table(kind: type[Struct]) -> str:
    """The fields as a table: name, type as it is declared, default, meaning."""
    said = notes(kind)
    rows = ["| field | type | default | meaning |", "|---|---|---|---|"]
    for field in fields(kind):
        annotated = str(kind.__annotations__[field.name]).replace("|", "\\|")
        factory = field.default_factory is not NODEFAULT
        has_text = not field.required and field.default is not UNSET
        bare = json.encode(field.default_factory() if factory else field.default).decode() if has_text else ""
        default = f"`{bare}`" if bare else "left out" if field.default is UNSET else "required"
        meaning = said.get(field.name) or _MORE.get(f"{kind.__name__}.{field.name}") or _MORE.get(field.name, "")
        rows.append(f"| `{field.name}` | `{annotated}` | {default} | {meaning} |")
    return "\n".join(rows)


def events() -> str:
    """Every event with its fields."""
    return "\n\n".join(f"### {kind.__name__}\n\n{summary(kind)}\n\n{field_table(kind)}" for kind in get_args(Event))


def event_list() -> str:
    """Every event with one sentence, and where it comes from."""
    rows = [
        f"| [`{kind.__name__}`](trace.md#{kind.__name__.lower()}) | {_source(kind)} | {summary(kind)} |"
        for kind in get_args(Event)
    ]
    return "\n".join(["| event | from | says |", "|---|---|---|", *rows])


def _source(kind: type) -> str:
    """Where a fact comes from: it is given, answers an effect, or is derived; a derived one is checked in replay."""
    if kind in GIVEN or any(kind in facts for facts in ANSWERS.values()):
        return "outside"
    if kind in get_args(ProgramEvent):
        return "the program, run again"
    names = [field.name for field in fields(kind)]
    more = ", or the program, run again" if "program" in names else ", or outside" if "ending" in names else ""
    return f"the rules{more}"


def effect_list() -> str:
    rows = ["| effect | says |", "|---|---|"]
    return "\n".join([*rows, *(f"| `{kind.__name__}` | {summary(kind)} |" for kind in get_args(Effect))])


def parts() -> str:
    """The values inside events."""
    kinds = (Text, Thinking, ToolCall, Usage, ToolSpec, Price, Budgets, Limits, Redaction, Continued)
    told = [f"### {kind.__name__}\n\n{_plain(summary(kind))}{field_table(kind)}" for kind in kinds]
    words = [
        f"- `{name}`: {', '.join(f'`{word}`' for word in get_args(kind))}"
        for name, kind in (("Stop", Stop), ("FailureKind", FailureKind), ("Ending", Ending))
    ]
    return "\n\n".join([*told, "### Words\n\n" + "\n".join(words)])


def _plain(text: str) -> str:
    """A docstring that msgspec made from the signature says nothing that the table does not."""
    return "" if not text or re.match(r"\w+\(", text) else f"{text}\n\n"


def tools() -> str:
    """Every tool of every strategy as the model reads it, with the default budgets."""
    slots = {name: f"{value:,}" for name, value in asdict(Budgets()).items()} | {"command_seconds": "30"}
    offered: dict[str, list[str]] = {}
    for strategy, make in sorted(STRATEGIES.items(), reverse=True):
        for call in make("").tools:
            tool = spec(call, slots)
            required = json.decode(tool.schema)["required"]
            needed = [f"`{name}`" + ("" if name in required else "?") for name in parameters(call)]
            key = f"| `{tool.name}` | {', '.join(needed)} |"
            offered.setdefault(key, []).append(f"`{strategy}`")
    rows = ["| tool | parameters | offered by |", "|---|---|---|"]
    named = {key: "all" if len(by) == len(STRATEGIES) else ", ".join(by) for key, by in offered.items()}
    return "\n".join([*rows, *(f"{key} {by} |" for key, by in named.items())])


def budgets() -> str:
    said = notes(Budgets)
    rows = ["| budget | default | note |", "|---|---|---|"]
    rows += [f"| `{name}` | {value:,} | {said.get(name, '')} |" for name, value in asdict(Budgets()).items()]
    return "\n".join(rows)


def metrics() -> str:
    rows = ["| metric | unit | tells |", "|---|---|---|"]
    told = {name: metric.tells.replace("``", "`") for name, metric in METRICS.items()}
    return "\n".join([*rows, *(f"| `{name}` | {METRICS[name].unit} | {text} |" for name, text in told.items())])


TABLES: dict[str, tuple[str, Callable[[], str]]] = {
    "events": ("trace.md", events),
    "parts": ("trace.md", parts),
    "record": ("trace.md", lambda: field_table(Record)),
    "event list": ("architecture.md", event_list),
    "effect list": ("architecture.md", effect_list),
    "tools": ("machine.md", tools),
    "budgets": ("machine.md", budgets),
    "metrics": ("metrics.md", metrics),
}


def main() -> int:
    old = []
    for name, (page, table) in TABLES.items():
        path = DOCS / page
        begin, end = f"<!-- generated: {name} -->\n", f"<!-- end of {name} -->"
        before, found, rest = path.read_text("utf-8").partition(begin)
        if not found or end not in rest:
            sys.exit(f"{path} lacks the marks of {name!r}")
        text = f"{before}{begin}\n{table()}\n\n{end}{rest.partition(end)[2]}"
        if text != path.read_text("utf-8"):
            old.append(f"{page}: {name}")
            if "--check" not in sys.argv[1:]:
                path.write_text(text, "utf-8")
    if "--check" in sys.argv[1:] and old:
        sys.exit(f"old: {', '.join(old)}; run .venv/bin/python scripts/reference.py")
    return 0


if __name__ == "__main__":
    sys.exit(main())

"""Rewrite the generated tables of the docs, each between its two marks, and the words for tab completion.

With ``--check`` it only reports which of them are outdated. A table starts at the mark ``<!-- generated: NAME -->`` and
ends at ``<!-- end of NAME -->``.
"""

import inspect
import json as plain_json
import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, get_args

import typer
from msgspec import NODEFAULT, UNSET, Struct, json
from msgspec.structs import asdict, fields

from scripts import api
from stackmem.cli.app import app
from stackmem.cli.screen.event_stream import stream_schema
from stackmem.core.budgets import Budgets, Limits
from stackmem.core.facts import Ending, Event, Redaction, Stop
from stackmem.core.messages import FailureKind, Text, Thinking, ToolCall, ToolSpec, Usage
from stackmem.core.network import NetworkRequest, SearchBill
from stackmem.core.pricing import Price
from stackmem.core.program_facts import Continued, ProgramEvent
from stackmem.core.requests import ANSWERS, EXTERNAL, Effect
from stackmem.core.tool_schemas import parameters, shown_schema, spec
from stackmem.languages.language import INTERPRETERS
from stackmem.memory import STRATEGIES
from stackmem.models.catalog import rows
from stackmem.models.registry import MODELS
from stackmem.review.measure.metrics import METRICS
from stackmem.settings.options import OPTIONS
from stackmem.trace.record import Record

DOCS = Path(__file__).parents[1] / "docs"
STREAM = DOCS / "stream-json.schema.json"
WORDS = Path(__file__).parents[1] / "stackmem" / "cli" / "words.json"
_MORE = {
    "event": "The fact.",
    "task_name": "As `--json` prints it.",
    "RunStarted.model": "The model's name, as `--model` accepts it.",
    "network": "`none`, `list` or `host`.",
    "requests": "Network requests of its commands; left out if there were none.",
    "budgets": "Limits for memory, in characters; calls above them are refused.",
    "limits": "Limits of the run; reaching one ends it.",
    "rules": "Version of the rules; replay is strict between equal versions.",
    "usage": "Tokens of the prompt and the reply.",
    "ModelFailed.kind": "See [Words](#words).",
    "ModelFailed.detail": "The provider's message, on one line.",
    "ModelFailed.prompt_digest": "The digest of the view that was sent.",
    "VerifyReturned.outcome": "`exit N`, `timeout`, or another reason.",
    "VerifyReturned.text": "The last 10 lines, at most 1,000 characters.",
    "digests": "As in `ToolReturned`.",
    "elapsed_seconds": "Since the run began.",
    "FramePushed.name": "From the call; can repeat in a run.",
    "intent": "R0.",
    "return_spec": "R1.",
    "context": "From the call.",
    "FramePopped.frame": "Its id.",
    "FramePopped.result": "The result for the parent.",
    "stored": "Names of chunks stored by the same call.",
    "chars": "Characters of the content, or of the part that was read.",
    "CallAnswered.chars": "Length of the answer.",
    "others": "Names of the other chunks.",
    "code": "One word per cause ([machine](machine.md#refusals)).",
    "reason": "Text for the model.",
    "NoticeGiven.text": "Text for the model.",
    "ReplyNudged.text": "Text for the model.",
    "ending": "See [Words](#words).",
    "RunEnded.result": "The root's result, or the state when the run was stopped.",
    "name": "From the call.",
}
"""Descriptions of fields that the docstrings leave out."""


def summary(kind: type) -> str:
    """Return the first paragraph of a class's docstring, on one line."""
    return " ".join(inspect.cleandoc(kind.__doc__ or "").split("\n\n")[0].split()).replace("``", "`")


def notes(kind: type) -> dict[str, str]:
    """Return the docstring's text on each attribute."""
    said = inspect.cleandoc(kind.__doc__ or "").partition("Attributes:")[2]
    found: dict[str, str] = {}
    for names, text in re.findall(r"^ {4}([a-z_0-9, ]+): (.*(?:\n {8,}.*)*)", said, re.M):
        for name in names.split(", "):
            found[name] = " ".join(text.split()).replace("``", "`")
    return found


def _annotation(kind: type[Struct], name: str) -> object:
    """Return the declared type of a field, which may be a field of a base class."""
    declared = (vars(base).get("__annotations__", {}) for base in kind.__mro__)
    return next(types[name] for types in declared if name in types)


def field_table(kind: type[Struct]) -> str:
    """Return the fields as a table: name, declared type, default, meaning."""
    said = notes(kind)
    rows = ["| field | type | default | meaning |", "|---|---|---|---|"]
    for field in fields(kind):
        annotated = str(_annotation(kind, field.name)).replace("|", "\\|")
        factory = field.default_factory is not NODEFAULT
        has_text = not field.required and field.default is not UNSET
        bare = json.encode(field.default_factory() if factory else field.default).decode() if has_text else ""
        default = f"`{bare}`" if bare else "left out" if field.default is UNSET else "required"
        meaning = said.get(field.name) or _MORE.get(f"{kind.__name__}.{field.name}") or _MORE.get(field.name, "")
        rows.append(f"| `{field.name}` | `{annotated}` | {default} | {meaning} |")
    return "\n".join(rows)


def events() -> str:
    """Return every event with its fields."""
    return "\n\n".join(f"### {kind.__name__}\n\n{summary(kind)}\n\n{field_table(kind)}" for kind in get_args(Event))


def event_list() -> str:
    """Return every event with one sentence and its origin."""
    rows = [
        f"| [`{kind.__name__}`](trace.md#{kind.__name__.lower()}) | {_source(kind)} | {summary(kind)} |"
        for kind in get_args(Event)
    ]
    return "\n".join(["| event | from | says |", "|---|---|---|", *rows])


def _source(kind: type) -> str:
    """Return the origin of an event: given, an answer to an effect, or derived. Replay verifies derived ones."""
    if kind in EXTERNAL or any(kind in facts for facts in ANSWERS.values()):
        return "outside"
    if kind in get_args(ProgramEvent):
        return "the program in a rerun"
    names = [field.name for field in fields(kind)]
    more = ", or the program in a rerun" if "program" in names else ", or outside" if "ending" in names else ""
    return f"the rules{more}"


def effect_list() -> str:
    rows = ["| effect | says |", "|---|---|"]
    return "\n".join([*rows, *(f"| `{kind.__name__}` | {summary(kind)} |" for kind in get_args(Effect))])


def parts() -> str:
    """Return the types that events contain."""
    kinds = (
        Text, Thinking, ToolCall, Usage, ToolSpec, Price, Budgets, Limits, Redaction, Continued, NetworkRequest,
        SearchBill,
    )  # fmt: skip
    told = [f"### {kind.__name__}\n\n{_plain(summary(kind))}{field_table(kind)}" for kind in kinds]
    words = [
        f"- `{name}`: {', '.join(f'`{word}`' for word in get_args(kind))}"
        for name, kind in (("Stop", Stop), ("FailureKind", FailureKind), ("Ending", Ending))
    ]
    return "\n\n".join([*told, "### Words\n\n" + "\n".join(words)])


def _plain(text: str) -> str:
    """Return a docstring, or an empty string if msgspec generated it from the signature, which the table repeats."""
    return "" if not text or re.match(r"\w+\(", text) else f"{text}\n\n"


def tools() -> str:
    """Return every tool of every strategy with its parameters."""
    slots = {name: f"{value:,}" for name, value in asdict(Budgets()).items()} | {"command_seconds": "30"}
    offered: dict[str, list[str]] = {}
    for strategy, make in sorted(STRATEGIES.items(), reverse=True):
        for call in make("").tools:
            tool = spec(call, slots)
            required = shown_schema(tool)["required"]
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


_RUNS = {"RUN", "A", "B", "OTHER", "TRACE"}
_TASKS = {"TASK", "TASK|DIR", "TASK|WORLD|SUITE.toml..."}
_NAMES = {"--strategy": "strategies", "--strategies": "strategies", "--model": "models", "--models": "models"}
_NAMES |= {"--language": "languages", "--resume": "runs"}


def words() -> str:
    """Return the content of ``words.json`` for tab completion: commands with flags and arguments, and known names."""
    commands: dict[str, dict[str, dict[str, str]]] = {}

    def walk(command: Any, path: tuple[str, ...]) -> None:
        row: dict[str, dict[str, str]] = {"flags": {}, "arguments": {}}
        for one in command.params:
            if one.param_type_name == "argument":
                row["arguments"][one.name] = _named(" ".join(path), one.metavar or "") + "..." * (one.nargs == -1)
                continue
            setting = OPTIONS.get(one.name)
            takes = " ".join(setting.choices) if setting is not None else ""
            takes = _NAMES.get(one.opts[-1], takes) or "text"
            off = f"/{one.secondary_opts[0]}" if one.secondary_opts else ""
            row["flags"][" ".join(one.opts) + off] = "" if one.is_flag else takes + "..." * one.multiple
        commands[" ".join(path)] = row
        for word, below in getattr(command, "commands", {}).items():
            walk(below, (*path, word))

    for name, command in typer.main.get_command(app).commands.items():
        walk(command, (name,))
    models = [row.name if row.provider == "anthropic" else f"openai/{row.name}" for row in rows()]
    names = {
        "strategies": sorted(STRATEGIES),
        "models": sorted({*models, *(prefix for prefix in MODELS if prefix[-1] not in ":/")}),
        "languages": sorted(set(INTERPRETERS.values())),
    }
    lines = ",\n".join(f" {plain_json.dumps(path)}: {plain_json.dumps(row)}" for path, row in commands.items())
    named = ",\n".join(f" {plain_json.dumps(kind)}: {plain_json.dumps(each)}" for kind, each in names.items())
    return f'{{"names": {{\n{named}\n}},\n"commands": {{\n{lines}\n}}}}\n'


def _named(path: str, metavar: str) -> str:
    if path in ("strategies", "completion"):
        return {"strategies": "strategies", "completion": "bash zsh fish"}[path]
    return "runs" if metavar in _RUNS else "tasks" if metavar in _TASKS else "text"


TABLES: dict[str, tuple[str, Callable[[], str]]] = {
    "events": ("trace.md", events),
    "parts": ("trace.md", parts),
    "record": ("trace.md", lambda: field_table(Record)),
    "event list": ("architecture.md", event_list),
    "effect list": ("architecture.md", effect_list),
    "tools": ("machine.md", tools),
    "budgets": ("machine.md", budgets),
    "metrics": ("metrics.md", metrics),
    "api": ("api.md", api.page),
}


def main() -> int:
    old = []
    for name, (page, table) in TABLES.items():
        path = DOCS / page
        begin, end = f"<!-- generated: {name} -->\n", f"<!-- end of {name} -->"
        before, found, rest = path.read_text("utf-8").partition(begin)
        if not found or end not in rest:
            sys.exit(f"{path} lacks the marks for {name!r}")
        text = f"{before}{begin}\n{table()}\n\n{end}{rest.partition(end)[2]}"
        if text != path.read_text("utf-8"):
            old.append(f"{page}: {name}")
            if "--check" not in sys.argv[1:]:
                path.write_text(text, "utf-8")
    if words() != WORDS.read_text("utf-8"):
        old.append(WORDS.name)
        if "--check" not in sys.argv[1:]:
            WORDS.write_text(words(), "utf-8")
    schema = f"{plain_json.dumps(stream_schema(), indent=2)}\n"
    if not STREAM.exists() or schema != STREAM.read_text("utf-8"):
        old.append(STREAM.name)
        if "--check" not in sys.argv[1:]:
            STREAM.write_text(schema, "utf-8")
    if "--check" in sys.argv[1:] and old:
        sys.exit(f"outdated: {', '.join(old)}; run .venv/bin/python scripts/reference.py")
    return 0


if __name__ == "__main__":
    sys.exit(main())

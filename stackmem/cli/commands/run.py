"""``stackmem run``."""

from __future__ import annotations

from typing import Annotated

import typer

from stackmem.cli.options import flag

Given = Annotated[
    list[str] | None, typer.Option("--input", metavar="K=TEXT|K:=JSON|K=@FILE", help="An input; repeatable.")
]
Inputs = Annotated[str | None, typer.Option("--inputs", metavar="FILE", help="Inputs as a YAML file.")]
Request = Annotated[str | None, typer.Option("-t", "--text", help="The request, for programs that take one.")]
Workspace = Annotated[
    str | None,
    typer.Option("--workspace", metavar="DIR", help="The folder that is copied. Default: the program's own."),
]
Mounts = Annotated[
    list[str] | None, typer.Option("--mount", metavar="DIR", help="A folder that is seen read-only; repeatable.")
]
LanguageName = Annotated[
    str | None, typer.Option("--language", metavar="NAME", help="The language, where the suffix does not say it.")
]
Config = Annotated[str | None, typer.Option("--config", metavar="FILE", help="The language's own configuration file.")]
Entry = Annotated[str | None, typer.Option("--entry", metavar="NAME", help="Where the program starts.")]
Libraries = Annotated[list[str] | None, typer.Option("--lib", metavar="FILE", help="A library; repeatable.")]
Says = Annotated[list[str] | None, typer.Option("--say", metavar="TEXT", help="An answer to a question; repeatable.")]
AnswersFile = Annotated[
    str | None, typer.Option("--answers", metavar="FILE", help="Answers to questions, a YAML list.")
]
Alone = Annotated[
    bool, typer.Option("--non-interactive", help="Never ask at the terminal; end with exit code 8 instead.")
]
Debug = Annotated[bool, typer.Option("--debug", help="Stop at each step, in languages with a debugger.")]
Snoop = Annotated[bool, typer.Option("--snoop", help="Print the messages of agents to each other.")]
DryRun = Annotated[
    bool, typer.Option("--dry-run", help="Check inputs and tools, print the steps, and perform nothing.")
]
Full = Annotated[bool, typer.Option("--full", help="Fold nothing on the screen.")]
Json = Annotated[bool, typer.Option("--json", help="Print one result object on stdout, and nothing else.")]
Quiet = Annotated[bool, typer.Option("--quiet", help="Show no progress.")]
_OWN = (
    "program", "given", "inputs", "text", "workspace", "mount", "language", "config", "entry", "lib", "say", "answers",
    "non_interactive", "debug", "snoop", "dry_run", "full", "json", "quiet",
)  # fmt: skip


def command(
    program: Annotated[str, typer.Argument(metavar="FILE|DIR", help="A program, or a folder with a main program.")],
    given: Given = None,
    inputs: Inputs = None,
    text: Request = None,
    workspace: Workspace = None,
    mount: Mounts = None,
    language: LanguageName = None,
    config: Config = None,
    entry: Entry = None,
    lib: Libraries = None,
    say: Says = None,
    answers: AnswersFile = None,
    non_interactive: Alone = False,
    debug: Debug = False,
    snoop: Snoop = False,
    dry_run: DryRun = False,
    full: Full = False,
    model: str | None = flag("model"),
    strategy: str | None = flag("strategy"),
    isolation: str | None = flag("isolation"),
    network: str | None = flag("network"),
    include: list[str] | None = flag("include"),
    runs_dir: str | None = flag("runs_dir"),
    sandbox_dir: str | None = flag("sandbox_dir"),
    max_steps: str | None = flag("max_steps"),
    max_usd: str | None = flag("max_usd"),
    max_tokens: str | None = flag("max_tokens"),
    max_seconds: str | None = flag("max_seconds"),
    command_seconds: str | None = flag("command_seconds"),
    prompt: str | None = flag("prompt"),
    profile: str | None = flag("profile"),
    base_url: str | None = flag("base_url"),
    window_tokens: str | None = flag("window_tokens"),
    heap_chars: str | None = flag("heap_chars"),
    heap_chunks: str | None = flag("heap_chunks"),
    depth: str | None = flag("depth"),
    literal_mib: str | None = flag("literal_mib"),
    fsync: str | None = flag("fsync"),
    apply: bool | None = flag("apply"),
    yes: bool | None = flag("yes"),
    json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Run a program: an interpreter follows it to the letter, and only what needs judgement asks the model."""
    typed = locals()
    from stackmem.cli.screen.running import run_and_show, typed_from

    run_and_show(typed_from(typed), {name: value for name, value in typed.items() if name not in _OWN})

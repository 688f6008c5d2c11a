"""``stackmem run``."""

from __future__ import annotations

from typing import Annotated

import typer

from .options import flag


def command(
    program: Annotated[str, typer.Argument(metavar="FILE|DIR", help="A program, or a folder with a main program.")],
    given: Annotated[
        list[str] | None, typer.Option("--input", metavar="K=TEXT|K:=JSON|K=@FILE", help="An input; repeatable.")
    ] = None,
    inputs: Annotated[str | None, typer.Option("--inputs", metavar="FILE", help="Inputs as a YAML file.")] = None,
    text: Annotated[str | None, typer.Option("-t", "--text", help="The request, for programs that take one.")] = None,
    workspace: Annotated[
        str | None,
        typer.Option("--workspace", metavar="DIR", help="The folder that is copied. Default: the program's own."),
    ] = None,
    mount: Annotated[
        list[str] | None, typer.Option("--mount", metavar="DIR", help="A folder that is seen read-only; repeatable.")
    ] = None,
    language: Annotated[
        str | None, typer.Option("--language", metavar="NAME", help="The language, where the suffix does not say it.")
    ] = None,
    config: Annotated[
        str | None, typer.Option("--config", metavar="FILE", help="The language's own configuration file.")
    ] = None,
    entry: Annotated[str | None, typer.Option("--entry", metavar="NAME", help="Where the program starts.")] = None,
    lib: Annotated[list[str] | None, typer.Option("--lib", metavar="FILE", help="A library; repeatable.")] = None,
    say: Annotated[
        list[str] | None, typer.Option("--say", metavar="TEXT", help="An answer to a question; repeatable.")
    ] = None,
    answers: Annotated[
        str | None, typer.Option("--answers", metavar="FILE", help="Answers to questions, a YAML list.")
    ] = None,
    non_interactive: Annotated[
        bool, typer.Option("--non-interactive", help="Never ask at the terminal; end with exit code 8 instead.")
    ] = False,
    debug: Annotated[bool, typer.Option("--debug", help="Stop at each step, in languages with a debugger.")] = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Check inputs and tools, print the steps, and perform nothing.")
    ] = False,
    full: Annotated[bool, typer.Option("--full", help="Fold nothing on the screen.")] = False,
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
    fsync: str | None = flag("fsync"),
    apply: bool | None = flag("apply"),
    yes: bool | None = flag("yes"),
    json: Annotated[bool, typer.Option("--json", help="Print one result object on stdout, and nothing else.")] = False,
    quiet: Annotated[bool, typer.Option("--quiet", help="Show no progress.")] = False,
) -> None:
    """Run a program: an interpreter follows it to the letter, and only what needs judgement asks the model."""
    own = (
        "program", "given", "inputs", "text", "workspace", "mount", "language", "config", "entry", "lib", "say",
        "answers", "non_interactive", "debug", "dry_run", "full", "json", "quiet",
    )  # fmt: skip
    flags = {name: value for name, value in locals().items() if name not in (*own, "own")}
    from .running import Typed, run_and_show

    options = {"request": text, "config": config, "entry": entry, "lib": lib, "debug": debug or None}
    typed = Typed(
        program=program,
        given=tuple(given or ()),
        inputs=inputs,
        workspace=workspace,
        mounts=tuple(mount or ()),
        language=language,
        options={name: value for name, value in options.items() if value is not None},
        say=tuple(say or ()),
        answers=answers,
        interactive=not non_interactive,
        dry_run=dry_run,
        full=full,
        as_json=json,
        quiet=quiet,
    )
    run_and_show(typed, flags)

"""The ``stackmem lint`` command."""

from __future__ import annotations

import sys
from pathlib import Path

import typer

from stackmem.cli.options import argument, option, switch
from stackmem.cli.screen.text import echo_json, readable
from stackmem.core.errors import UsageError
from stackmem.languages.language import Finding
from stackmem.languages.running.lint import Linted, lint_all

_FORMATS = ("text", "json", "github", "apl")


def command(
    files: list[str] = argument("FILE|DIR...", "Programs, tool files, configurations, or folders that contain them."),
    form: str = option("--format", f"One of {', '.join(_FORMATS)}.", "FORMAT", default="text"),
    as_json: bool = switch("--json", "Same as --format json."),
    strict: bool = switch("--strict", "Exit with 1 on warnings too."),
    language: str | None = option("--language", "The language, if the file name does not show it.", "NAME"),
    config: str | None = option("--config", "The configuration file of the language.", "FILE"),
    lib: list[str] | None = option("--lib", "A library that is loaded before the program; repeatable.", "FILE"),
) -> None:
    """Check programs without running them; exit with 1 on errors."""
    if as_json and form not in ("text", "json"):
        raise UsageError(f"--json and --format {form[:40]} contradict each other; pass one of them")
    if form not in _FORMATS:
        raise UsageError(f"--format {form[:40]!r} is unknown; choose one of {', '.join(_FORMATS)}")
    reports = lint_all(files, Path.cwd(), language=language, config=config, libraries=tuple(lib or ()))
    _show(reports, "json" if as_json else form)
    counted = {finding.severity for linted in reports for finding in linted.findings}
    sys.exit(1 if counted & ({"error", "warning"} if strict else {"error"}) else 0)


def _show(reports: tuple[Linted, ...], form: str) -> None:
    findings = [finding for linted in reports for finding in linted.findings]
    if form == "json":
        echo_json(findings)
        return
    for linted in reports:
        own_report = linted.language.lint_report if form == "apl" else None
        if own_report is not None:
            typer.echo(readable(own_report(linted.file, linted.findings)))
            continue
        for finding in linted.findings:
            typer.echo(readable(_github(finding) if form == "github" else _line(finding)))


def _line(finding: Finding) -> str:
    return f"{finding.path}:{finding.line}:{finding.column}: {finding.severity} {finding.code} {finding.message}"


def _github(finding: Finding) -> str:
    """Format a finding as a workflow command for GitHub's runners."""

    def escaped(text: str) -> str:
        return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")

    location = escaped(finding.path).replace(",", "%2C").replace(":", "%3A")
    command = "notice" if finding.severity == "note" else finding.severity
    return (
        f"::{command} file={location},line={finding.line},col={finding.column},title={finding.code}"
        f"::{escaped(finding.message)}"
    )

"""From what a person typed to what can be run, before anything is made."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from msgspec import Struct

from stackmem.errors import UsageError
from stackmem.history.repository import Plan as CopyPlan
from stackmem.history.repository import plan_copy
from stackmem.models.endpoint import ANTHROPIC
from stackmem.models.registry import default_model
from stackmem.settings.directories import runs_dir, sandbox_dir
from stackmem.settings.settings import Resolved, resolve
from stackmem.settings.settings_files import user_path
from stackmem.tools.plugins import load_plugins

from .subject import Subject, find_subject, must_be_text


class Prepared(Struct, frozen=True):
    """A request that can be run.

    Attributes:
        cwd: Where the person stands.
        folders: The runs directory and the sandbox directory, both writable.
        model: The model's name, the default chosen.
        copy: What a folder of one's own will be copied as; None for a task.
        warnings: Sentences for the person.
        others: Names of the models that a program asks beside the run's own, where it says so beforehand.

    """

    subject: Subject
    resolved: Resolved
    cwd: Path
    folders: tuple[Path, Path]
    model: str
    copy: CopyPlan | None
    warnings: tuple[str, ...]
    others: tuple[str, ...] = ()

    @property
    def checked(self) -> bool:
        return self.subject.task is not None or self.resolved.settings.check is not None


def prepare(
    named: str, text: str | None, flags: Mapping[str, object], environ: Mapping[str, str], cwd: Path
) -> Prepared:
    """What is to be solved, under which settings, kept where.

    Raises:
        UsageError: The subject or a setting cannot be.

    """
    plugin_warnings = load_plugins()  # before the settings: a level of isolation may be one of theirs
    subject = find_subject(named, text, cwd)
    resolved = resolve(flags, environ, cwd, user_path(environ), task_settings(subject))
    settings = resolved.settings
    warnings = [*plugin_warnings, *(subject.task.warnings if subject.task else ())]
    model = settings.model
    if model is None:
        model = default_model(environ)
        if model == "demo":
            _must_have_demo(subject)
            warnings.append(
                f"no model was named and no {ANTHROPIC.key_variable} is set: the task's own demo script plays the "
                "model; for a real one set the key, or say --model NAME (stackmem models lists them)"
            )
    must_be_text(model, "the name of the model")
    folders = (runs_dir(settings, cwd, environ), sandbox_dir(settings, cwd, environ))
    for folder in folders:
        must_be_text(str(folder), f"the path {folder}")
    copy = plan_copy(subject.folder, settings.include, folders) if subject.folder else None
    return Prepared(subject, resolved, cwd, folders, model, copy, tuple(warnings))


def _must_have_demo(subject: Subject) -> None:
    """Nobody plays the model: neither a key nor a name says who, and here is no script that would."""
    if subject.task is None or subject.task.demo is None:
        raise UsageError(
            f"no model was named and no {ANTHROPIC.key_variable} is set; set it to your key, or name one: --model "
            "openai/NAME --base-url URL for a server of your own, --model script:FILE, or --model human to play it"
        )


def task_settings(subject: Subject) -> dict[str, object]:
    task = subject.task
    if task is None:
        return {}
    return {
        "max_steps": task.max_steps,
        "max_usd": task.max_usd,
        "max_tokens": task.max_tokens,
        "max_seconds": task.agent_seconds,
        "command_seconds": task.command_seconds,
    }

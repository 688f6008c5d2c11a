"""Turns the user's input, or the stored input of an earlier run, into a runnable request. Creates no files."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from msgspec import UNSET
from msgspec.structs import asdict, replace

from stackmem.core.conversation.session import SESSION_TASK
from stackmem.core.conversation.upkeep import QUESTION
from stackmem.core.errors import UsageError
from stackmem.core.facts import RunStarted
from stackmem.core.neighbors import neighbor
from stackmem.core.person_facts import SessionRules
from stackmem.core.tool_schemas import offers_jobs, offers_long_commands
from stackmem.core.tools import OPTIONAL_TOOLS, AskQuestion, HeapLoad, Recall, Remember, Tool, tool_name
from stackmem.models.endpoint import ANTHROPIC
from stackmem.models.registry import default_model
from stackmem.run.plugins.loading import load_plugins
from stackmem.run.tasks.find import find_task
from stackmem.run.tasks.reader import read_task
from stackmem.settings.directories import checkout, runs_dir, sandbox_dir
from stackmem.settings.options import OPTIONS
from stackmem.settings.settings import Resolved, Settings, Value, resolve
from stackmem.workspace.clip import shown_name
from stackmem.workspace.profile import Profile, read_profile
from stackmem.workspace.project.instructions import Instructions, find_instructions, read_instructions
from stackmem.workspace.project.project import Project, find_project
from stackmem.workspace.project.skills import Skills, find_skills
from stackmem.workspace.tree import sockets_below

from .companion.git_inside import origin_of, place_of
from .companion.hooks import find_hooks
from .companion.jobs import wants_jobs
from .companion.permissions import find_permissions
from .companion.programs import FoundPrograms, find_programs, kept_programs
from .companion.web import missing_for_search
from .request import ProgramRequest, Request, Subject
from .stored_request import StoredRequest

TASK_PLACE = "/workspace"
_SOCKETS_NAMED = 5
_PATHS = ("prompt", "profile", "runs_dir", "sandbox_dir")
PAYING_TOOLS = ("edit_file",)
"""Optional tools that are enabled by default for a user folder, because they save more tokens than they cost."""
CHAT_COMMAND_SECONDS = 120.0
"""Default time limit of a command in a conversation; builds and test suites of real projects need more than tasks."""


def prepare(
    target: str,
    text: str | None,
    flags: Mapping[str, object],
    environ: Mapping[str, str],
    cwd: Path,
    session: SessionRules | None = None,
) -> Request:
    """Return what to solve, with its settings and directories. A conversation has no text yet."""
    load_plugins()  # plugins first, because they may define an isolation level that the settings name
    subject = find_subject(target, text if session is None else SESSION_TASK, cwd)
    resolved = resolve(flags, environ, cwd, task_settings(subject))
    own_limit = resolved.settings.profile is not None or resolved.is_given("command_seconds")
    long_commands = session is not None and subject.task is None and not own_limit
    if long_commands:
        resolved = resolve(flags, environ, cwd, {"command_seconds": CHAT_COMMAND_SECONDS}, "the conversation")
    settings = resolved.settings
    subject, notices = _in_work_tree(subject, settings)
    warnings = [*(subject.task.warnings if subject.task else ()), *notices]
    if (model := settings.model) is None:
        model = default_model(environ)
        if model == "demo":
            _must_have_demo(subject)
            warnings.append(
                f"no model selected and {ANTHROPIC.key_variable} is not set, so the task's demo script plays the "
                "model; to use a real one, set the key or pass --model NAME (stackmem models lists them)"
            )
    request = place_run(subject, resolved, model, (cwd, environ), tuple(warnings))
    if subject.folder is not None and settings.isolation != "memory" and not resolved.is_given("extra_tools"):
        request = replace(request, tools=(*PAYING_TOOLS, *["web_fetch"] * (settings.network == "list")))
    skills = _skills(subject, settings, environ)
    request = replace(
        request, instructions=_instructions(subject, settings, cwd), skills=skills, long_commands=long_commands,
        jobs=wants_jobs(settings, own_folder=subject.folder is not None),
        programs=(programs := _programs(subject, resolved, cwd, environ)),
        warnings=(*request.warnings, *skills.notes, *programs.notes),
    )  # fmt: skip
    return request if session is None else as_session(request, session)


def as_session(request: Request, rules: SessionRules) -> Request:
    """Turn the request into a conversation.

    The agent may ask questions, load the heap chunks that a request needs, keep words of the user and search.
    """
    added: tuple[Tool, ...] = (AskQuestion, HeapLoad, Remember, Recall)
    more = tuple(tool_name(tool) for tool in added if tool_name(tool) not in request.tools)
    subject = replace(request.subject, text=SESSION_TASK)
    question = QUESTION if request.resolved.settings.upkeep == "on" else UNSET
    earlier = subject.folder is not None and tool_name(Recall) in (*request.tools, *more)
    session = replace(rules, index="brief", words="kept", upkeep=question, earlier="searched" if earlier else UNSET)
    return replace(request, subject=subject, session=session, tools=(*request.tools, *more), earlier=earlier)


def _in_work_tree(subject: Subject, settings: Settings) -> tuple[Subject, tuple[str, ...]]:
    """Replace a folder inside a git work tree by the work tree. Also returns notices for the user."""
    if subject.folder is None:
        return subject, ()
    root, subfolder, notices = place_of(subject.folder, settings)
    if not subfolder:
        return subject, notices
    inside = must_be_text(str(root), "the folder's path")
    return replace(subject, folder=root, inside=inside, place=must_be_text(subfolder, "the folder's path")), notices


def included_in(subject: Subject, settings: Settings) -> tuple[str, ...]:
    """Return the paths of ``--include``, relative to the work tree."""
    return tuple(str(Path(subject.place, name)) for name in settings.include) if subject.place else settings.include


def _instructions(subject: Subject, settings: Settings, cwd: Path) -> Instructions:
    match settings.instructions:
        case None:
            return Instructions()
        case "auto":
            return find_instructions(subject.folder / subject.place) if subject.folder else Instructions()
        case named:
            return read_instructions(cwd / os.path.expanduser(named))


def _skills(subject: Subject, settings: Settings, environ: Mapping[str, str]) -> Skills:
    """Return the skills for a user folder. A task has none, or its result would depend on the machine."""
    if subject.folder is None or settings.skills == "off":
        return Skills()
    return find_skills(subject.folder / subject.place, environ)


def _programs(subject: Subject, resolved: Resolved, cwd: Path, environ: Mapping[str, str]) -> FoundPrograms:
    """Return the programs for a user folder. A task has none, like skills."""
    folders = resolved.settings.programs
    if subject.folder is None or not subject.folder.is_dir() or (resolved.is_given("programs") and not folders):
        return FoundPrograms()
    return find_programs(subject.folder, subject.place, folders, cwd, environ)


def place_run(
    subject: Subject, resolved: Resolved, model: str, here: tuple[Path, Mapping[str, str]], warnings: tuple[str, ...]
) -> Request:
    """Return the request with its directories, which must be writable. ``here``: working directory and environment."""
    cwd, environ = here
    must_be_text(model, "the name of the model")
    folders = (runs_dir(resolved.settings, cwd, environ), sandbox_dir(resolved.settings, cwd, environ))
    for folder in folders:
        must_be_text(str(folder), f"the path {folder}")
    project = _project(subject, resolved.settings, cwd, environ)
    resolved, more = _with_check(subject, resolved, project)
    tools = optional_tools(resolved.settings.extra_tools)
    origin, why_none = origin_of(subject.folder, resolved.settings) if subject.folder else (None, ())
    gaps = () if origin is None else origin.unfinished()
    rules = find_permissions(subject.folder, subject.place, environ)
    hooks = find_hooks(subject.folder, subject.place, environ)
    sockets = _shown_sockets(profile_of(resolved.settings, cwd))
    search = missing_for_search(tools, resolved.settings.network, model)
    more = (*rules.notes, *hooks.notes, *project.missing, *more, *why_none, *sockets, *search)
    return Request(
        subject, resolved, cwd, folders, model, None, (*warnings, *more), project=project, tools=tools, origin=origin,
        gaps=gaps, permissions=rules.rules, hooks=hooks,
    )  # fmt: skip


def optional_tools(names: tuple[str, ...]) -> tuple[str, ...]:
    """Return the names in the order in which the tools are defined."""
    for name in names:
        if name not in OPTIONAL_TOOLS:
            raise UsageError(f"no optional tool {name!r}; known: {', '.join(OPTIONAL_TOOLS)}")
    return tuple(name for name in OPTIONAL_TOOLS if name in names)


def _project(subject: Subject, settings: Settings, cwd: Path, environ: Mapping[str, str]) -> Project:
    if subject.folder is None or not subject.folder.is_dir():
        return Project()
    granted = tuple(mount.host for mount in profile_of(settings, cwd).mounts)
    include = included_in(subject, settings)
    return find_project(subject.folder, include, environ.get("PATH", ""), granted, subject.place)


def _with_check(subject: Subject, resolved: Resolved, project: Project) -> tuple[Resolved, tuple[str, ...]]:
    """Replace ``--check auto`` with the detected test command. Also returns notices for the user."""
    if resolved.settings.check != "auto":
        return resolved, ()
    if subject.folder is None:
        raise UsageError("a task has its own checks; omit --check auto")
    if not project.suites:
        raise UsageError(f"no test command found in {subject.folder}; pass one with --check COMMAND")
    suite = project.suites[0]
    others = [f"`{other.command}`" for other in project.suites[1:]]
    more = f"; there is also {', '.join(others)}" if others else ""
    values = tuple(replace(value, value=suite.command) if value.name == "check" else value for value in resolved.values)
    settings = replace(resolved.settings, check=suite.command)
    return Resolved(settings, values), (f"the check is `{suite.command}`, as {suite.reason} suggests{more}",)


def _shown_sockets(profile: Profile) -> list[str]:
    """Return warnings about sockets inside the user's mounts.

    Commands can connect to them even if the mount is read-only.
    """
    sockets = [shown_name(os.fspath(path)) for mount in profile.mounts for path in sockets_below(Path(mount.host))]
    return [
        f"commands can connect to the socket {name}, because a mount of the profile exposes it"
        for name in sockets[:_SOCKETS_NAMED]
    ]


def profile_of(settings: Settings, cwd: Path) -> Profile:
    """Return the named, the checkout's, or the built-in profile. ``UsageError`` if the file or a key is not valid."""
    own = home / "sandbox" / "profile.toml" if (home := checkout(cwd)) else None
    if settings.profile is not None:
        return read_profile(settings.profile)
    return read_profile(own) if own is not None and own.is_file() else Profile()


def _must_have_demo(subject: Subject) -> None:
    """Raise if no model is selected and the task has no demo script."""
    if subject.task is None or subject.task.demo is None:
        raise UsageError(
            f"no model selected and {ANTHROPIC.key_variable} is not set; set it to your key, or pass --model: "
            "openai/NAME with --base-url URL for your own server, script:FILE, or human to play the model yourself"
        )


def task_settings(subject: Subject) -> dict[str, object]:
    """Return the settings that the task specifies."""
    task = subject.task
    if task is None:
        return {}
    return {**task.limits, "command_seconds": task.command_seconds}


def must_be_text(value: str, label: str) -> str:
    """Return ``value``, or raise if it is not valid Unicode and therefore cannot be stored in the trace."""
    try:
        value.encode()
    except UnicodeEncodeError as error:
        raise UsageError(f"{label} is not valid UTF-8; use another name or spelling") from error
    return value


def find_subject(target: str, text: str | None, cwd: Path) -> Subject:
    """Return the task or folder ``target``, with the text of ``-t``, which a folder needs and a task cannot have."""
    path = find_task(target, cwd)
    if path is not None:
        if text is not None:
            raise UsageError(f"{target} is a task with its own instruction; omit -t, or copy the task")
        task = read_task(path)
        image = neighbor("formats: the image of a task")(task) if task.image is not None else None
        if image is not None:
            task = replace(task, workspace=Path(image.files))
        inside = image.inside if image else TASK_PLACE
        return Subject(task.short_name, task.instruction, inside, task=task, image=image)
    folder = (cwd / os.path.expanduser(target)).resolve()
    if text is None or not text.strip():
        raise UsageError(f"{target} is a folder without task.toml; pass -t TEXT to say what to do there")
    must_be_text(text, "the text of -t")
    return Subject(folder.name or "root", text, must_be_text(str(folder), "the folder's path"), folder=folder)


def prepare_kept(
    stored: StoredRequest, runs_dir: Path, base: RunStarted, changes: Mapping[str, Any], environ: Mapping[str, str]
) -> Request:
    """Restore a stored request, with ``changes`` applied to its flags. Today's settings files are ignored."""
    if base.client is not UNSET:
        raise UsageError(
            "this run recorded an external agent and cannot be continued; start a new run with stackmem mcp"
        )
    cwd = Path(stored.cwd)
    # the run has its own copies of these
    own = {
        "strategy": base.strategy, "prompt": None, "max_usd": None, "heap": None,
        "command_seconds": base.command_seconds,
    }  # fmt: skip
    flags = {**stored.flags, **own, **changes, "apply": False, "include": ()}
    for name in _PATHS:
        if flags.get(name) is not None:
            flags[name] = Path(str(flags[name]))
    values = tuple(
        Value(name, flags.get(name, option.default), "the run's request", "flag" if name in flags else "default")
        for name, option in OPTIONS.items()
    )
    settings = Settings(**{value.name: value.value for value in values})
    model = str(flags.get("model") or "demo")
    kind, colon, script = model.partition(":")
    if colon and kind == "script":
        model = f"script:{cwd / script}"
    scratch = Path(stored.workspace).parent.parent
    if not scratch.is_dir():
        scratch = sandbox_dir(settings, cwd, environ)
    subject = _kept_subject(stored, cwd)
    project = _project(subject, settings, cwd, environ)
    specs = (*base.tools, *(base.small.later if base.small is not UNSET else ()))
    tools = tuple(tool.name for tool in specs if tool.name in OPTIONAL_TOOLS)
    resolved = Resolved(settings, values)
    skills = Skills(() if base.skills is UNSET else base.skills)
    return Request(
        subject, resolved, cwd, (runs_dir, scratch), model, None, (), project=project, tools=tools, skills=skills,
        long_commands=offers_long_commands(base.tools, base.registered), programs=kept_programs(base),
        hooks=find_hooks(subject.folder, subject.place, environ),
        earlier=base.session is not UNSET and base.session.earlier is not UNSET,
        jobs=offers_jobs(base.tools, base.registered),
        sees=base.vision is not UNSET or bool(changes.get("model")),
    )  # fmt: skip


def _kept_subject(stored: StoredRequest, cwd: Path) -> Subject:
    if stored.text is None and not (Path(stored.subject) / "task.toml").is_file():
        raise UsageError(f"the run's task is missing at {stored.subject}; restore it, because the run needs its checks")
    return replace(find_subject(stored.subject, stored.text, cwd), place=stored.place)


def first_request(request: Request, work: Path, program: ProgramRequest | None) -> StoredRequest:
    """Return the request to store with a new run."""
    default = Settings()
    flags = {
        name: value for name, value in asdict(request.resolved.settings).items() if value != getattr(default, name)
    }
    subject = request.subject
    return StoredRequest(
        subject=str(subject.task.folder if subject.task else subject.folder),
        text=None if subject.task else subject.text,
        flags={**flags, "model": request.model},
        cwd=str(request.cwd),
        workspace=str(work),
        leave_out=request.copy.folders if request.copy else (),
        program=program,
        place=subject.place,
        lent=request.copied.lent if request.copied else (),
    )

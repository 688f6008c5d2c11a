"""What was asked: a task, folder or program, with its settings and what was found for it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from stackmem.core.person_facts import PermissionRule, SessionRules
from stackmem.history.hidden import LayerPlan
from stackmem.history.origin import Origin
from stackmem.history.repository import CopyPlan
from stackmem.history.selection import keys_in
from stackmem.run.tasks.reader import Task
from stackmem.settings.settings import Resolved
from stackmem.workspace.image import Image
from stackmem.workspace.project.instructions import Instructions
from stackmem.workspace.project.project import Project
from stackmem.workspace.project.skills import Skills
from stackmem.workspace.secrets import scrub_value

from .companion.hooks import FoundHooks
from .companion.programs import FoundPrograms


class EditedProgram(Struct, frozen=True):
    """Identifies which sources of an edited program differ from the copies in the run."""

    file: str  # the edited program on the host
    program: str  # path of the program relative to the workspace, or absolute if it is outside
    subject: str  # the folder on the host that the workspace is a copy of
    tree: str  # tree of the workspace when the first run began


class ProgramRequest(Struct, frozen=True):
    """A request to run a program."""

    language: str
    path: str  # the program's absolute path on the host
    inputs: dict[str, Any] = {}  # name to value
    options: dict[str, Any] = {}  # further options of the interpreter
    mounts: tuple[str, ...] = ()  # host folders that its commands see, read-only
    interactive: bool = True  # whether the program may ask the user at the terminal
    edited: EditedProgram | None = None  # set only for a run that continues another run with an edited program

    def without_secrets(self, scrub: Callable[[str], str]) -> ProgramRequest:
        """Return the request as it is stored and passed to the program."""
        return replace(self, inputs=scrub_value(self.inputs, scrub), options=scrub_value(self.options, scrub))


class Subject(Struct, frozen=True):
    """The task or folder to work on."""

    name: str
    text: str
    inside: str  # absolute path of the workspace inside the sandbox, if the isolation level supports mounts
    task: Task | None = None  # the task; None for a user folder
    folder: Path | None = None  # the folder that is copied and may be patched; None for a task
    place: str = ""  # the subfolder that the user named, relative to ``folder``; empty for ``folder`` itself
    image: Image | None = None  # the image for a task's commands; None to use this machine's tools

    @property
    def begins(self) -> Path | None:
        """The folder that the user named; None for a task."""
        return None if self.folder is None else self.folder / self.place


class Request(Struct, frozen=True):
    """What was asked, with its settings resolved and everything that it names found. No model was contacted yet."""

    subject: Subject
    resolved: Resolved
    cwd: Path  # the user's working directory
    folders: tuple[Path, Path]  # runs directory and sandbox directory, both writable
    model: str  # name of the model, with the default applied
    # how a user folder is used, set by ``with_copy`` after scanning it; None for a task
    copy: CopyPlan | LayerPlan | None
    warnings: tuple[str, ...]  # messages for the user
    # models that a program declares in addition to the run's own
    others: tuple[str, ...] = ()
    project: Project = Project()  # the detected environment of a user folder; empty for a task
    tools: tuple[str, ...] = ()  # optional tools that the model gets
    instructions: Instructions = Instructions()  # the project's instructions for the agent's frames
    skills: Skills = Skills()  # the skills for the agent; empty for a task
    programs: FoundPrograms = FoundPrograms()  # the programs for the agent; empty for a task
    permissions: tuple[PermissionRule, ...] = ()  # the permission rules; empty for a task
    hooks: FoundHooks = FoundHooks()  # the hooks; a task has none
    gaps: tuple[str, ...] = ()  # what the agent does not see or sees changed, one sentence each
    # the repository of a user folder, which the workspace gets a copy of; None if there is none
    origin: Origin | None = None
    session: SessionRules | None = None  # set only for a conversation
    earlier: bool = False  # whether ``recall`` also searches earlier conversations about the folder
    long_commands: bool = False  # whether the agent may set the time limit of a command
    jobs: bool = False  # whether the agent may run commands in the background
    sees: bool = True  # whether the agent gets images if its model can see

    @property
    def overlay(self) -> LayerPlan | None:
        """The plan of an overlay over the user's folder; None if the run has no overlay."""
        return self.copy if isinstance(self.copy, LayerPlan) else None

    @property
    def copied(self) -> CopyPlan | None:
        """The plan of a copy of the user's folder; None if the run has an overlay or works on a task."""
        return self.copy if isinstance(self.copy, CopyPlan) else None

    def shows_home(self) -> bool:
        """Return whether the model would see a home folder without the user's agreement."""
        folder = self.subject.folder
        return folder is not None and not self.resolved.settings.yes and bool(keys_in(folder))

    @property
    def checked(self) -> bool:
        return self.subject.task is not None or self.resolved.settings.check is not None

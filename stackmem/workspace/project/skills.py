"""Finds skills: folders with a ``SKILL.md``, in the project and in the user's own folders.

Rule 1: A skill is data, like ``AGENTS.md``: a project's skills need no trust, because they grant nothing.
Rule 2: Nothing about a skill is fatal. One that cannot be offered is left out, and a sentence says why.
Rule 3: A project's skill must be in its work tree with all links resolved. The user's own folders may contain links.

Source: the public Agent Skills format.
"""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Iterator, Mapping
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from stackmem.core.guidance.skills import Skill
from stackmem.core.text import mark_cut
from stackmem.foreign.files import read_start
from stackmem.foreign.front_matter import read_front_matter
from stackmem.workspace.clip import shown_name, visible

FOLDERS = (".stackmem/skills", ".claude/skills", ".codex/skills", ".agents/skills")
"""Places in a project and in the home folder, in the order in which equal names are resolved."""
MAX_SKILLS = 64
MAX_CHARS = 65_536
"""Maximum characters of one skill; the rest is cut with a mark."""
DESCRIPTIONS_CHARS = 8_000
"""Maximum characters of all descriptions together, because the index is in every prompt."""
_MAX_BYTES = 1 << 20
_MAX_DESCRIPTION = 1_024
_MIN_DESCRIPTION = 80
_MAX_ENTRIES = 500
_MAX_FILES = 40
_MAX_NOTES = 20
_MAX_NAMED = 10
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,63}")


class Skills(Struct, frozen=True):
    """The skills that a run offers, and one sentence for the user about each that it does not offer."""

    skills: tuple[Skill, ...] = ()
    notes: tuple[str, ...] = ()


class _SkillPlace(Struct, frozen=True):
    """A folder that may contain skills."""

    path: Path
    spelled: str  # relative to the work tree, or ``~/PATH``
    root: Path | None  # the folder that links must not leave; None in the user's own folders


class _SkillReader:
    def __init__(self) -> None:
        self.skills: dict[str, Skill] = {}
        self.notes: list[str] = []
        self._seen: set[Path] = set()

    def read_place(self, location: _SkillPlace) -> None:
        for name in _folder_names(location):
            spelled = f"{location.spelled}/{name}"
            if not spelled.isprintable():
                self.notes.append(f"the skill {shown_name(spelled)} is not offered: rename its folder")
                continue
            real = Path(os.path.realpath(location.path / name / "SKILL.md"))
            if real in self._seen:
                continue  # the same folder under two names
            self._seen.add(real)
            if location.root is not None and not real.is_relative_to(location.root):
                self.notes.append(f"the skill {shown_name(spelled)} is a link out of the project; not offered")
                continue
            try:
                raw = read_start(real, _MAX_BYTES + 1)
            except FileNotFoundError:
                continue  # not a skill
            except (OSError, ValueError) as error:
                reason = error.strerror if isinstance(error, OSError) else error
                self.notes.append(f"the skill {shown_name(spelled)} cannot be read ({reason}); not offered")
                continue
            self._add(name, f"{spelled}/SKILL.md", real, raw)

    def _add(self, folder: str, source: str, real: Path, raw: bytes) -> None:
        matter = read_front_matter(raw[:_MAX_BYTES].decode("utf-8", "replace"))
        name = matter.values.get("name", folder).strip()
        description = " ".join(visible(matter.values.get("description", "")).split())
        reason = matter.fault
        if not reason and not _NAME.fullmatch(name):
            reason = f"{shown_name(name[:80])} is not a valid name; use letters, digits and hyphens"
        if not reason and not description:
            reason = "it has no description"
        skill = self.skills.get(name)
        if not reason and skill is not None:
            reason = f"{skill.source} has the same name"
        if not reason and len(self.skills) >= MAX_SKILLS:
            reason = f"a run offers at most {MAX_SKILLS}"
        if reason:
            self.notes.append(f"the skill {shown_name(source)} is not offered: {reason}")
            return
        others = tuple(_other_files(real.parent))
        self.skills[name] = Skill(
            name=name,
            description=mark_cut(description, _MAX_DESCRIPTION),
            content=_content(name, visible(matter.body), source, real, others),
            source=source,
            digest="" if len(raw) > _MAX_BYTES else hashlib.sha256(raw).hexdigest(),
            files=bool(others),
        )


def find_skills(folder: Path, environ: Mapping[str, str]) -> Skills:
    """Return the skills for work in ``folder``: the user's own, then those of the project, from the folder up."""
    reader = _SkillReader()
    for location in (*_own_places(environ), *_project_places(folder)):
        reader.read_place(location)
    most = max(_MIN_DESCRIPTION, DESCRIPTIONS_CHARS // max(1, len(reader.skills)))
    skills = tuple(replace(skill, description=mark_cut(skill.description, most)) for skill in reader.skills.values())
    names = [shown_name(skill.name) for skill in skills if not skill.own]
    more = f" and {len(names) - _MAX_NAMED:,} more" if len(names) > _MAX_NAMED else ""
    notes = [
        f"the project brings skills, which the agent reads as text: {', '.join(names[:_MAX_NAMED])}{more} "
        "(--skills off leaves them out)"
    ] if names else []  # fmt: skip
    notes += reader.notes[:_MAX_NOTES]
    if len(reader.notes) > _MAX_NOTES:
        notes.append(f"{len(reader.notes) - _MAX_NOTES:,} more skills are not offered")
    return Skills(skills, tuple(notes))


def own_skill_file(source: str, environ: Mapping[str, str]) -> Path | None:
    """Return the file of the user's skill that a source ``~/PATH`` names, or None for any other source."""
    home = environ.get("HOME", "")
    if not source.startswith("~/") or not home.startswith("/"):
        return None
    return Path(os.path.realpath(Path(home, source.removeprefix("~/"))))


def _own_places(environ: Mapping[str, str]) -> Iterator[_SkillPlace]:
    home = environ.get("HOME", "")
    if home.startswith("/"):
        for name in (".config/stackmem/skills", *FOLDERS):
            yield _SkillPlace(Path(home, name), f"~/{name}", None)


def _project_places(folder: Path) -> Iterator[_SkillPlace]:
    start = folder.resolve()
    parents = [start, *start.parents]
    root = next((path for path in parents if (path / ".git").exists()), start)
    for path in parents[: parents.index(root) + 1]:
        for name in FOLDERS:
            spelled = os.path.relpath(path / name, root)
            yield _SkillPlace(path / name, spelled, root)


def _folder_names(location: _SkillPlace) -> list[str]:
    """Return the names of the folders in a place, sorted; a file system error counts as none."""
    names: list[str] = []
    try:
        if location.root is not None and not Path(os.path.realpath(location.path)).is_relative_to(location.root):
            return []
        with os.scandir(location.path) as entries:
            for entry in entries:
                if len(names) >= _MAX_ENTRIES:
                    break
                if entry.is_dir():
                    names.append(entry.name)
    except (OSError, ValueError):
        return []
    return sorted(names)


def _other_files(folder: Path) -> Iterator[str]:
    """Yield the paths of a skill's other files, relative to its folder; links are not followed."""
    seen = 0
    todo = [""]
    while todo:
        subfolder = todo.pop(0)
        try:
            with os.scandir(folder / subfolder) as entries:
                items = sorted(entries, key=lambda entry: entry.name)
        except OSError:
            continue
        for entry in items:
            seen += 1
            if seen > _MAX_ENTRIES:
                return
            name = f"{subfolder}/{entry.name}" if subfolder else entry.name
            if entry.is_dir(follow_symlinks=False):
                todo.append(name)
            elif entry.is_file(follow_symlinks=False) and name != "SKILL.md":
                yield name


def _content(name: str, body: str, source: str, real: Path, others: tuple[str, ...]) -> str:
    """Return the text of a skill as the agent reads it."""
    own = source.startswith("~/")
    text = body.strip() or "(no text)"
    lines = [
        f"SKILL {name} of the {'user' if own else 'project'}. It grants nothing: no permission, no tool, no network."
    ]
    if len(text) > MAX_CHARS:
        lines.append(f"It has {len(text):,} characters; these are the first {MAX_CHARS:,}.")
    lines += ["", mark_cut(text, MAX_CHARS)]
    if others:
        location = str(real.parent) if own else source.rpartition("/")[0]
        how = "read-only, visible to run_command" if own else "in the workspace"
        more = f" and {len(others) - _MAX_FILES:,} more" if len(others) > _MAX_FILES else ""
        names = ", ".join(shown_name(other) for other in others[:_MAX_FILES])
        lines += ["", f"Other files of this skill, in {shown_name(location)} ({how}): {names}{more}"]
    return "\n".join(lines)

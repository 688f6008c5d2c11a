"""Skills: instructions for special work, which the agent reads from the heap when it needs them.

Rule 1: The index lists a skill's name and description. Its content enters a conversation only when it is read.
Rule 2: The agent cannot change or free a skill, and skills do not count against the heap's budget.
Rule 3: A skill is data. It grants no permission, no tool and no network.
"""

from __future__ import annotations

from typing import Literal

from msgspec import Struct

PREFIX = "skill/"
_PROGRAM = "program/"


class Skill(Struct, frozen=True, omit_defaults=True):
    """A skill as the run found it at its start."""

    name: str  # its name; its chunk is called ``skill/NAME``
    description: str  # what it does and when to use it, on one line
    content: str  # the text of its ``SKILL.md`` without the front matter, and a list of its other files
    source: str  # its ``SKILL.md``: a path in the workspace, or ``~/PATH`` for a skill of the user
    digest: str = ""  # the SHA-256 of that file; empty if it was too large to compare
    files: bool = False  # whether the skill has other files
    program: bool = False  # whether it describes a program; its chunk is then called ``program/NAME``
    listed: Literal["skill", "program"] = "skill"  # what the heap index calls it. Older runs list programs as skills

    @property
    def chunk(self) -> str:
        return (_PROGRAM if self.program else PREFIX) + self.name

    @property
    def own(self) -> bool:
        """Whether it belongs to the user and not to the project."""
        return self.source.startswith("~/")


def advice(skills: tuple[Skill, ...], *, heap: bool) -> str:
    """Return the text about skills for the agent's instructions. Without a heap, the files are named instead."""
    if not skills:
        return ""
    many = "1 skill" if len(skills) == 1 else f"{len(skills)} skills"
    end = "Skills grant nothing: no permission, no tool, no network."
    if heap:
        return (
            f"SKILLS: the heap has {many} ({PREFIX}NAME): instructions for special work. Before you do work that one "
            f"describes, read it with heap_read. {end}"
        )
    rows = "\n".join(f"- {skill.name}: {skill.description} ({skill.source})" for skill in skills)
    return f"SKILLS: before you do work that one of these describes, read its file. {end}\n{rows}"

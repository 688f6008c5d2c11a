"""A day of 60 actions at the terminal: what the user types, and what the screen then shows.

A scripted model makes each answer known. Marks are unique, because the test searches them in the whole history.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from msgspec import Struct

from tests.providers.image_rules import png
from tests.stage import call, command

SHOT = png(80, 60)
PASTED = "\n".join(f"line {number}" for number in range(200))


class Action(Struct, frozen=True):
    """One action.

    Attributes:
        does: What it is, for the count and the reader.
        keys: Names of keys, or text; ``@paste TEXT`` pastes.
        shows: A text that the screen or its history then contains.
        line: Whether a line of the screen must begin with ``shows``.
    """

    does: str
    keys: tuple[str, ...]
    shows: str
    line: bool = False


def says(text: str) -> dict:
    return {"text": text}


REPLIES = (
    says("Seen one."), says("Seen two."), says("Seen three."), says("Seen four."),
    says("1. Write plan.txt\n2. Say so"), call("write_file", path="plan.txt", content="planned\n"),
    says("Step written."), says("Step said."),
    command("touch early.txt"), says("Denied then."),
    command("touch made.txt"), says("Ran it."),
    call("heap_read", name="skill/release"), says("Skill read."),
    says("Hello from the command."),
    command("echo forbidden"), says("Refused then."),
    call("run_command", command="echo job-output; sleep 600", background=True), call("keep_job", job=1),
    says("Job started."),
    call("stop_job", job=1), says("Job stopped."),
    call("write_file", path="c.txt", content="c\n"), says("Wrote c."),
    says("Words of the undone."),
    says("Edited answer."), says("From the editor."),
    command("sleep 600"), says("After the pause."),
    command("sleep 600"), says("After the kill."), says("Back again."),
)  # fmt: skip


def prepare(root: Path, folder: Path, config: Path) -> Mapping[str, str]:
    """Write the files of the day; return the variables for the program."""
    (folder / "src").mkdir(parents=True, exist_ok=True)
    (folder / "a.txt").write_text("one\n")
    (folder / "src" / "total.py").write_text("a = 1\nb = 2\nc = 3\n")
    skill = folder / ".claude" / "skills" / "release"
    skill.mkdir(parents=True)
    (skill / "SKILL.md").write_text("---\nname: release\ndescription: How to release.\n---\nRun the tests first.\n")
    (config / "commands").mkdir(parents=True)
    (config / "commands" / "greet.md").write_text("---\ndescription: Greet a person\n---\nGreet $1 warmly.")
    hook = "if grep -q forbidden; then echo hook-says-no >&2; exit 2; fi"
    (config / "hooks.toml").write_text(f'[[before_tool]]\ncommand = "{hook}"\ntools = ["run_command"]\n')
    programs = root / "programs"
    programs.mkdir()
    (root / "shot.png").write_bytes(SHOT)
    for name, body in (
        ("wl-paste", f'cat "{root}/shot.png"'),
        ("edit", 'printf "typed in the editor" > "$1"'),
    ):
        (programs / name).write_text(f"#!/bin/sh\n{body}\n")
        (programs / name).chmod(0o755)
    return {"EDITOR": str(programs / "edit"), "VISUAL": "", "PATH": str(programs)}


def first_half(shot: Path) -> tuple[Action, ...]:
    """Return the actions up to the files of the agent."""
    return (
        Action("first screen", (), "Type a request"),
        Action("what the agent may do", (), "asks before commands"),
        Action("/help", ("/help", "Enter"), "/rewind"),
        Action("menu of commands", ("/co",), "show tokens and cost"),
        Action("close the menu and clear", ("Escape", "C-c"), ">", line=True),
        Action("!command", ("!echo from-the-user > b.txt; cat b.txt", "Enter"), "from-the-user\n"),
        Action("@file", ("What is in @a.txt?", "Enter"), "(attached a.txt"),
        Action("answer", (), "Seen one."),
        Action("@file:2-3", ("And @src/total.py:2-3", "Enter"), "(attached src/total.py:2-3"),
        Action("answer", (), "Seen two."),
        Action("large paste", (f"@paste {PASTED}",), "[Pasted text, 200 lines]"),
        Action("send it", ("Enter",), "Seen three."),
        Action("dropped image", (f"@paste '{shot}'",), "[Image 1] is shot.png"),
        Action("clipboard", ("C-v",), "[Image 2] is the image on the clipboard"),
        Action("send both", ("Enter",), "(attached Image 2"),
        Action("answer", (), "Seen four."),
        Action("/plan", ("/plan", "Enter"), "plan>", line=True),
        Action("ask for a plan", ("Plan it", "Enter"), "/accept carries the plan out"),
        Action("/accept", ("/accept", "Enter"), "allow?", line=True),
        Action("allow once", ("@wait", "y", "Enter"), "Step written."),
        Action("second step of the plan", (), "Step said."),
        Action("request with a command", ("Run early", "Enter"), "allow?", line=True),
        Action("deny with a reason", ("@wait", "n not yet", "Enter"), "Denied then."),
        Action("another command", ("Run it now", "Enter"), "allow?", line=True),
        Action("allow for the session", ("@wait", "s", "Enter"), "Ran it."),
        Action("/permissions", ("/permissions", "Enter"), "(your answer)"),
        Action("skill", ("Read the skill", "Enter"), "Skill read."),
        Action("command file", ("/greet Ada", "Enter"), "Greet Ada warmly."),
        Action("answer", (), "Hello from the command."),
        Action("/hooks", ("/hooks", "Enter"), "before_tool"),
        Action("hook refuses", ("Do the forbidden", "Enter"), "Refused then."),
        Action("job", ("Start a job", "Enter"), "Job started."),
        Action("/jobs", ("/jobs", "Enter"), "sleep 600"),
        Action("stop the job", ("Stop the job", "Enter"), "Job stopped."),
    )


def second_half(run_again: str) -> tuple[Action, ...]:
    """Return the actions on memory, files and sessions. ``run_again`` starts the program in the shell."""
    return (
        Action("/remember", ("/remember Always use tabs in Makefiles", "Enter"), "Always use tabs"),
        Action("# line", ("# Never edit b.txt", "Enter"), "Never edit b.txt"),
        Action("/memory", ("/memory", "Enter"), "by you]"),
        Action("/forget", ("/forget 1", "Enter"), "Always use tabs"),
        Action("/context", ("/context", "Enter"), "next prompt: about"),
        Action("/search", ("/search warmly", "Enter"), "warmly"),
        Action("/cost", ("/cost", "Enter"), "tokens: "),
        Action("/show", ("/show", "Enter"), "Job stopped."),
        Action("write", ("Write c", "Enter"), "allow?", line=True),
        Action("allow for the request", ("@wait", "f", "Enter"), "Wrote c."),
        Action("/diff", ("/diff", "Enter"), "c.txt, added"),
        Action("/apply PATH", ("/apply c.txt", "Enter"), "applied to"),
        Action("a request to undo", ("This is undone", "Enter"), "Words of the undone."),
        Action("/undo", ("/undo", "Enter"), "> This is undone", line=True),
        Action("/redo", ("C-c", "/redo", "Enter"), "redone"),
        Action("/rewind", ("/rewind", "Enter"), "/rewind N goes back"),
        Action("/rename", ("/rename day", "Enter"), "renamed; continue with"),
        Action("Ctrl-R", ("C-r", "made"), "made"),
        Action("Esc Esc", ("C-g", "C-c", "Escape", "Escape"), "> This is undone", line=True),
        Action("edit the last request", (" no more", "Enter"), "Words of the undone.\n"),
        Action("the editor", ("C-x", "C-e"), "> typed in the editor", line=True),
        Action("send it", ("Enter",), "Edited answer."),
        Action("Ctrl-Z", ("C-z",), "Stopped"),
        Action("fg", ("fg", "Enter"), "context ", line=True),
        Action("/new, and back", ("/quit", "Enter"), "continue with: stackmem chat --resume"),
        Action("--continue", (f"{run_again} --continue", "Enter"), ">", line=True),
    )

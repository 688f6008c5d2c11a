"""The commands of a conversation: the one table that the terminal, the editors and the completion read."""

from __future__ import annotations

from msgspec import Struct


class ChatCommand(Struct, frozen=True):
    """A command that a user types after a slash."""

    takes: str  # what stands after it; empty for nothing
    says: str  # what it does
    in_editors: bool = True


COMMANDS = {
    "help": ChatCommand("", "show these commands", in_editors=False),
    "show": ChatCommand(
        "[STEP]",
        "show a step in full: what was called, and what came back; the last one without a number",
        in_editors=False,
    ),
    "diff": ChatCommand("", "show what the agent changed so far"),
    "apply": ChatCommand("", "bring it into your folder"),
    "undo": ChatCommand("[N]", "take back the last N requests, with their files"),
    "fork": ChatCommand("", "go on in a copy of this conversation", in_editors=False),
    "heap": ChatCommand("[NAME]", "list what is on the heap, or show one chunk"),
    "frames": ChatCommand("", "list the frames"),
    "cost": ChatCommand("", "show tokens and cost"),
    "model": ChatCommand("NAME", "go on with another model"),
    "strategy": ChatCommand("NAME", "go on with another memory strategy"),
    "budget": ChatCommand("steps|tokens|usd|seconds N|+N", "set a limit"),
    "view": ChatCommand("", "write the conversation as a page", in_editors=False),
    "save": ChatCommand("FILE", "write requests and results as Markdown", in_editors=False),
    "quit": ChatCommand("", "leave; stackmem chat --continue takes it up again", in_editors=False),
}
IN_EDITORS = {name: command for name, command in COMMANDS.items() if command.in_editors}

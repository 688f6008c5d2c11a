"""The commands that a user types in a conversation, in one table for the terminal and for editors."""

from __future__ import annotations

from msgspec import Struct


class ChatCommand(Struct, frozen=True):
    """A command that the user types after a slash."""

    takes: str  # its arguments; empty for none
    says: str  # what it does
    in_editors: bool = True


COMMANDS = {
    "help": ChatCommand("", "show these commands", in_editors=False),
    "show": ChatCommand(
        "[STEP]",
        "show a step in full, with its call and result; without a number, the last step",
        in_editors=False,
    ),
    "diff": ChatCommand("", "show the agent's changes so far"),
    "apply": ChatCommand("[-p] [--commit] [PATH...]", "apply the changes to your folder, or only those in PATH"),
    "undo": ChatCommand("[N]", "undo the last N requests and their file changes"),
    "redo": ChatCommand("", "take back the last /undo, if no request was made since", in_editors=False),
    "rewind": ChatCommand("[N]", "list the requests, or go back to before request N", in_editors=False),
    "fork": ChatCommand("", "continue in a copy of this conversation", in_editors=False),
    "heap": ChatCommand("[NAME]", "list the chunks on the heap, or show one of them"),
    "frames": ChatCommand("", "list the frames"),
    "jobs": ChatCommand("", "list the commands that run in the background"),
    "remember": ChatCommand("TEXT", "keep a rule or preference in every later prompt; a line with # does the same"),
    "forget": ChatCommand("N", "remove entry N of the kept words"),
    "memory": ChatCommand("[export [FILE]]", "list the words kept for every prompt, or write them to AGENTS.md"),
    "search": ChatCommand("WORDS", "search everything said, done and found"),
    "context": ChatCommand("", "show what fills the next prompt, by kind, and what it costs"),
    "permissions": ChatCommand("", "show which calls are allowed, denied or asked about, and by which rule"),
    "hooks": ChatCommand("", "list the commands that run before and after the agent's calls and requests"),
    "cost": ChatCommand("", "show tokens and cost"),
    "model": ChatCommand("NAME", "continue with another model"),
    "strategy": ChatCommand("NAME", "continue with another memory strategy"),
    "budget": ChatCommand("steps|tokens|usd|seconds N|+N", "set a limit"),
    "rename": ChatCommand("NAME", "name the conversation; --resume NAME continues it", in_editors=False),
    "view": ChatCommand("", "write the conversation as an HTML page", in_editors=False),
    "save": ChatCommand("FILE", "write requests and results as Markdown", in_editors=False),
    "quit": ChatCommand("", "leave; stackmem chat --continue resumes the conversation", in_editors=False),
}
IN_EDITORS = {name: command for name, command in COMMANDS.items() if command.in_editors}

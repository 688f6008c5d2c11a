"""Permission rules: which calls a user allows, denies or wants to be asked about, by tool and pattern.

Rule 1: ``deny`` beats ``ask``, and ``ask`` beats ``allow``. Their order in the files does not matter.
Rule 2: A rule that allows must match the whole call. A command with a special character of the shell is allowed only
    by its exact text, because it could start as allowed and continue differently.
Rule 3: A rule that denies or asks matches any part of a command, without quotes and from any word on. It rather matches
    too much than too little.
Rule 4: The rules are those that the run recorded at its start, so a replay and a resumed run decide the same.
"""

from __future__ import annotations

import posixpath
import re

from msgspec import UNSET, json

from ..messages import ToolCall
from ..network import WebFetch, WebSearch
from ..person_facts import PermissionRule
from ..state import State
from ..tools import EditFile, ListFiles, PushFrame, ReadFile, Refusal, RunCommand, SearchFiles, WorkspaceCall, WriteFile
from ..tools import tool_name as name_of

_TOOLS = (ReadFile, WriteFile, EditFile, SearchFiles, ListFiles, RunCommand, WebFetch, WebSearch)
RULED_TOOLS = tuple(name_of(tool) for tool in _TOOLS)
"""The tools for the workspace and the web that rules can name."""

_WITHOUT_PATH = frozenset(name_of(tool) for tool in (RunCommand, WebFetch, WebSearch))

RUN_PYTHON = "run_python"
"""The name in rules and hooks for a Python function of a playbook. Its pattern is compared with the function's name."""

SHELL = frozenset(";&|<>$`(){}\n\r\\\"'")
"""A pattern never allows a command with one of these, unless it is that command."""

_OPERATORS = re.compile(r"[;&|<>$`(){}\n\r]+")
_QUOTES = re.compile(r"\\\n|[\\\"']")
_BEFORE_WORD = " /="


def rule_for(state: State, call: WorkspaceCall | ToolCall) -> PermissionRule | None:
    """Return the rule that decides about a call, or None if no rule matches it."""
    if state.begun.permissions is UNSET:
        return None
    if isinstance(call, ToolCall):
        return _decide(state, call.name, json.encode(call.arguments, order="deterministic").decode())
    if isinstance(call, RunCommand):
        return _decide(state, name_of(call), call.command)
    if isinstance(call, WebFetch):
        return _decide(state, name_of(call), call.url)
    if isinstance(call, WebSearch):
        return _decide(state, name_of(call), call.query)
    return _decide(state, name_of(call), call.path)


def rule_of_step(state: State, tool: str, subject: str) -> PermissionRule | None:
    """Return the rule that decides about a step of a program, or None.

    Args:
        tool: The tool of an agent that does the same.
        subject: The command, the path, or the arguments as JSON.
    """
    return None if state.begun.permissions is UNSET else _decide(state, tool, subject)


def verify_refusal(state: State, call: PushFrame) -> Refusal | None:
    """Return the refusal of a frame whose verify command a rule denies or asks about: it runs without a question."""
    if not call.verify or state.begun.permissions is UNSET:
        return None
    rule = _decide(state, name_of(RunCommand), call.verify)
    if rule is None or rule.effect == "allow":
        return None
    return Refusal("denied", f"push_frame refused: {spelled(rule)} covers its verify command", "leave out verify")


def denial(rule: PermissionRule) -> Refusal:
    """Return the refusal of a call that a rule denies."""
    return Refusal("denied", f"{rule.tool} refused: {spelled(rule)} does not allow this call", "work without it")


def without_user(rule: str) -> str:
    """Return why a call is denied that a rule asks about, if no user can be asked."""
    return (
        f"{rule} asks the user, and this run has no user to ask; work without this call. "
        "The user can allow it: move the pattern to [allow], or work in stackmem chat"
    )


def spelled(rule: PermissionRule) -> str:
    """Return the rule as its file spells it, with the file."""
    pattern = json.encode(rule.pattern).decode()
    return f"the rule [{rule.effect}] {rule.tool} = {pattern} in {rule.source}"


def listing(state: State) -> list[str]:
    """Return the rules of a run, one line each, for the user."""
    rules = () if state.begun.permissions is UNSET else state.begun.permissions
    approve = "never" if state.session is None else state.session.rules.approve
    lines = [
        f"{effect:<6}{rule.tool}  {json.encode(rule.pattern).decode()}  ({rule.source})"
        for effect in ("deny", "ask", "allow")
        for rule in rules
        if rule.effect == effect
    ]
    granted = [
        f"allow {grant.tool}  {json.encode(grant.pattern or '*').decode()}  (your answer)"
        for grant in (() if state.session is None else state.session.grants)
    ]
    outside = "; calls outside the sandbox ask" if state.begun.registered else ""
    return [*lines, *granted, f"every other call: --approve {approve}{outside}"]


def _decide(state: State, tool: str, description: str) -> PermissionRule | None:
    rules = () if state.begun.permissions is UNSET else state.begun.permissions
    own = [rule for rule in rules if rule.tool == tool]
    for effect in ("deny", "ask"):
        strict = next((rule for rule in own if rule.effect == effect and _restricts(state, rule, description)), None)
        if strict is not None:
            return strict
    return next((rule for rule in own if rule.effect == "allow" and _allows(state, rule, description)), None)


def _allows(state: State, rule: PermissionRule, description: str) -> bool:
    if rule.tool == name_of(RunCommand):
        return rule.pattern == description or (not SHELL & set(description) and matches(rule.pattern, description))
    if rule.tool in RULED_TOOLS and rule.tool not in _WITHOUT_PATH:
        return ".." not in description.split("/") and matches(rule.pattern, _spellings(state, description)[0])
    return matches(rule.pattern, description)


def _restricts(state: State, rule: PermissionRule, description: str) -> bool:
    if matches(rule.pattern, description):
        return True
    if rule.tool == name_of(RunCommand):
        pattern = _QUOTES.sub("", rule.pattern)
        parts = _OPERATORS.split(_QUOTES.sub("", description)) if pattern else ()
        return any(matches(pattern, " ".join(part.split()), anywhere=True) for part in parts)
    if rule.tool in RULED_TOOLS and rule.tool not in _WITHOUT_PATH:
        return any(matches(rule.pattern, path) for path in _spellings(state, description))
    return False


def _spellings(state: State, path: str) -> tuple[str, str]:
    """Return the path relative to the folder that the run works on, and to the workspace, without ``.`` and ``..``.

    A path outside is absolute, so that a pattern for the folder does not match it.
    """
    root = posixpath.normpath(state.begun.workspace)
    location = root if state.begun.place is UNSET else posixpath.join(root, state.begun.place)
    full_path = posixpath.normpath(posixpath.join(location, path))
    return _relative(full_path, location), _relative(full_path, root)


def _relative(path: str, folder: str) -> str:
    inside = path == folder or path.startswith(folder.rstrip("/") + "/")
    return posixpath.relpath(path, folder) if inside else path


def matches(pattern: str, text: str, *, anywhere: bool = False) -> bool:
    """Return whether a text matches a pattern, in which ``*`` stands for any text. The time is linear in the text.

    With ``anywhere`` the match may begin at any word of the text. The earliest word is enough for a pattern with ``*``.
    """
    first, *others = pattern.split("*")
    if not others:
        boundary = anywhere and len(text) > len(first) > 0 and text[-len(first) - 1] in _BEFORE_WORD
        return text == first or (boundary and text.endswith(first))
    at = _first_word(first, text) if anywhere else 0
    if at < 0 or not text.startswith(first, at):
        return False
    at += len(first)
    for part in others[:-1]:
        index = text.find(part, at)
        if index < 0:
            return False
        at = index + len(part)
    return len(text) - len(others[-1]) >= at and text.endswith(others[-1])


def _first_word(prefix: str, text: str) -> int:
    """Return where the first word with this prefix begins; -1 if there is none."""
    at = text.find(prefix)
    while at > 0 and text[at - 1] not in _BEFORE_WORD:
        at = text.find(prefix, at + 1)
    return at

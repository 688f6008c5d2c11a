"""Finds the permission rules for work on a folder: the user's own, and those of the project.

A task has none, because its result must not depend on the machine.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from msgspec import Struct

from stackmem.core.conversation.permissions import RULED_TOOLS, RUN_PYTHON
from stackmem.core.guidance.program_calls import TOOL
from stackmem.core.person_facts import PermissionRule
from stackmem.settings.mcp_servers import reason_for_distrust
from stackmem.settings.permission_rules import PERMISSIONS_FILE, own_rules, project_rules
from stackmem.settings.tools.own_tools import TOOLS


class FoundPermissions(Struct, frozen=True):
    """The rules, and what the user should know about files that do not count completely."""

    rules: tuple[PermissionRule, ...] = ()
    notes: tuple[str, ...] = ()


def find_permissions(folder: Path | None, location: str, environ: Mapping[str, str]) -> FoundPermissions:
    """Return the rules for work in ``folder / place``.

    Raise UsageError if a file has an unknown key or tool, or is not valid.
    """
    if folder is None:
        return FoundPermissions()
    tools = (*RULED_TOOLS, TOOL, RUN_PYTHON, *TOOLS)
    rules, notes = list(own_rules(environ, tools)), []
    for root in dict.fromkeys((folder, folder / location)):
        if not (root / PERMISSIONS_FILE).is_file():
            continue
        own, servers = project_rules(root, tools)
        reason = reason_for_distrust(root, servers, environ) if any(rule.effect == "allow" for rule in own) else ""
        if reason:
            own = tuple(rule for rule in own if rule.effect != "allow")
            notes.append(f"[allow] in {PERMISSIONS_FILE} is ignored {reason}")
        rules += own
    return FoundPermissions(tuple(rules), tuple(notes))

"""Commands from a model to the user: things the user can open or send, and things done automatically.

This code never opens, sends or refreshes anything. It only displays and records the commands. An invalid command raises
``Misfit``.
"""

from __future__ import annotations

import json
from typing import Any
from urllib.parse import quote

from msgspec import Struct

from .reply_json import Misfit, count, member, required_member, word

MAX_MAIL = 1_800
"""Maximum length of a link that mail programs accept."""
_RESOURCES = ("Record", "Dashboard", "Report", "Form", "View")


class Command(Struct, frozen=True):
    """One command. ``line`` is the text shown to the user."""

    type: str
    line: str
    fields: dict[str, Any]

    @property
    def label(self) -> str:
        return str(self.fields.get("label", ""))


def read_actionable(value: Any) -> tuple[Command, ...]:
    """Read the commands that the user can carry out."""
    return _read_commands(value, "actionableCommands", _ACTIONABLE)


def read_automatic(value: Any) -> tuple[Command, ...]:
    """Read the commands that take effect automatically."""
    return _read_commands(value, "automaticCommands", _AUTOMATIC)


def _read_commands(value: Any, location: str, formatters: dict[str, Any]) -> tuple[Command, ...]:
    if value is None:
        return ()
    if not isinstance(value, list):
        raise Misfit(f"{location} must be a list")
    commands = []
    for index, each in enumerate(value):
        here = f"{location}[{index}]"
        if not isinstance(each, dict):
            raise Misfit(f"{here} must be an object")
        type_ = word(each, "type", here, tuple(formatters), "")
        # a single line, so that one command cannot be made to look like several
        line = " ".join(formatters[type_](each, here).split())
        commands.append(Command(type_, line, each))
    return tuple(commands)


def _resource(command: dict[str, Any], location: str) -> str:
    kind = word(command, "resourceType", location, _RESOURCES, "Record")
    mode = word(command, "mode", location, ("view", "edit"), "view")
    parts = (command.get("entityName"), command.get("resourceId") or command.get("keys"))
    name = " ".join(part if isinstance(part, str) else json.dumps(part, ensure_ascii=False) for part in parts if part)
    return f"[{mode} {kind}] {required_member(command, 'label', str, location)}" + (f": {name}" if name else "")


def _url(command: dict[str, Any], location: str) -> str:
    url = required_member(command, "url", str, location)
    if not url.lower().startswith(("http://", "https://")):
        raise Misfit(f"{location}.url must begin with http:// or https://")
    return f"[open] {required_member(command, 'label', str, location)}: {url}"


def _snapshot(command: dict[str, Any], location: str) -> str:
    return f"[capture] {required_member(command, 'label', str, location)}"


def _mail(command: dict[str, Any], location: str) -> str:
    label = required_member(command, "label", str, location)
    address = ",".join(_addresses(command.get("to"), f"{location}.to"))
    rows = [(name, ",".join(_addresses(command.get(name), f"{location}.{name}"))) for name in ("cc", "bcc")]
    rows += [(name, member(command, name, str, location, "")) for name in ("subject", "body")]
    more = "&".join(f"{name}={quote(text)}" for name, text in rows if text)
    link = f"mailto:{quote(address, safe='@,')}" + (f"?{more}" if more else "")
    if len(link) <= MAX_MAIL:
        return f"[compose] {label}: {link}"
    artifact = command.get("artifactId")
    return f"[compose] {label}: too long for a link" + (f"; see the artifact {artifact}" if artifact else "")


def _addresses(value: Any, location: str) -> list[str]:
    if value is None:
        return []
    addresses = value if isinstance(value, list) else [value]
    if not all(isinstance(each, str) for each in addresses):
        raise Misfit(f"{location} must be a text or a list of texts")
    return addresses


def _refresh(command: dict[str, Any], location: str) -> str:
    if word(command, "scope", location, ("entity", "cache"), "entity") == "cache":
        return f"[refresh] cache {word(command, 'cacheName', location, ('Core', 'AI', 'Actions'), 'Core')}"
    names = member(command, "entityNames", list, location, [])
    return f"[refresh] {', '.join(map(str, names)) or 'everything'}"


def _notification(command: dict[str, Any], location: str) -> str:
    severity = word(command, "severity", location, ("success", "info", "warning", "error"), "info")
    count(command, "duration", location, 3_000, 0, 3_600_000)
    return f"[{severity}] {required_member(command, 'message', str, location)}"


_ACTIONABLE = {
    "open:resource": _resource, "open:url": _url, "client:capture-data-snapshot": _snapshot, "compose:email": _mail,
}  # fmt: skip
_AUTOMATIC = {"refresh:data": _refresh, "notification": _notification}

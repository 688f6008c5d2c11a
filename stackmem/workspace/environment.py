"""Builds the environment of a command from scratch.

No variable is inherited unless this file names it or the user grants it by name. Names that look like secrets, or that
control the loader, the interpreter or agent sockets, cannot be granted at all.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

SYSTEM_PATH = ("/usr/local/sbin", "/usr/local/bin", "/usr/sbin", "/usr/bin", "/sbin", "/bin")

_SECRET = re.compile(r"KEY|SECRET|TOKEN|PASS|CRED|COOKIE|AUTHORIZATION|^SSH_AUTH_SOCK$|^DBUS_|^GIT_SSH", re.IGNORECASE)
_STEERING = re.compile(r"^LD_|^PYTHON", re.IGNORECASE)
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


def is_secret(name: str) -> bool:
    """Return whether the value of this variable must never reach a model, a trace or a command."""
    return _SECRET.search(name) is not None


def refusal(name: str) -> str:
    """Return why a variable cannot be granted by name, or an empty string."""
    if not _NAME.fullmatch(name):
        return f"{name!r} is not a valid variable name; use letters, digits and underscores"
    if is_secret(name):
        return f"{name} looks like a secret and is never granted; put what the command needs into the workspace"
    if _STEERING.search(name):
        return f"{name} controls the loader or the interpreter and is never granted; set it in the command"
    return ""


_OFFLINE = {
    "npm_config_fetch_retries": "0",  # also pnpm
    "npm_config_audit": "false",
    "npm_config_fund": "false",
    "npm_config_update_notifier": "false",
    "YARN_HTTP_RETRY": "0",
    "PIP_RETRIES": "0",
    "PIP_DISABLE_PIP_VERSION_CHECK": "1",
    "UV_HTTP_RETRIES": "0",
    "CARGO_NET_RETRY": "0",
    "GOPROXY": "off",
    "BUNDLE_RETRY": "0",
}


def build_environment(
    *,
    path: tuple[str, ...],
    home: str,
    tmp: str,
    granted: tuple[str, ...],
    caller: Mapping[str, str],
    offline: bool = False,
) -> dict[str, str]:
    """Build a command's environment.

    Args:
        path: Folders that come before the system's on PATH.
        granted: Names that are copied from ``caller`` if set there.
        offline: The network is off, so package managers should fail immediately instead of retrying for minutes.
    """
    # Checked again here, although profiles are checked when read: this is the last place before a command.
    environ = {name: caller[name] for name in granted if name in caller and not refusal(name)}
    return (
        (_OFFLINE if offline else {})
        | environ
        | {
            "PATH": ":".join((*path, *SYSTEM_PATH)),
            "HOME": home,
            "TMPDIR": tmp,
            "USER": "user",
            "LOGNAME": "user",
            "SHELL": "/bin/bash",
            "LANG": "C.UTF-8",
            # Programs print no colors and start no full-screen interface, both of which only cost tokens.
            "TERM": "dumb",
            # A pager, a prompt or an editor would wait for a key until the time limit.
            "PAGER": "cat",
            "GIT_PAGER": "cat",
            "GIT_TERMINAL_PROMPT": "0",
            "GIT_EDITOR": "true",
            "EDITOR": "true",
            "NO_COLOR": "1",
            # Test runners and package managers then ask nothing and do not watch for changes.
            "CI": "1",
            # Otherwise the output of a command that is killed at its limit would be lost in its buffer.
            "PYTHONUNBUFFERED": "1",
            # __pycache__ would show up among the changed files of every step.
            "PYTHONDONTWRITEBYTECODE": "1",
        }
    )

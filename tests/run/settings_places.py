"""Folders that a user may be in, and the resulting settings."""

from pathlib import Path

import pytest

from stackmem.core.errors import UsageError
from stackmem.settings.settings import Resolved, resolve


class Places:
    """A home with a configuration file, containing a git repository that is the user's current folder."""

    def __init__(self, root: Path) -> None:
        self.home = root / "home"
        self.repository = self.home / "repository"
        self.cwd = self.repository
        self.own = self.home / ".config" / "stackmem" / "config.toml"
        (self.repository / ".git").mkdir(parents=True)
        self.own.parent.mkdir(parents=True)

    def project(self, text: str, name: str = "stackmem.toml") -> "Places":
        (self.repository / name).write_text(text, encoding="utf-8")
        return self

    def user(self, text: str) -> "Places":
        self.own.write_text(text, encoding="utf-8")
        return self

    def resolve(self, flags=None, environ=None, task=None) -> Resolved:
        return resolve(flags or {}, {"HOME": str(self.home)} | (environ or {}), self.cwd, task or {})

    def refusal(self, **sources) -> str:
        with pytest.raises(UsageError) as raised:
            self.resolve(**sources)
        return str(raised.value)

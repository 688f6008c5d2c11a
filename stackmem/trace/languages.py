"""Opens a language of programs by its name; its modules are imported only then."""

from __future__ import annotations

from importlib import import_module

from stackmem.errors import UsageError
from stackmem.languages.language import INTERPRETERS, MODULES, Language


def open_language(name: str) -> Language:
    """The language.

    Raises:
        UsageError: There is none of that name.

    """
    known = sorted(set(INTERPRETERS.values()))
    if name not in known:
        raise UsageError(f"no language {name[:80]!r}; known: {', '.join(known) or 'none'}")
    found: Language = import_module(MODULES.get(name, f"stackmem.languages.{name}.language")).LANGUAGE
    return found

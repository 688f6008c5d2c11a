"""``key=value,key=value`` after a strategy's name."""

from __future__ import annotations

from collections.abc import Mapping

from stackmem.errors import UsageError


def choices(strategy: str, text: str, known: Mapping[str, tuple[str, ...]]) -> dict[str, str]:
    """The value of every known parameter; the first of its choices where ``text`` does not name it.

    Raises:
        UsageError: An unknown parameter or value.

    """
    chosen = {name: values[0] for name, values in known.items()}
    for piece in filter(None, text.split(",")):
        name, given, value = piece.partition("=")
        if name not in known:
            raise UsageError(
                f"strategy {strategy!r} has no parameter {name!r}; known: {', '.join(sorted(known)) or 'none'}"
            )
        if not given or value not in known[name]:
            raise UsageError(f"strategy {strategy!r} takes {name}={'|'.join(known[name])}, not {piece!r}")
        chosen[name] = value
    return chosen

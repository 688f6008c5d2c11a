"""Reads the verdict of a task's checks from the reward files, following Harbor's rules.

The files were written inside the sandbox, so they are untrusted: neither their size nor their type is assumed.
"""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct

from stackmem.foreign.files import read_start

MAX_REWARD_BYTES = 64 * 1024


class Judgment(Struct, frozen=True):
    """Rewards by name; ``error`` says why there are none, and is empty otherwise."""

    rewards: dict[str, float] = {}
    error: str = ""

    @property
    def solved(self) -> bool:
        """Whether ``reward`` is at least 1.0, or all rewards are if none has that name."""
        if self.error or not self.rewards:
            return False
        if "reward" in self.rewards:
            return self.rewards["reward"] >= 1.0
        return all(reward >= 1.0 for reward in self.rewards.values())


class _NoVerdict(Exception):  # noqa: N818 - never leaves this file
    pass


def judge(verifier_dir: Path) -> Judgment:
    """Return the verdict in ``reward.json``, or otherwise in ``reward.txt``. Never raises for their content."""
    try:
        if (text := _read(verifier_dir / "reward.json")) is not None:
            return Judgment(_from_json(text))
        if (text := _read(verifier_dir / "reward.txt")) is not None:
            return Judgment({"reward": _from_text(text)})
    except _NoVerdict as error:
        return Judgment(error=str(error))
    return Judgment(error="the checks wrote neither reward.json nor reward.txt")


def _read(path: Path) -> str | None:
    """Return the file's text, or None if it does not exist. Links and pipes are refused without reading."""
    try:
        raw = read_start(path, MAX_REWARD_BYTES + 1, follow=False)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise _NoVerdict(f"{path.name} cannot be read ({error.strerror})") from error
    if len(raw) > MAX_REWARD_BYTES:
        raise _NoVerdict(f"{path.name} is larger than {MAX_REWARD_BYTES:,} bytes")
    try:
        text = raw.decode("utf-8")
    except UnicodeDecodeError as error:
        raise _NoVerdict(f"{path.name} is not UTF-8") from error
    if not text.strip():
        raise _NoVerdict(f"{path.name} is empty")
    return text


def _from_text(text: str) -> float:
    try:
        value = float(text)
    except ValueError as error:
        raise _NoVerdict(f"reward.txt is not a number but {len(text):,} characters of text") from error
    return _finite("reward.txt", value)


def _from_json(text: str) -> dict[str, float]:
    try:
        value = msgspec.json.decode(text)
    except (msgspec.DecodeError, RecursionError) as error:
        raise _NoVerdict(f"reward.json is not JSON: {error}") from error
    if not isinstance(value, dict) or not value:
        raise _NoVerdict("reward.json is not an object of name to reward")
    return {name: _finite(f"reward.json: {name[:60]!r}", reward) for name, reward in value.items()}


def _finite(label: str, value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise _NoVerdict(f"{label} is not a number")
    try:
        number = float(value)
    except OverflowError as error:
        raise _NoVerdict(f"{label} is not finite") from error
    if not math.isfinite(number):
        raise _NoVerdict(f"{label} is not finite")
    return number

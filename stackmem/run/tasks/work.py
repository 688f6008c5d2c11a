#!/usr/bin/env python3
"""The program of a world: ``./work``, and the same commands as a pure function over files in memory.

Every generated workspace contains a copy of this file, so it uses only the standard library.

Rule 1: ``run`` changes only its argument ``files``; the same files and words return the same text and exit code.
Rule 2: for any words, the answer is text and an exit code, never an exception.
Rule 3: the workspace contains only salted digests of the correct values. The outputs of later units are masked
    against reading and grep, not against somebody who takes this program apart.
Rule 4: each fact is a line ``topic.item = value``; no line of noise contains an equals sign.
"""

from __future__ import annotations

import base64
import hashlib
import json
import re
import sys
from collections.abc import Iterable
from functools import lru_cache
from pathlib import Path
from typing import Any

PLAN = ".work/plan"
JOURNAL = ".work/journal"
PLAN_UNITS = 10  # shown by one call
_COLUMNS = 96
_PAIR = re.compile(r"([a-z][a-z_]*\.[a-z0-9][a-z0-9_-]*)=([A-Za-z0-9_./:+-]{1,80})", re.ASCII)
_NUMBER = re.compile(r"[1-9][0-9]{0,5}", re.ASCII)
_RANGE = re.compile(r"([1-9][0-9]{0,5})(?:-([1-9][0-9]{0,5}))?", re.ASCII)

_USAGE = """usage: ./work plan A-B              what units A to B need, at most 10 units a call
       ./work do K KEY=VALUE ...    perform unit K with the values it needs
       ./work probe KEY CANDIDATE   try one candidate
       ./work status                how far the work is
"""


def run(files: dict[str, str], words: list[str]) -> tuple[str, int]:
    """Run a command; return its output (ASCII, whole lines) and its exit code.

    ``files`` maps each path to its text, and is changed in place. ``words`` are the command's words without the name of
    the program.
    """
    try:
        world = _opened(files.get(PLAN, ""))
    except (ValueError, KeyError, RecursionError):
        return f"{PLAN} is missing or was changed; nothing can be done in this workspace any more\n", 2
    match words:
        case ["plan", span]:
            lines, code = _plan(world, span)
        case ["do", unit, *pairs]:
            lines, code = _do(world, files, unit, pairs)
        case ["probe", key, candidate]:
            lines, code = _probe(world, files, key, candidate)
        case ["status"]:
            lines, code = _status(world, files), 0
        case ["log", number, *page] if world["logs"] and len(page) <= 1:
            lines, code = _log(world, number, page[0] if page else "1")
        case ["audit"] if world["audit"]:
            lines, code = _audit(world, files), 0
        case _:
            return _USAGE, 2
    return "".join(f"{line}\n" for line in lines), code


def verdict(files: dict[str, str], answers: dict[str, Any]) -> tuple[float, str]:
    """Judge the files: return a reward from 0 to 1 (1 is solved) and the reason.

    Args:
        answers: ``units``: the digest of each unit done with the values that were true then. ``repeats``: how often a
            failed candidate may be tried again; null for any number.
    """
    wanted = answers["units"]
    units, repeats = _journal(files)
    right = sum(1 for done, want in zip(units, wanted, strict=False) if done == want)
    lines = [f"{right} of {len(wanted)} units were done with the values that held"]
    if len(units) < len(wanted):
        lines.append(f"unit {len(units) + 1} was not done")
    wrong = next((at for at, (done, want) in enumerate(zip(units, wanted, strict=False), 1) if done != want), 0)
    if wrong:
        lines.append(f"the first that was not is unit {wrong}")
    limit = answers["repeats"]
    spent = limit is not None and repeats > limit
    if spent:
        lines.append(f"candidates known to be wrong were tried again {repeats} times, {limit} are allowed")
    if right == len(wanted) and not spent:
        return 1.0, "; ".join(lines)
    return round(min(0.99, right / max(1, len(wanted))), 4), "; ".join(lines)


def sealed(world: dict[str, Any]) -> str:
    """Return the text of ``.work/plan`` for a world."""
    raw = json.dumps(world, ensure_ascii=True, sort_keys=True, separators=(",", ":")).encode("ascii")
    text = base64.b64encode(_masked(raw, world["salt"])).decode("ascii")
    rows = [text[at : at + _COLUMNS] for at in range(0, len(text), _COLUMNS)]
    return "\n".join([world["salt"], *rows, ""])


def digest(salt: str, *words: str) -> str:
    """Return a salted SHA-256, shortened to 24 hexadecimal digits."""
    return hashlib.sha256("\n".join((salt, *words)).encode("utf-8", "replace")).hexdigest()[:24]


def unit_digest(salt: str, unit: int, values: dict[str, str]) -> str:
    """Return the journal entry of a unit that was done with these values."""
    return digest(salt, "done", str(unit), *(f"{key}={values[key]}" for key in sorted(values)))


@lru_cache(maxsize=8)
def _opened(text: str) -> dict[str, Any]:
    salt, _, rows = text.partition("\n")
    raw = base64.b64decode(rows.replace("\n", ""), validate=True)
    world = json.loads(_masked(raw, salt))
    if not isinstance(world, dict) or world["salt"] != salt:
        raise ValueError("not this world's plan")
    return world


def _masked(raw: bytes, salt: str) -> bytes:
    mask = hashlib.shake_256(salt.encode("utf-8", "replace")).digest(len(raw))
    return (int.from_bytes(raw, "big") ^ int.from_bytes(mask, "big")).to_bytes(len(raw), "big")


def _journal(files: dict[str, str]) -> tuple[list[str], int]:
    """Return the digests of the finished units in order, and how often a failed candidate was tried again."""
    units: list[str] = []
    failed: set[str] = set()
    repeats = 0
    for line in files.get(JOURNAL, "").splitlines():
        kind, _, rest = line.partition(" ")
        if kind == "unit":
            units.append(rest)
        elif kind == "failed":
            repeats += rest in failed
            failed.add(rest)
    return units, repeats


def _note(files: dict[str, str], line: str) -> None:
    files[JOURNAL] = files.get(JOURNAL, "") + line + "\n"


def _done(files: dict[str, str]) -> int:
    journal = "\n" + files.get(JOURNAL, "")
    return journal.count("\nunit ")


def _plan(world: dict[str, Any], span: str) -> tuple[list[str], int]:
    match = _RANGE.fullmatch(span)
    total = len(world["units"])
    first = int(match[1]) if match else 0
    last = min(int(match[2] or first), total) if match else 0
    if not match or not 1 <= first <= last:
        return [f"no units {span[:40]!a}; name some of 1 to {total}, such as ./work plan 1-{min(10, total)}"], 1
    if last - first >= PLAN_UNITS:
        return [f"{last - first + 1} units are too many; one call shows at most {PLAN_UNITS}"], 1
    return [f"unit {unit}: {world['units'][unit - 1]['plan']}" for unit in range(first, last + 1)], 0


def _status(world: dict[str, Any], files: dict[str, str]) -> list[str]:
    done, total = min(_done(files), len(world["units"])), len(world["units"])
    lines = [f"done units 1-{done}"] if done else ["no unit is done"]
    return [*lines, f"next unit {done + 1} of {total}" if done < total else f"all {total} units are done"]


def _do(world: dict[str, Any], files: dict[str, str], word: str, pairs: list[str]) -> tuple[list[str], int]:
    total, done = len(world["units"]), _done(files)
    if not _NUMBER.fullmatch(word) or int(word) > total:
        return [f"no unit {word[:40]!a}; there are units 1 to {total}"], 1
    number = int(word)
    if number <= done:
        return ["it was done before; nothing has changed", f"done unit {number}"], 0
    if number > done + 1:
        return [f"failed unit {number}: unit {done + 1} comes first"], 1
    given: dict[str, str] = {}
    for pair in pairs:
        match = _PAIR.fullmatch(pair)
        if not match:
            return [f"failed unit {number}: {pair[:60]!a} is not of the form topic.item=value"], 1
        if given.setdefault(match[1], match[2]) != match[2]:
            return [f"failed unit {number}: {match[1]} is given twice"], 1
    unit, salt = world["units"][number - 1], world["salt"]
    missing = [key for key in unit["keys"] if key not in given]
    wrong = [
        key for key, right in unit["keys"].items()
        if key in given and digest(salt, key, given[key]) != right and not world["silent"]
    ]  # fmt: skip
    if missing or wrong:
        reasons = [f"failed unit {number}: missing {key}" for key in missing]
        return [*reasons, *(f"failed unit {number}: wrong {key}" for key in wrong)], 1
    _note(files, f"unit {unit_digest(salt, number, {key: given[key] for key in unit['keys']})}")
    files.update(unit["puts"])
    noise = _noise(f"{salt} do {number}", world["noise"], _BUILD)
    return [f"== {unit['about']} ({number} of {total})", *noise, *unit["says"], f"done unit {number}"], 0


def _probe(world: dict[str, Any], files: dict[str, str], key: str, candidate: str) -> tuple[list[str], int]:
    if key not in world["probes"] or not _PAIR.fullmatch(f"{key}={candidate}"):
        known = ", ".join(sorted(world["probes"])) or "nothing"
        return [f"{key[:60]!a} cannot be probed so; what can be: {known}"], 2
    if digest(world["salt"], key, candidate) == world["probes"][key]:
        return [f"{key} = {candidate}"], 0
    _note(files, f"failed {digest(world['salt'], 'probe', key, candidate)}")
    noise = _noise(f"{world['salt']} probe {key} {candidate}", world["noise"], _FAILURE)
    return [*noise, f"not {key} = {candidate}"], 1


def _log(world: dict[str, Any], number: str, page: str) -> tuple[list[str], int]:
    pages = world["logs"].get(number)
    if pages is None:
        return [f"no log {number[:40]!a}; there are logs 1 to {len(world['logs'])}"], 1
    if not _NUMBER.fullmatch(page) or int(page) > len(pages):
        return [f"log {number} has no page {page[:40]!a}; it has pages 1 to {len(pages)}"], 1
    about, chars, planted = pages[int(page) - 1]
    lines = list(_noise(f"{world['salt']} log {number} {page}", chars, _SERVICE))
    for line in planted:
        lines.insert(int(digest(world["salt"], "place", line), 16) % (len(lines) + 1), line)
    more = f"; ./work log {number} {int(page) + 1} shows the next" if int(page) < len(pages) else ""
    return [f"-- log {number}, {about}, page {page} of {len(pages)}{more}", *lines], 0


def _audit(world: dict[str, Any], files: dict[str, str]) -> list[str]:
    """Return an entry for each finished unit, and the fact that the last one revealed."""
    done = _done(files)
    lines = ["-- audit of the ledger, oldest entry first"]
    for number, unit in enumerate(world["units"][:done], 1):
        lines.append(f"entry {number:04d}  {unit['about']}")
        lines += _noise(f"{world['salt']} audit {number}", world["noise"] // 12, _BUILD)
    return [*lines, *(world["units"][done - 1]["says"] if done else world["opening"])]


_BUILD = (
    "{0:02d}:{1:02d}:{2:02d} INFO  resolver: {3} packages checked against the lock, {4} from the cache",
    "{0:02d}:{1:02d}:{2:02d} INFO  step {w}/{v} finished in {4}.{1:02d} s",
    "{0:02d}:{1:02d}:{2:02d} DEBUG {w}: kept layer sha256:{h}, {3} kB",
    "{0:02d}:{1:02d}:{2:02d} INFO  copied {3} files to staging/{v}",
    "{0:02d}:{1:02d}:{2:02d} WARN  {w}: {4} deprecated calls, see reports/{v}-{4}.txt",
    "{0:02d}:{1:02d}:{2:02d} INFO  compiled {w}/{v}.c ({3} lines, {4} notes)",
    "{0:02d}:{1:02d}:{2:02d} DEBUG lock {h} taken by {w}, released after {4} ms",
    "{0:02d}:{1:02d}:{2:02d} INFO  uploaded {w}-{v}.tar.gz, {3} kB at {4} MB/s",
    "{0:02d}:{1:02d}:{2:02d} INFO  {w}: {3} passed, {4} skipped",
)
_FAILURE = (
    "{0:02d}:{1:02d}:{2:02d} ERROR {w}: exited with status {4} after {3} ms",
    "{0:02d}:{1:02d}:{2:02d} ERROR cannot import {w}.{v}: no such module (searched {4} folders)",
    '  File "/opt/ci/{w}/{v}.py", line {3}, in start_{v}',
    "{0:02d}:{1:02d}:{2:02d} WARN  retry {4} of 5 for {w} after {3} ms",
    "    raise StartError('{w} gave up on {v}, ticket {h}')",
    "{0:02d}:{1:02d}:{2:02d} ERROR {v}: {3} checks could not be collected",
    "{0:02d}:{1:02d}:{2:02d} INFO  clearing the work area of {w}, {3} files",
)
_SERVICE = (
    "2026-03-{4:02d}T{0:02d}:{1:02d}:{2:02d}Z {w} GET /v2/{v}/{3} 200 {4} ms trace {h}",
    "2026-03-{4:02d}T{0:02d}:{1:02d}:{2:02d}Z {w} POST /v2/{v} 201 {3} ms trace {h}",
    "2026-03-{4:02d}T{0:02d}:{1:02d}:{2:02d}Z {w} pool: {3} of 400 connections busy",
    "2026-03-{4:02d}T{0:02d}:{1:02d}:{2:02d}Z {w} slow query on {v}: {3} ms, plan {h}",
    "2026-03-{4:02d}T{0:02d}:{1:02d}:{2:02d}Z {w} retry {4} of message {h} to {v}",
    "2026-03-{4:02d}T{0:02d}:{1:02d}:{2:02d}Z {w} cache {v}: {3} hits, {4} misses",
    "2026-03-{4:02d}T{0:02d}:{1:02d}:{2:02d}Z {w} 503 from {v} upstream, circuit opened for {4} s, trace {h}",
)
_WHO = ("gateway", "ledgerd", "resolver", "packager", "indexer", "scheduler", "mailer", "billing", "edge", "auth")
_WHAT = ("orders", "invoices", "sessions", "schema", "assets", "quotas", "exports", "refunds", "search", "profiles")


@lru_cache(maxsize=2_048)  # a bench plays a world under one strategy after another
def _noise(seed: str, chars: int, forms: tuple[str, ...]) -> tuple[str, ...]:
    """Return lines of about ``chars`` characters, the same for the same seed on every machine."""
    state = int.from_bytes(hashlib.sha256(seed.encode("utf-8", "replace")).digest()[:8], "big")
    lines: list[str] = []
    while chars > 0:
        state = (state * 6364136223846793005 + 1442695040888963407) & 0xFFFFFFFFFFFFFFFF
        high = state >> 12
        line = forms[high % len(forms)].format(
            high // 16 % 24, high // 384 % 60, high // 23040 % 60, high // 1382400 % 900 + 17, high // 97 % 28 + 1,
            w=_WHO[high // 11 % len(_WHO)], v=_WHAT[high // 131 % len(_WHAT)], h=f"{state & 0xFFFFFFFF:08x}",
        )  # fmt: skip
        lines.append(line)
        chars -= len(line) + 1
    return tuple(lines)


def _read(paths: Iterable[str]) -> dict[str, str]:
    found = {}
    for path in paths:
        try:
            found[path] = Path(path).read_text(encoding="utf-8")
        except (OSError, ValueError):
            continue
    return found


def main() -> int:
    """Run the program on the files below the working directory, and write changed files back."""
    files = _read((PLAN, JOURNAL))
    before = dict(files)
    text, code = run(files, sys.argv[1:])
    for path, content in files.items():
        if before.get(path) != content:
            try:
                Path(path).parent.mkdir(parents=True, exist_ok=True)
                Path(path).write_text(content, encoding="utf-8")
            except OSError as error:
                text, code = f"{path} cannot be written ({error.strerror}); nothing is sure\n", 2
    sys.stdout.write(text)
    return code


if __name__ == "__main__":
    sys.exit(main())

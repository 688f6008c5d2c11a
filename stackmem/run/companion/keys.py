"""The key that signs this machine's runs, and other people's keys that the user trusts.

They are in the user's state directory, which no sandbox can see: ``keys/signing.pem`` (PKCS #8) and
``keys/trusted.json``.
"""

from __future__ import annotations

import json
import re
import secrets
import unicodedata
from collections.abc import Mapping
from pathlib import Path

from stackmem.core.errors import UsageError
from stackmem.foreign.files import read_regular_text
from stackmem.foreign.private import UnusableKey, create_key_file, read_key_file, write_json
from stackmem.settings.settings_files import user_folder
from stackmem.trace.signatures import NoPackage, SigningKey, Unsigned

OWN = "this machine"
"""Display name of the machine's own key."""

_SKELETON = re.sub("[^a-z]", "", OWN)
_LOOK_ALIKES = str.maketrans(
    {
        character: letter
        for letter, characters in {
            "t": "\u03c4\u0442\u20207\u2ca7\ua787\u1d1b",
            "h": "\u04bb\u043d\u0570\u0127\u13bb\u029c",
            "i": "\u0456\u03b9\u0131\u0269\u04cf\u01c0\u05c0\u026al\u13a51|!",
            "s": "\u0455\ua731\u13da\u01bd5$",
            "m": "\u043c\u03bc\u1d0d\u03fb",
            "a": "\u0430\u03b1\u0251\u1d00\u13aa4@",
            "c": "\u0441\u03c3\u1d04\u2ca5\u023c",
            "n": "\u043f\u03bd\u03b7\u0578\u057c\u0274",
            "e": "\u0435\u03b5\u0454\u025b\u04bd\u1d07\u212e\uab323",
        }.items()
        for character in characters
    }
)
"""Characters that look like a letter of ``this machine``, after compatibility normalization and case folding."""

_KEY = re.compile(r"[0-9a-f]{64}")


def signing_key(environ: Mapping[str, str]) -> SigningKey:
    """Return the machine's own key, creating it on first use.

    Raises:
        Unsigned: The key is not available. The message gives the reason and the fix.
    """
    path = _folder(environ) / "signing.pem"
    if (key := _read_key(path)) is not None:
        return key
    pem = SigningKey().pem()
    try:
        return _key(path, create_key_file(path, pem))
    except UnusableKey as error:
        raise Unsigned(str(error)) from error


def key_problem(environ: Mapping[str, str]) -> str:
    """Return why runs cannot be signed here, or an empty string. Does not create a key."""
    try:
        if _read_key(_folder(environ) / "signing.pem") is None:
            SigningKey()
    except Unsigned as error:
        return str(error)
    return ""


def _read_key(path: Path) -> SigningKey | None:
    """Return the key in a file that only its owner can access, or None if the file does not exist."""
    try:
        pem = read_key_file(path)
    except UnusableKey as error:
        raise Unsigned(str(error)) from error
    return None if pem is None else _key(path, pem)


def _key(path: Path, pem: bytes) -> SigningKey:
    try:
        return SigningKey(pem)
    except ValueError as error:
        raise Unsigned(f"{path} is not an Ed25519 key; restore it, or remove it to get a new one") from error


def trusted_keys(environ: Mapping[str, str]) -> dict[str, str]:
    """Return names by public key: the machine's own key if it is usable, and the trusted keys of other people.

    Raises:
        UsageError: The trusted keys cannot be read.
        NoPackage: The package for signatures is not installed.
    """
    try:
        folder = _folder(environ)
        own = _read_key(folder / "signing.pem")
    except NoPackage:
        raise
    except Unsigned:
        own = None
    names = {
        key: f"another machine ({key[:16]})" if _reads_as_own(name) else name
        for key, name in _read_trusted(_trusted_file(environ)).items()
    }
    return {**names, own.public: OWN} if own is not None else names


def trust_key(environ: Mapping[str, str], key: str, name: str | None) -> None:
    """Trust a key under a name. Without a name, stop trusting it.

    Raise UsageError if the key or the name is not valid, or the trusted keys cannot be written.
    """
    if not _KEY.fullmatch(key):
        raise UsageError(f"{key[:80]!a} is not a key; stackmem keys export prints one, with 64 hex digits")
    if name is not None:
        _refuse_name(name)
    path = _trusted_file(environ)
    names = _read_trusted(path)
    if name is None and names.pop(key, None) is None:
        raise UsageError(f"the key {key} is not trusted; stackmem keys list shows those that are")
    if name is not None:
        names[key] = name
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        fresh = path.with_name(f".{secrets.token_hex(6)}")
        write_json(fresh, names)
        fresh.replace(path)
    except OSError as error:
        raise UsageError(
            f"{path} cannot be written ({error.strerror}); free disk space or fix the permissions"
        ) from error


def _refuse_name(name: str) -> None:
    if not name.strip() or not name.isprintable():
        raise UsageError(f"{name[:80]!a} is not a name for a key; write its owner, in one line of plain text")
    if _reads_as_own(name):
        raise UsageError(f"{name[:80]!a} looks like {OWN!r}, the name of this machine's own key; choose another name")


def _reads_as_own(name: str) -> bool:
    """Return whether a user could mistake part of the name for that of the machine's own key."""
    latin = name.replace("\u0397", "H")  # the Greek capital eta looks like H, but its lower case looks like n
    folded = unicodedata.normalize("NFKD", unicodedata.normalize("NFKD", latin).casefold()).translate(_LOOK_ALIKES)
    return _SKELETON in re.sub("[^a-z]", "", folded).replace("rn", "m")


def _read_trusted(path: Path) -> dict[str, str]:
    try:
        names = json.loads(read_regular_text(path))
    except FileNotFoundError:
        return {}
    except (OSError, ValueError, RecursionError) as error:
        raise UsageError(f"{path} cannot be read ({error}); fix or remove it, then trust the keys again") from error
    if not isinstance(names, dict) or not all(_KEY.fullmatch(key) and isinstance(names[key], str) for key in names):
        raise UsageError(f"{path} is not a list of keys; remove it, then trust the keys again")
    return names


def _trusted_file(environ: Mapping[str, str]) -> Path:
    try:
        return _folder(environ) / "trusted.json"
    except Unsigned as error:
        raise UsageError(str(error)) from error


def _folder(environ: Mapping[str, str]) -> Path:
    folder = user_folder(environ, "XDG_STATE_HOME", ".local/state", "keys")
    if folder is None:
        raise Unsigned("neither XDG_STATE_HOME nor HOME is an absolute path; set one, keys are kept there")
    return folder

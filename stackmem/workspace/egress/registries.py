"""Finds the package registries that this machine's pip, npm and apt use, by asking these programs.

Rule 1: A login in a URL stays outside the sandbox: the proxy then uses TLS for this URL and adds the login as a header.
Rule 2: A registry that only resolves to private addresses is pinned to the first one, because the machine trusts it.
"""

from __future__ import annotations

import ast
import base64
import json
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from urllib.parse import unquote, urlsplit

from msgspec import Struct
from msgspec.structs import replace

from stackmem.core.errors import UsageError

from .addresses import public_ones, system_addresses
from .hosts import AllowedHost, host_name, joined
from .network_list import Resolve

Run = Callable[[list[str]], str]
"""Returns the output of a program; empty if it is missing, fails or takes too long."""

_SECONDS = 30
# pip's defaults, read from its internal code because no pip command prints them.
_PIP_DEFAULTS = (
    "from pip._internal.models.index import PyPI as index\n"
    "print(index.simple_url, 'https://' + index.file_storage_domain, sep='\\n')"
)
_PIP_SETTING = re.compile(r"(?P<section>[^.=]+)\.(?P<key>index-url|extra-index-url)=(?P<value>'.*'|\".*\")")
_READABLE = ("/etc/ssl/certs/", "/usr/")
_CERTIFICATES = (
    "SSL_CERT_FILE", "SSL_CERT_DIR", "PIP_CERT", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE", "NODE_EXTRA_CA_CERTS",
    "GIT_SSL_CAINFO", "CARGO_HTTP_CAINFO",
)  # fmt: skip


class Registries(Struct, frozen=True):
    """Settings that the machine's package managers need."""

    hosts: tuple[AllowedHost, ...]
    headers: Mapping[str, tuple[tuple[str, str], ...]]  # maps hosts to the login from their URL, as a header
    variables: Mapping[str, str]  # make the same programs in the sandbox use the same registries


class _Place(Struct, frozen=True):
    """A registry URL: how it is reached, and the URL that programs in the sandbox use."""

    hosts: tuple[AllowedHost, ...]
    url: str
    login: str = ""


def machine_registries(
    environ: Mapping[str, str], run: Run | None = None, resolve: Resolve | None = None
) -> Registries:
    """Find the registries by asking the machine's programs. Raise UsageError if no package manager names a registry."""
    ask = run or (lambda command: _output(command, environ))
    with ThreadPoolExecutor() as at_once:  # in parallel, because each takes about a second
        futures = at_once.submit(_pip, ask), at_once.submit(_npm, ask), at_once.submit(_apt, ask)
        (index, others), npm, apt = futures[0].result(), futures[1].result(), futures[2].result()
    places = {url: registry for url in (*index, *others, *npm) if (registry := _registry(url))}
    hosts = [host for registry in places.values() for host in registry.hosts]
    hosts += [host for url in apt if (registry := _registry(url)) for host in registry.hosts]
    if not hosts:
        raise UsageError("--allow registries: pip, npm and apt on this machine have no registry; list each host")
    variables = {"PIP_DISABLE_PIP_VERSION_CHECK": "1"}
    if len(index) == 1 or any(url in places for url in others):  # otherwise pip's default applies inside too
        variables |= _joined("PIP_INDEX_URL", [places[url] for url in index if url in places][:1])
        variables |= _joined("PIP_EXTRA_INDEX_URL", [places[url] for url in others if url in places])
        variables |= _trusted([registry for url in (*index, *others) if (registry := places.get(url))])
    variables |= _joined("npm_config_registry", [places[url] for url in npm if url in places][:1])
    variables |= {name: environ[name] for name in _CERTIFICATES if environ.get(name, "").startswith(_READABLE)}
    headers = {
        registry.hosts[0].host: (("Authorization", f"Basic {registry.login}"),)
        for registry in places.values()
        if registry.login
    }
    pinned = tuple(dict.fromkeys(_pinned(host, resolve or system_addresses) for host in hosts))
    return Registries(pinned, headers, variables)


def _pip(ask: Run) -> tuple[list[str], list[str]]:
    """Return the index URLs and the extra ones. For pip's default index, the URLs include its file host."""
    for python in (sys.executable, "python3"):
        output = ask([python, "-m", "pip", "config", "list"])
        defaults = ask([python, "-c", _PIP_DEFAULTS]).split()
        if not defaults:
            continue
        index: dict[str, str] = {}
        others: list[str] = []
        for line in output.splitlines():
            if match := _PIP_SETTING.fullmatch(line.strip()):
                value = str(ast.literal_eval(match["value"]))
                if match["key"] == "index-url":
                    index[match["section"]] = value
                else:
                    others += value.split()
        own = next((index[section] for section in (":env:", "install", "global") if section in index), None)
        return ([own] if own else defaults), others
    return [], []


def _npm(ask: Run) -> list[str]:
    try:
        settings = json.loads(ask(["npm", "config", "list", "--json"]) or "{}")
    except ValueError:
        return []
    if not isinstance(settings, dict):
        return []
    values = [settings.get("registry"), *(value for key, value in settings.items() if str(key).endswith(":registry"))]
    return [value for value in values if isinstance(value, str)]


def _apt(ask: Run) -> list[str]:
    return ask(["apt-get", "indextargets", "--format", "$(REPO_URI)"]).split()


def _registry(url: str) -> _Place | None:
    """Parse a registry URL. Returns None if it is not HTTP, for example a folder."""
    try:
        parts = urlsplit(url)
        port = parts.port or {"http": 80, "https": 443}.get(parts.scheme, 0)
        host = host_name(f"[{parts.hostname}]" if ":" in (parts.hostname or "") else parts.hostname or "")
    except ValueError:
        return None
    if parts.scheme not in {"http", "https"} or not host:
        return None
    reading = ("GET", "HEAD")
    bare = parts._replace(netloc=parts.netloc.rpartition("@")[2])
    if parts.username and parts.scheme == "https":
        login = f"{unquote(parts.username)}:{unquote(parts.password or '')}".encode()
        inside = bare._replace(scheme="http", netloc=host if port == 443 else joined(host, port)).geturl()
        seen = AllowedHost("https", host, port, reading)
        return _Place((seen, AllowedHost("tunnel", host, port)), inside, base64.b64encode(login).decode())
    if parts.scheme == "http":
        return _Place((AllowedHost("http", host, port, reading),), bare.geturl())
    return _Place((AllowedHost("tunnel", host, port),), bare.geturl())


def _joined(name: str, places: Iterable[_Place]) -> dict[str, str]:
    urls = " ".join(registry.url for registry in places)
    return {name: urls} if urls else {}


def _trusted(places: Iterable[_Place]) -> dict[str, str]:
    """Return the setting for hosts that use plain HTTP inside, because the proxy adds TLS."""
    names = dict.fromkeys(urlsplit(registry.url).netloc for registry in places if registry.login)
    return {"PIP_TRUSTED_HOST": " ".join(names)} if names else {}


def _pinned(host: AllowedHost, resolve: Resolve) -> AllowedHost:
    try:
        addresses = resolve(host.host, host.port)
    except (OSError, ValueError):
        return host  # the command will get an error about the missing address
    if not addresses or public_ones(addresses):
        return host
    return replace(host, address=addresses[0], address_port=host.port)


def _output(command: list[str], environ: Mapping[str, str]) -> str:
    program = shutil.which(command[0], path=environ.get("PATH"))
    if program is None:
        return ""
    try:
        process = subprocess.run(
            [program, *command[1:]], capture_output=True, text=True, timeout=_SECONDS, check=False, env=dict(environ),
            cwd="/", stdin=subprocess.DEVNULL,
        )  # fmt: skip
    except (OSError, subprocess.SubprocessError, UnicodeDecodeError):
        return ""
    return process.stdout if process.returncode == 0 else ""

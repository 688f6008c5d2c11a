"""Converts the content of an editor's requests: the blocks of a prompt, and the MCP servers of a session."""

from __future__ import annotations

import os
import re
from base64 import b64decode
from collections.abc import Callable, Iterable
from contextlib import suppress
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

from acp import RequestError
from msgspec import Struct

from stackmem.core.conversation.standing import memory_line
from stackmem.core.errors import UsageError
from stackmem.doors.chat.mentions import mentions
from stackmem.foreign.files import read_regular
from stackmem.run.ports import UserFile
from stackmem.settings.mcp_servers import Server

_MAX_COMPARED = 4 << 20
_WRONG_PARAMETERS = -32602
_STRANGE = re.compile(r"[^A-Za-z0-9_-]")
_NAME_CHARS = 30


class Prompt(Struct, frozen=True):
    """A prompt of the user."""

    words: str  # the text, in which links and attachments are names
    attached: tuple[UserFile, ...]  # files and images that the run reads before the next reply
    linked: tuple[str, ...]  # the files of the folder that the prompt links to, relative to the folder


def read_prompt(blocks: list[Any], folder: Path) -> Prompt:
    """Convert the blocks of a prompt. Raise RequestError if a block has a kind or content that cannot be passed on."""
    parts: list[str] = []
    attached: list[UserFile] = []
    linked: list[str] = []
    images = 0
    for block in blocks:
        if block.type == "image":
            images += 1
            parts.append(f"[Image {images}]")
            attached.append(UserFile(f"Image {images}", raw=_decoded(block.data, "an image")))
        elif block.type == "text":
            parts.append(block.text)
        elif block.type == "resource_link":
            path = path_in(block.uri, folder)
            parts.append(f"`{path}`" if path else block.uri)
            linked += [path] if path else []
        elif block.type == "resource":
            name = path_in(block.resource.uri, folder) or block.resource.uri
            parts.append(f"`{name}`")
            attached.append(UserFile(name, raw=_content(block.resource)))
        else:
            raise wrong(f"a prompt may contain text, images, files and links, but not {block.type}")
    words = "".join(parts)
    if not words.strip():
        raise wrong("the prompt is empty")
    return Prompt(words, tuple(attached), tuple(dict.fromkeys(linked)))


def mentioned(words: str, folder: Path, is_file_of_agent: Callable[[str], bool]) -> tuple[list[UserFile], list[str]]:
    """Return the files that the words mention with ``@``, and messages. A line for the kept words mentions none."""
    return ([], []) if memory_line(words) is not None else mentions(words, folder, is_file_of_agent)


def path_in(uri: str, folder: Path) -> str:
    """Return the path of a ``file://`` address relative to the folder; empty for any other address."""
    with suppress(ValueError):
        split = urlsplit(uri)
        path = Path(os.path.normpath(unquote(split.path)))
        if split.scheme == "file" and path.is_relative_to(folder):
            return str(path.relative_to(folder))
    return ""


def is_saved(path: Path, text: str) -> bool:
    """Return whether a file has this text. A file that cannot be read counts as saved, because nothing can differ."""
    try:
        return read_regular(path, _MAX_COMPARED).decode() == text
    except FileNotFoundError:
        return False
    except (OSError, UnicodeDecodeError):
        return True


def editor_servers(entries: Iterable[Any]) -> dict[str, Server]:
    """Return the servers that the editor wants a session to use, by name.

    Raise UsageError if a server is not a process.
    """
    servers: dict[str, Server] = {}
    for each in entries:
        command = getattr(each, "command", "")
        if not command:
            raise UsageError(
                f"the editor's server {each.name[:80]!a} has no command; stackmem starts the editor's servers as "
                "processes, and reaches others if they are in mcp.toml"
            )
        name = f"editor_{_STRANGE.sub('_', each.name)}" if not each.name[:1].isalpha() else _STRANGE.sub("_", each.name)
        name, number = name[:_NAME_CHARS], 1
        while name in servers:
            number += 1
            name = f"{name[: _NAME_CHARS - 3]}_{number}"
        servers[name] = Server(
            command=(command, *each.args), env={variable.name: variable.value for variable in each.env}
        )
    return servers


def wrong(text: str) -> RequestError:
    """Build the error for a request with wrong parameters."""
    return RequestError(_WRONG_PARAMETERS, text)


def _content(resource: Any) -> bytes:
    text = getattr(resource, "text", None)
    return _decoded(resource.blob, "an embedded file") if text is None else text.encode("utf-8", "replace")


def _decoded(data: str, label: str) -> bytes:
    try:
        return b64decode(data, validate=True)
    except ValueError as error:
        raise wrong(f"the data of {label} is not base64") from error

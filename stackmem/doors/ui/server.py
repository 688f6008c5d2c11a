"""Serves the UI on loopback until it is interrupted."""

from __future__ import annotations

import resource
import secrets
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from types import FrameType

import uvicorn

from stackmem.doors.listening.guard import host_names
from stackmem.doors.listening.sockets import LOOPBACK, listening, server_config

from .app import Studio
from .places import Places

_FILES = 16_384  # each connection takes a file descriptor, and connections are not limited otherwise


def serve(folders: Sequence[Path], port: int, ready: Callable[[str], None]) -> list[str]:
    """Serve until SIGINT or SIGTERM, and return the commands that were still running and were interrupted."""
    studio = Studio(Places(folders))
    token = secrets.token_urlsafe(24)
    with listening(LOOPBACK, port) as listener:
        port = listener.getsockname()[1]
        _allow_files()
        app = studio.app(token, host_names(port))
        config = server_config(app, lifespan="off", timeout_graceful_shutdown=2)
        threading.Thread(target=studio.watch, daemon=True).start()
        ready(f"http://{LOOPBACK}:{port}/{token}/")
        with suppress(KeyboardInterrupt):  # Ctrl-C is the normal way to stop the server
            _Server(config, studio.stop).run(sockets=[listener])
    return studio.close()


class _Server(uvicorn.Server):
    """Ends its streams before it shuts down; otherwise it would wait for open pages to disconnect."""

    def __init__(self, config: uvicorn.Config, stop: Callable[[], None]) -> None:
        super().__init__(config)
        self._stop = stop

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        self._stop()
        super().handle_exit(sig, frame)


def _allow_files() -> None:
    now, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    limit = _FILES if most == resource.RLIM_INFINITY else min(_FILES, most)
    if now != resource.RLIM_INFINITY and now < limit:
        resource.setrlimit(resource.RLIMIT_NOFILE, (limit, most))

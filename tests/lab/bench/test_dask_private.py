"""The cluster that ``--engine dask`` starts on this machine serves only the bench that started it."""

import os
import re
import socket
import ssl
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from stackmem.core.errors import UsageError
from stackmem.foreign.installing import install_command
from stackmem.lab.bench.engine_dask import DaskEngine
from stackmem.lab.bench.results import read_results
from tests.stage import ROOT
from tests.workspace.people import NOBODY, as_user

from .benches import benched, planned, small_tasks

ENGINE = """
import sys
from stackmem.lab.bench.engine_dask import DaskEngine
engine = DaskEngine(None, 2)
print(engine._client.scheduler.address, flush=True)
sys.stdin.read()
engine.close()
"""


class Listeners:
    """The ports of an engine's processes, and its scheduler's address."""

    def __init__(self, engine: subprocess.Popen[str]) -> None:
        assert engine.stdout is not None
        self.scheduler = engine.stdout.readline().strip()
        own = psutil.Process(engine.pid)
        self.processes = [own, *own.children(recursive=True)]
        open_ = [one for process in self.processes for one in process.net_connections("inet")]
        self.places = sorted({(one.laddr.ip, one.laddr.port) for one in open_ if one.status == psutil.CONN_LISTEN})


@pytest.fixture(scope="module")
def listeners() -> Iterator[Listeners]:
    with subprocess.Popen(
        [sys.executable, "-c", ENGINE], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        env=os.environ | {"PYTHONPATH": str(ROOT)},
    ) as engine:  # fmt: skip
        yield Listeners(engine)


def bytes_from(place: tuple[str, int], context: ssl.SSLContext | None, request: bytes) -> bytes:
    """Return a listener's answer without its TLS alerts."""
    try:
        with socket.create_connection(place, timeout=3) as plain:
            stream = plain if context is None else context.wrap_socket(plain, server_hostname="dask-internal")
            stream.sendall(request)
            answer = stream.recv(1000)
    except OSError:  # ssl.SSLError and timeouts are subclasses
        return b""
    return b"" if context is None and answer[:1] == b"\x15" else answer


def strangers() -> dict[str, ssl.SSLContext | None]:
    """Return the ways in which clients without the credentials try to connect."""
    from distributed import Security

    anonymous = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    foreign = Security.temporary().get_connection_args("client")["ssl_context"]
    for context in (anonymous, foreign):
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    return {"plain": None, "no certificate": anonymous, "other certificate": foreign}


def test_no_other_user_gets_an_answer_from_any_listener(listeners: Listeners):
    assert len(listeners.places) >= 5  # scheduler, two nannies, two workers
    assert {host for host, _ in listeners.places} == {"127.0.0.1"}
    clients, request = strangers(), b"GET /info/main/workers.html HTTP/1.0\r\n\r\n"

    def attack() -> list[tuple[str, int, bytes]]:
        tried = [(name, place, context) for place in listeners.places for name, context in clients.items()]
        answers = [(name, place[1], bytes_from(place, context, request)) for name, place, context in tried]
        return [answer for answer in answers if answer[2]]

    assert (as_user(NOBODY, attack) if os.geteuid() == 0 else attack()) == []


def test_a_client_of_other_credentials_runs_nothing(listeners: Listeners):
    from distributed import Client, Security

    for address, security in (
        (listeners.scheduler, Security.temporary()),
        (listeners.scheduler.replace("tls://", "tcp://"), None),
    ):
        with pytest.raises(OSError, match=r"Timed out|TLS certificate does not match|reset by peer"):
            Client(address, security=security, timeout=2)


def test_the_folders_of_workers_are_closed_to_others_and_gone_afterwards(listeners: Listeners):
    folders = {
        name for one in listeners.processes for name in re.findall(r"\S*stackmem-dask-\w+", str(one.open_files()))
    }
    assert folders
    for folder in folders:
        assert Path(folder[folder.index("/") :]).stat().st_mode & 0o077 == 0


def test_trials_are_made_without_a_scheduler(stage, tmp_path):
    benched(planned(*small_tasks(stage, "one")), tmp_path / "bench", engine="dask")
    assert {row["outcome"] for row in read_results(tmp_path / "bench")} == {"solved"}


def test_without_cryptography_one_sentence_says_how_to_get_it(monkeypatch):
    monkeypatch.setitem(sys.modules, "cryptography", None)
    with pytest.raises(UsageError, match=re.escape(install_command("dask"))):
        DaskEngine(None, 1)

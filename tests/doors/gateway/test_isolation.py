"""An agent in its own network reaches only the gateway, whatever it tries."""

import json
import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from stackmem.doors.gateway.isolation import socket_files
from stackmem.workspace.overlay.mount import make_private_network
from tests.doors.gateway.test_gateway_command import AGENT
from tests.providers.server import MessagesServer, calls, says
from tests.stage import Stage

ATTEMPTS = """
import ctypes, json, os, socket, subprocess, sys
port, path, outside, out = int(sys.argv[1]), sys.argv[2], sys.argv[3], sys.argv[4]
libc, results = ctypes.CDLL(None, use_errno=True), {}

def checked(number):
    if number != 0:
        raise OSError(ctypes.get_errno(), "refused")

def unix(address):
    with socket.socket(socket.AF_UNIX) as client:
        client.connect(address)

def enter(kind, number):
    with open(f"/proc/{outside}/ns/{kind}") as file:
        checked(libc.setns(file.fileno(), number))

def send(host):
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as client:
        client.sendto(b"x", (host, 53))

def unmount():
    checked(libc.umount2(path.encode(), 2))
    unix(path)

def own_namespaces():
    checked(libc.unshare(0x10000000 | 0x00020000))
    unmount()

attempts = {
    "loopback": lambda: socket.create_connection(("127.0.0.1", port), 5),
    "loopback, IPv6": lambda: socket.create_connection(("::1", port), 5),
    "address": lambda: socket.create_connection(("192.0.2.1", 80), 5),
    "packet": lambda: send("192.0.2.1"),
    "socket file": lambda: unix(path),
    "abstract socket": lambda: unix("\\0" + path),
    "network of another process": lambda: enter("net", 0),
    "user namespace of another process": lambda: enter("user", 0),
    "memory of another process": lambda: open(f"/proc/{outside}/mem", "r+b"),
    "unmounting": unmount,
    "new namespaces": own_namespaces,
}
for name, attempt in attempts.items():
    try:
        attempt()
    except OSError:
        results[name] = "refused"
    else:
        results[name] = "possible"
open(out, "w").write(json.dumps(results))
"""


@pytest.fixture(scope="module", autouse=True)
def _namespaces() -> None:
    try:
        view, listener = make_private_network(1, ())
    except OSError as error:
        pytest.skip(f"this system does not allow user namespaces ({error})")
    view.close()
    os.close(listener)


def test_an_isolated_agent_works_through_the_gateway(stage: Stage) -> None:
    with MessagesServer(calls("run", {}, thought="I look."), says("One file.")) as server:
        ran = stage.run("gateway", "run", "--isolate-network", "--", sys.executable, "-c", AGENT, env=server.environ)
    assert (ran.returncode, ran.stdout) == (7, "One file.\n")
    (run,) = stage.runs.iterdir()
    assert f"{run.name}: 2 steps" in ran.stderr
    assert "events follow from the gateway's log" in stage.call("replay", run).stdout


def test_nothing_but_the_gateway_is_reachable(stage: Stage, tmp_path: Path) -> None:
    path, out = str(tmp_path / "s"), tmp_path / "results.json"
    with (
        socket.create_server(("127.0.0.1", 0)) as server,
        socket.socket(socket.AF_UNIX) as file,
        socket.socket(socket.AF_UNIX) as abstract,
        subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as outside,
    ):
        file.bind(path)
        abstract.bind(f"\0{path}")
        file.listen()
        abstract.listen()
        port = server.getsockname()[1]
        agent = (sys.executable, "-c", ATTEMPTS, str(port), path, str(outside.pid), str(out))
        results = {}
        for flags in ((), ("--isolate-network",)):
            terms = ("--upstream", "http://127.0.0.1:1", "--allow-no-requests", *flags)
            ran = stage.run("gateway", "run", *terms, "--", *agent)
            assert ran.returncode == 0, ran.stderr
            results[bool(flags)] = json.loads(out.read_text())
        outside.communicate(b"\n")
    assert set(results[True].values()) == {"refused"}, results[True]
    assert {results[False][name] for name in ("loopback", "socket file", "abstract socket")} == {"possible"}


def test_the_agent_keeps_its_folder_its_user_and_its_exit_code(stage: Stage) -> None:
    agent = ("sh", "-c", "pwd; id -u; exit 5")
    ran = stage.run("gateway", "run", "--upstream", "http://127.0.0.1:1", "--isolate-network", "--", *agent)
    assert (ran.returncode, ran.stdout.split()[-1]) == (5, str(os.getuid()))
    plain = stage.run("gateway", "run", "--upstream", "http://127.0.0.1:1", "--", *agent)
    assert plain.stdout == ran.stdout
    missing = stage.run("gateway", "run", "--isolate-network", "--", "no-such-agent")
    assert missing.returncode == 2
    assert "no-such-agent cannot be started" in missing.stderr


def test_a_system_without_namespaces_is_named_and_the_agent_does_not_start(stage: Stage, tmp_path: Path) -> None:
    words = ("gateway", "run", "--isolate-network", "--", "touch", str(tmp_path / "started"))
    limit = 'echo 0 > /proc/sys/user/max_user_namespaces && exec "$@"'
    command = ["unshare", "-U", "-r", "sh", "-c", limit, "sh", sys.executable, "-m", "stackmem", *words]
    ran = subprocess.run(command, capture_output=True, text=True, check=False, cwd=stage.root, timeout=120)
    assert ran.returncode == 5, ran.stderr
    assert "--isolate-network needs user and network namespaces, which cannot be created here" in ran.stderr
    assert not (tmp_path / "started").exists()


def test_sockets_named_by_variables_are_found(tmp_path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as file:
        file.bind(str(tmp_path / "docker.sock"))
        (tmp_path / "file").write_text("")
        environ = {"DOCKER_HOST": f"unix://{tmp_path}/docker.sock", "A": str(tmp_path / "file"), "B": "unix:\0"}
        found = socket_files(environ)
    assert str((tmp_path / "docker.sock").resolve()) in found
    assert str(tmp_path / "file") not in found

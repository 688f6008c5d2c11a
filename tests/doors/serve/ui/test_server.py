"""The server as a process: prints its address, listens only on loopback, and ends on Ctrl-C."""

import re
import resource
import signal
import socket
import urllib.request
from pathlib import Path

from tests.stage import pop


def test_it_prints_its_address_and_ctrl_c_ends_it(stage, serve):
    stage.solve(stage.task(pop()))
    address, process = serve(stage.runs)
    assert re.fullmatch(r"http://127\.0\.0\.1:\d+/[\w-]{32}/", address)
    with urllib.request.urlopen(address + "changes") as stream:  # an open page does not delay it
        assert stream.readline() == b"event: changed\n"
        process.send_signal(signal.SIGINT)
        assert process.wait(60) == 0
    assert "Traceback" not in process.stderr.read()


def test_it_listens_on_loopback_alone(stage, serve):
    address, _ = serve(stage.elsewhere)
    port = int(address.split(":")[2].split("/")[0])
    table = Path("/proc/net/tcp").read_text("utf-8").splitlines()
    listening = {line.split()[1] for line in table if line.split()[3] == "0A"}
    assert {one for one in listening if one.endswith(f":{port:04X}")} == {f"0100007F:{port:04X}"}


def test_a_thousand_idle_connections_do_not_stop_it(stage, serve):
    address, _ = serve(stage.elsewhere)
    port = int(address.split(":")[2].split("/")[0])
    files, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(files, min(most, 4_096)), most))
    idle = [socket.create_connection(("127.0.0.1", port)) for _ in range(1_000)]
    for one in idle[::3]:
        one.send(b"GET / HTTP/1.1\r\nHost: ")
    with urllib.request.urlopen(address + "rows") as answer:
        assert answer.status == 200
    for one in idle:
        one.close()
    resource.setrlimit(resource.RLIMIT_NOFILE, (files, most))


def test_folders_that_cannot_be_served_are_reported(stage):
    told = stage.call("ui", stage.root / "gone")
    assert (told.returncode, told.stdout) == (2, "")
    assert "no folder" in told.stderr
    with socket.create_server(("127.0.0.1", 0)) as taken:
        told = stage.call("ui", stage.elsewhere, "--port", taken.getsockname()[1])
    assert told.returncode == 2
    assert "choose another port with --port" in told.stderr

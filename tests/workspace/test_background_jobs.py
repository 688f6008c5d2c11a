"""Background jobs: the limits of one command hold for all jobs together with commands, and no job outlives its end."""

import socket
import threading
import time

import pytest

from stackmem.workspace.jobs.log import HEAD_BYTES, TAIL_BYTES, JobLog
from stackmem.workspace.outcome import ToolOutcome
from stackmem.workspace.workspace import Workspace
from tests.workspace.listed import network, serving
from tests.workspace.sandboxes import ALL, CONTAINED, hostile, sh

SHOWN = 2_000
REFUSED = ("landlock", "none")


def start(workspace: Workspace, command: str) -> ToolOutcome:
    return workspace.start_job(command, None, SHOWN)


def ended(workspace: Workspace, number: int, seconds: float = 30) -> str:
    return workspace.jobs.read(number, None, seconds, SHOWN).text


@hostile(*CONTAINED, moot=REFUSED)
def test_a_job_serves_later_commands(place, level, opened):
    ask = "exec 3<>/dev/tcp/127.0.0.1/8080; printf 'GET / HTTP/1.0\\r\\n\\r\\n' >&3; head -1 <&3"
    with opened(place, level) as workspace:
        start(workspace, "python3 -u -m http.server 8080")
        texts = [sh(workspace, ask).text for _ in range(5)]
    assert all(text.startswith("HTTP/1.0 200 OK") for text in texts), texts


@hostile(*CONTAINED, moot=REFUSED)
def test_a_download_of_a_job_does_not_end_with_other_commands(place, level, opened):
    """Regression test: the proxy of whichever command accepted the connection ended it with the command."""
    piece, pieces = b"x" * 1_000, 25
    down = (
        "python3 -c 'import urllib.request as r, sys; "
        'sys.stdout.write(str([len(r.urlopen("http://web.test/").read()) for _ in range(2)]))\''
    )

    def slow(connection: socket.socket) -> None:
        connection.recv(65536)
        connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % (len(piece) * pieces))
        for _ in range(pieces):
            time.sleep(0.03)
            connection.sendall(piece)

    with serving(slow) as host:
        listed = network(f"http://web.test=127.0.0.1:{host.port}")
        with opened(place, level, network="list", network_list=listed) as workspace:
            for _ in range(2):
                start(workspace, down)
            asked = sh(workspace, "curl -s --max-time 1 http://web.test/ | wc -c; echo $http_proxy")
            for _ in range(4):
                assert sh(workspace, "true").requests == ()
            texts = [ended(workspace, number) for number in (1, 2)]
            requests = [job.ended.requests for job in workspace.jobs._jobs.values() if job.ended]
    size = len(piece) * pieces
    assert all(f"[{size}, {size}]" in text for text in texts), texts
    assert "http://127.0.0.1:3128" in asked.text
    assert [[(each.host, each.count) for each in of_job] for of_job in requests] == [[("web.test", 2)]] * 2


@hostile(*CONTAINED, moot=REFUSED)
def test_a_fork_bomb_in_a_job_is_bounded_and_commands_go_on(place, level, opened):
    with opened(place, level, process_limit=200) as workspace:
        start(workspace, ":(){ :|:& };:; sleep 60")
        bounds = ("more processes than a command may", "Resource temporarily unavailable")
        text, until = "", time.monotonic() + 20
        while not any(bound in text for bound in bounds) and time.monotonic() < until:
            text += ended(workspace, 1, 3)  # the kernel refuses processes, or the watchdog kills the job
        assert any(bound in text for bound in bounds), text
        assert sh(workspace, "echo well").text == "well\n[exit 0]"
        workspace.jobs.stop(1, SHOWN)
        assert workspace.jobs.running == ()


@hostile(*CONTAINED, moot=REFUSED)
def test_a_fork_bomb_in_a_command_is_bounded_and_commands_go_on(place, level, opened):
    bounds = ("more processes than a command may", "Resource temporarily unavailable")
    with opened(place, level, process_limit=200) as workspace:
        text = sh(workspace, ":(){ :|:& };:; sleep 3").text
        assert any(bound in text for bound in bounds), text
        assert sh(workspace, "echo well").text == "well\n[exit 0]"


@hostile(*CONTAINED, moot=REFUSED)
def test_jobs_that_together_take_too_many_processes_are_killed_until_they_fit(place, level, opened):
    with opened(place, level, process_limit=100) as workspace:
        for _ in range(4):
            start(workspace, "for i in $(seq 40); do sleep 60 & done; wait")
        deadline = time.monotonic() + 20
        while len(workspace.jobs.running) > 2 and time.monotonic() < deadline:
            time.sleep(0.1)
        assert 1 <= len(workspace.jobs.running) <= 2
        assert sh(workspace, "echo well").text == "well\n[exit 0]"


@hostile(*CONTAINED, moot=REFUSED)
def test_jobs_that_together_take_too_much_memory_are_killed_until_they_fit(place, level, opened):
    fill = "python3 -c 'import time; block = b\"x\" * (100 << 20); time.sleep(60)'"
    with opened(place, level, memory_mib=250) as workspace:
        for _ in range(3):
            start(workspace, fill)
        deadline = time.monotonic() + 20
        while len(workspace.jobs.running) > 2 and time.monotonic() < deadline:
            time.sleep(0.1)
        assert 1 <= len(workspace.jobs.running) <= 2


@hostile(*CONTAINED, moot=REFUSED)
def test_a_job_that_prints_10_gb_is_killed_and_fills_no_memory(place, level, opened):
    with opened(place, level) as workspace:
        start(workspace, "head -c 10G /dev/zero | tr '\\0' x")
        assert "it printed too much" in ended(workspace, 1)
        log = workspace.jobs._jobs[1].log
        assert sum(len(piece) for _, piece in log._pieces) < 2 * TAIL_BYTES


@hostile(*CONTAINED, moot=REFUSED)
def test_a_job_that_ignores_sigterm_is_killed(place, level, opened):
    with opened(place, level) as workspace:
        start(workspace, "trap '' TERM; while true; do sleep 0.1; done")
        begun = time.monotonic()
        assert "stopped; everything it started was killed" in workspace.jobs.stop(1, SHOWN).text
        assert 2.5 < time.monotonic() - begun < 20


@hostile(*CONTAINED, moot=REFUSED)
def test_a_job_that_heeds_sigterm_can_clean_up(place, level, opened):
    with opened(place, level) as workspace:
        workspace.report_left()
        start(workspace, "trap 'sleep 0.5; echo clean; exit 7' TERM; while true; do sleep 0.1; done")
        assert "clean\n[job 1 ended: exit 7" in workspace.jobs.stop(1, SHOWN).text


@hostile(*CONTAINED, moot=REFUSED)
def test_a_job_that_closes_its_output_still_runs(place, level, opened):
    with opened(place, level) as workspace:
        start(workspace, "exec >&- 2>&-; sleep 1.5; touch done")
        assert workspace.jobs.running == (1,)
        assert "[job 1 ended: exit 0" in ended(workspace, 1)
        assert sh(workspace, "ls").text == "done\n[exit 0]"


@hostile(*CONTAINED, moot=REFUSED)
def test_a_job_may_end_while_it_is_stopped(place, level, opened):
    with opened(place, level) as workspace:
        for number in range(1, 6):
            start(workspace, "sleep 0.6")
            stops = [threading.Thread(target=workspace.jobs.stop, args=(number, SHOWN)) for _ in range(2)]
            for stop in stops:
                stop.start()
            for stop in stops:
                stop.join()
        assert workspace.jobs.running == ()
        assert workspace.jobs.news() == ()


@hostile(*CONTAINED, moot=REFUSED)
def test_closing_the_workspace_ends_every_job(place, level, opened):
    with opened(place, level) as workspace:
        for _ in range(20):
            start(workspace, "setsid sleep 60 & sleep 60")
        jobs = list(workspace.jobs._jobs.values())
        assert len(workspace.jobs.running) == 20
        assert "32 jobs" not in start(workspace, "true").text
    assert all(job.process is not None and job.process.returncode is not None for job in jobs)


@hostile(*CONTAINED, moot=REFUSED)
def test_git_made_during_a_job_stops_commands_instead_of_losing_its_guard(place, level, opened):
    with opened(place, level) as workspace:
        start(workspace, "sleep 60")
        sh(workspace, "mkdir .git; echo x > .git/config")
        text = sh(workspace, "echo well").text
        if workspace.place.__self__._level.mounts:
            assert "end the job with stop_job" in text
            workspace.jobs.stop(1, SHOWN)
        assert sh(workspace, "echo well").text == "well\n[exit 0]"


@hostile(*ALL)
def test_a_command_that_left_processes_behind_says_so(place, level, opened):
    with opened(place, level) as workspace:
        workspace.report_left()
        text = sh(workspace, "(setsid sleep 60 > /dev/null 2>&1 &); echo well").text
        alone = sh(workspace, "echo well").text
    assert alone == "well\n[exit 0]"
    assert text.startswith("well\n(")


@pytest.mark.parametrize("size", [1, 100, 70_000])
def test_a_log_keeps_its_beginning_and_its_end(size: int):
    log, whole = JobLog(), bytearray()
    while log.total < 3 * TAIL_BYTES // 2:
        piece = (b"%d " % log.total) * max(1, size // 8)
        log.take(piece)
        whole += piece
    assert log.read(0, 10).content == whole[:10]
    assert log.read(HEAD_BYTES - 3, 3).content == whole[HEAD_BYTES - 3 : HEAD_BYTES]
    assert log.read(-50, 50).content == whole[-50:]
    part = log.read(HEAD_BYTES + 5, 100)
    assert part.dropped > 0
    assert part.content == whole[part.start : part.end]
    assert log.read(10 * TAIL_BYTES, 100).content == b""


def test_a_log_is_read_while_it_grows():
    log, stop, digits = JobLog(), threading.Event(), b"0123456789"

    def write() -> None:
        while not stop.is_set():
            log.take(digits * 100)

    writer = threading.Thread(target=write)
    writer.start()
    try:
        for _ in range(200):
            part = log.read(-5_000, 4_000)
            assert part.content == (digits * 500)[part.start % 10 :][: len(part.content)]
    finally:
        stop.set()
        writer.join()

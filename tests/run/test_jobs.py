"""Runs with background jobs: their network, how long they live, and what the trace records of them."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path
from typing import Any

import pytest

import stackmem
from stackmem.core.errors import UsageError
from stackmem.core.facts import FramePopped, JobsEnded, NoticeGiven, ToolReturned
from stackmem.core.person_facts import SessionRules
from stackmem.run.fork import ForkChanges, fork
from stackmem.run.resume import resume
from tests.campaigns import LONG, Campaign
from tests.conftest import CAMPAIGN
from tests.run.killed import dies
from tests.run.people import Scripted, talk
from tests.stage import Stage, call, events, eventually, mounted, pop, push

pytestmark = mounted
# A server that has just been started is tried for a while: on a busy machine it begins to listen late.
GET = (
    "for try in {1..200}; do exec 3<>/dev/tcp/127.0.0.1/8080 && break; sleep 0.05; done 2>/dev/null;"
    " printf 'GET / HTTP/1.0\\r\\n\\r\\n' >&3; head -1 <&3"
)
# The kernel may reuse the number of a network in /proc after it ended. It never reuses SO_NETNS_COOKIE.
NETWORK = "python3 -c 'import socket; print(socket.socket().getsockopt(socket.SOL_SOCKET, 71, 8).hex())'"
SERVER = "python3 -u -m http.server 8080"
SOLVE = """
import os, signal, sys, stackmem
left = int(sys.argv[1])
def observe(event, state):
    global left
    left -= 1
    if left == 0:
        os.kill(os.getpid(), signal.SIGKILL)
stackmem.solve(sys.argv[2], "Serve.", observe=observe, **dict(word.split("=", 1) for word in sys.argv[3:]))
"""


def job(text: str, **more: Any) -> dict[str, Any]:
    return call("run_command", command=text, background=True, **more)


def solved(stage: Stage, *replies: dict[str, Any], **settings: Any) -> list[str]:
    """Return the results of the calls of a run in a folder of the user, which must replay."""
    folder = stage.root / "mine"
    folder.mkdir(exist_ok=True)
    result = stage.solve(folder, "Serve.", **{"model": stage.script(*replies), "strategy": "full", **settings})
    assert result.outcome == "finished", result.failure
    assert stackmem.replay(result.run_dir).prompts == result.steps
    return [event.text for event in events(result.run_dir, ToolReturned)]


def alive(mark: str) -> list[str]:
    """Return the processes of this machine whose command line has a word."""
    found = []
    for name in filter(str.isdecimal, os.listdir("/proc")):
        try:
            if mark.encode() in Path(f"/proc/{name}/cmdline").read_bytes():
                found.append(name)
        except OSError:
            pass
    return found


def listening() -> set[int]:
    """Return the TCP ports of this machine that a process listens on."""
    lines = [
        line.split() for name in ("tcp", "tcp6") for line in Path(f"/proc/net/{name}").read_text().splitlines()[1:]
    ]
    return {int(line[1].rpartition(":")[2], 16) for line in lines if line[3] == "0A"}


def test_a_server_started_in_one_step_answers_in_the_next_five(stage: Stage):
    wait = call("run_command", command="sleep 1")  # what the server prints arrives after its answer
    gets = [call("run_command", command=GET)] * 5
    texts = solved(stage, job(SERVER), *gets, wait, call("read_job", job=1), pop())
    assert [text.splitlines()[0] for text in texts[1:6]] == ["HTTP/1.0 200 OK"] * 5
    assert texts[7].count("GET / HTTP/1.0") == 5


def test_two_runs_do_not_see_each_others_ports(stage: Stage):
    texts = solved(stage, job(SERVER), call("run_command", command=GET), pop())
    assert "HTTP/1.0 200 OK" in texts[1]
    other = solved(stage, job("sleep 100"), call("run_command", command="exec 3<>/dev/tcp/127.0.0.1/8080"), pop())
    assert "Connection refused" in other[1]


def test_the_end_of_a_job_is_told_once(stage: Stage):
    wait = call("run_command", command="sleep 1.5")
    result_texts = solved(stage, job("sleep 1; echo late; exit 3"), wait, wait, pop())
    (ended,) = events(stage.only_run(), JobsEnded)
    assert ended.jobs[0].how.startswith("ended: exit 3, after 1.")
    assert ended.jobs[0].tail == "late\n"
    assert len(result_texts) == 3


def test_a_read_that_shows_the_end_is_not_told_again(stage: Stage):
    texts = solved(stage, job("sleep 1; echo late"), call("read_job", job=1, seconds=30), call("list_jobs"), pop())
    assert "late\n[job 1 ended: exit 0, after 1." in texts[1]
    assert "1  ended: exit 0" in texts[2]
    assert events(stage.only_run(), JobsEnded) == []


def test_a_suite_longer_than_a_command_may_take_finishes(stage: Stage):
    slow = "for i in 1 2 3 4; do sleep 1; echo test $i passed; done"
    texts = solved(
        stage, call("run_command", command=slow), job(slow), call("read_job", job=1, seconds=60), pop(),
        command_seconds=2.0,
    )  # fmt: skip
    assert "timed out after 2 s" in texts[0]
    assert "test 4 passed\n[job 1 ended: exit 0" in texts[2]


@LONG
def test_a_suite_of_150_seconds_finishes_in_a_conversation(stage: Stage):
    """In the foreground if the agent asks for the time, and as a job that is read until it ends."""
    seconds = 150 if CAMPAIGN else 1
    suite = f"for i in $(seq {seconds}); do sleep 1; echo test $i passed; done; echo all {seconds} passed"
    read = call("read_job", job=1, seconds=300)
    foreground = call("run_command", command=suite, seconds=seconds + 60)
    ways = ((foreground, {"text": "It passed."}), (job(suite), read, {"text": "It passed."}))
    campaign = Campaign("test suites of 150 s in a conversation", len(ways), saved_every=1)
    for number in campaign:
        begun = time.monotonic()
        script = stage.script(*ways[number], name=f"{number}.yaml")
        result = talk(stage, Scripted("Run the tests."), script, SessionRules("flat"), strategy="full")
        text = events(result.run_dir, ToolReturned)[-1].text
        assert f"test {seconds} passed\nall {seconds} passed\n" in text
        assert "exit 0" in text
        counts = campaign.progress.counts
        counts["suites finished"] = counts.get("suites finished", 0) + 1
        counts["seconds passed"] = counts.get("seconds passed", 0) + round(time.monotonic() - begun)


def test_a_job_ends_with_the_frame_that_started_it(stage: Stage):
    mark = f"31{os.getpid()}"
    child = push("serve"), job(f"sleep {mark}"), pop("Served.")
    texts = solved(stage, *child, call("list_jobs"), pop(), strategy="stackheap", checkpoints="off")
    assert "ended: stopped" in texts[1]
    assert not alive(mark)


def test_a_job_handed_to_the_parent_lives_on(stage: Stage):
    child = push("serve"), job(SERVER), call("keep_job", job=1), pop("Served.")
    texts = solved(
        stage, *child, call("run_command", command=GET), call("stop_job", job=1), pop(),
        strategy="stackheap", checkpoints="off",
    )  # fmt: skip
    assert "HTTP/1.0 200 OK" in texts[1]
    assert "[job 1 ended: exit 143" in texts[2]  # it heeds SIGTERM
    assert len(events(stage.only_run(), FramePopped)) == 2


def test_the_root_has_no_parent_to_hand_a_job_to(stage: Stage):
    replies = job("sleep 100"), call("keep_job", job=1), call("keep_job", job=7), pop()
    solved(stage, *replies, strategy="stackheap", checkpoints="off")
    refused = [event.reason for event in events(stage.only_run()) if type(event).__name__ == "CallRejected"]
    assert refused[0].endswith("this frame has no parent; its jobs run until the run ends")
    assert refused[1].endswith("no job 7 runs; running jobs: 1")


def test_in_a_conversation_a_job_of_a_flat_strategy_lives_across_requests(stage: Stage):
    script = stage.script(job(SERVER), {"text": "Started."}, call("run_command", command=GET), {"text": "Works."})
    result = talk(stage, Scripted("Start it.", "Try it."), script, SessionRules("flat"), strategy="full")
    texts = [event.text for event in events(result.run_dir, ToolReturned)]
    assert "HTTP/1.0 200 OK" in texts[1]
    assert stackmem.replay(result.run_dir).prompts == 4


def test_twenty_abandoned_jobs_leave_no_process_no_port_and_no_file(stage: Stage):
    mark = f"32{os.getpid()}"
    ports = range(42_000, 42_020)

    def server(port: int) -> dict[str, Any]:
        files = " ".join(f"{place}/{mark}-{port}" for place in ("/tmp", "/dev/shm", "$HOME"))
        return job(f"touch {files}; python3 -m http.server {port} & sleep {mark} & sleep {mark}")

    before = listening()
    ask = call("run_command", command=GET.replace("8080", "42019"))
    texts = solved(stage, *map(server, ports), ask, pop())
    assert texts[20].startswith("HTTP/1.0 200 OK")
    assert not alive(mark)
    assert not (listening() - before) & set(ports)
    places = (Path("/tmp"), Path("/dev/shm"), Path.home(), stage.root, stage.work)
    assert [path for place in places if place.is_dir() for path in place.glob(f"{mark}*")] == []
    assert set(stage.left_behind()) == {stage.only_run().name}


def test_kill_9_leaves_no_process_and_no_port(stage: Stage):
    mark = f"33{os.getpid()}"
    folder = stage.root / "mine"
    folder.mkdir()
    script = stage.script(job(SERVER), *[job(f"nohup setsid sleep {mark} & sleep {mark}")] * 19, pop())
    # the start, and a reply and a result for each job
    settings = [f"model={script}", f"runs_dir={stage.runs}", f"sandbox_dir={stage.work}", "strategy=full"]
    assert dies(stage, SOLVE, 41, folder, *settings)
    eventually(lambda: not alive(mark), 10)


def test_after_a_resume_the_jobs_are_gone_and_the_agent_is_told(stage: Stage):
    folder = stage.root / "mine"
    folder.mkdir()
    script = stage.script(
        job("sleep 1000"), call("run_command", command="true"), call("read_job", job=1), job("echo again"), pop()
    )
    settings = [f"model={script}", f"runs_dir={stage.runs}", f"sandbox_dir={stage.work}", "strategy=full"]
    assert dies(stage, SOLVE, 5, folder, *settings)
    run = stage.only_run()
    assert resume(run, {}, os.environ).outcome == "finished"
    (notice,) = [event for event in events(run, NoticeGiven) if event.code == "jobs:lost"]
    assert "1 `sleep 1000`" in notice.text
    texts = [event.text for event in events(run, ToolReturned)]
    assert texts[2].startswith("unknown job 1")
    assert "again\n[job 2 ended" in texts[3]
    assert stackmem.replay(run).prompts == 5


def test_a_fork_has_no_jobs_and_says_so(stage: Stage):
    solved(stage, job("sleep 1000"), call("run_command", command="true"), pop())
    before = set(stage.runs.iterdir())
    model = stage.script(call("read_job", job=1), pop(), name="other.yaml")
    result = fork(next(iter(before)), 2, ForkChanges(model=model), os.environ)
    run = Path(result.result.run_dir)
    assert any(event.code == "jobs:lost" for event in events(run, NoticeGiven))
    assert stackmem.replay(run).prompts >= 2


def test_tasks_have_no_jobs_unless_asked(stage: Stage):
    task = stage.task(pop())
    for settings, offered in ({}, False), ({"jobs": "on"}, True):
        result = stage.solve(task, **settings)
        names = [tool.name for tool in events(result.run_dir)[0].tools]
        assert ("read_job" in names) is offered


def test_a_level_that_does_not_bound_jobs_has_none(stage: Stage):
    folder = stage.root / "mine"
    folder.mkdir()
    model = stage.script(pop())
    result = stage.solve(folder, "Serve.", model=model, isolation="none")
    assert "read_job" not in [tool.name for tool in events(result.run_dir)[0].tools]
    with pytest.raises(UsageError, match="background jobs are not available at isolation none, because"):
        stage.solve(folder, "Serve.", model=model, isolation="none", jobs="on")


def test_a_run_without_jobs_keeps_a_network_of_its_own_for_each_command(stage: Stage):
    same = call("run_command", command=NETWORK)
    texts = solved(stage, same, same, pop())
    assert texts[0] != texts[1]
    texts = solved(stage, job("sleep 100"), same, same, pop())
    assert texts[1] == texts[2]


@pytest.mark.parametrize("seconds", [0, 24 * 3600 + 1])
def test_a_life_out_of_range_is_refused(stage: Stage, seconds: int):
    folder = stage.root / "mine"
    script = stage.script(job("true", seconds=seconds), {"text": "So."})
    folder.mkdir()
    result = talk(stage, Scripted("Start it."), script, SessionRules("flat"), strategy="full")
    (refused,) = [event for event in events(result.run_dir) if type(event).__name__ == "CallRejected"]
    assert refused.reason == f"run_command refused: seconds is {seconds}; use 1 to 86400, or leave it out"


def test_ctrl_c_while_a_job_is_awaited_ends_the_run_and_the_job(stage: Stage):
    mark = f"34{os.getpid()}"
    folder = stage.root / "mine"
    folder.mkdir()
    script = stage.script(job(f"sleep {mark}"), call("read_job", job=1, seconds=300), pop())
    process = stage.start("solve", folder, "-t", "Serve.", "--model", script, "--strategy", "full")
    eventually(lambda: stage.written() >= 4, 60)
    time.sleep(0.5)
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=60)
    assert not alive(mark)

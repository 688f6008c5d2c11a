"""Runs whose commands reach only listed hosts: what the trace records, and the hosts available to a resumed run."""

import json
import os

import pytest

import stackmem
from stackmem.core.facts import ChecksReturned, RunStarted, ToolReturned, VerifyReturned
from stackmem.trace.moments import prompt_of
from tests.run.people import Scripted, replayed, talk
from tests.stage import SOLVED, Stage, call, command, events, kept_texts, pop, push
from tests.workspace.listed import serving

FETCH = "python3 -c 'import urllib.request as u; print(u.urlopen(\"http://web.test/\").read())'"
REFUSED = "python3 -c 'import urllib.request as u; u.urlopen(\"https://evil.test/\")'"
AUTH = {"SHOP": "Bearer hush-hush-hush"}


def told(fact) -> list[tuple[str, bool, int]]:
    return [(each.host, each.allowed, each.count) for each in fact.requests]


def test_every_request_of_a_run_is_a_fact_and_no_credential_is(stage: Stage):
    task = stage.task(
        command(f"{FETCH}; {REFUSED}"), push(verify=FETCH), pop(), call("list_files"), pop(), test=f"{FETCH}\n{SOLVED}"
    )
    with serving() as host:
        listed = {
            "network": "list", "allow": [f"http://web.test=127.0.0.1:{host.port}"],
            "credentials": ["web.test:Authorization=$SHOP"],
        }  # fmt: skip
        result = stage.solve(task, environ={**os.environ, **AUTH}, **listed)
        assert [each.count(b"Bearer hush-hush-hush") for each in host.seen] == [1, 1, 1]
    assert result.outcome == "solved"
    start = events(result.run_dir, RunStarted)[0]
    assert (start.network, start.allowed) == ("list", (f"http://web.test:80=127.0.0.1:{host.port}",))
    commanded, listing = events(result.run_dir, ToolReturned)
    assert told(commanded) == [("web.test", True, 1), ("evil.test", False, 1)]
    assert "(network: evil.test:443 is not on the list of hosts of this run)" in commanded.text
    assert told(events(result.run_dir, VerifyReturned)[0]) == [("web.test", True, 1)]
    assert told(events(result.run_dir, ChecksReturned)[0]) == [("web.test", True, 1)]
    assert listing.requests is stackmem.core.facts.UNSET
    assert b"hush" not in kept_texts(stage.only_run())
    assert stackmem.replay(result.run_dir).prompts == 5


def test_a_credential_that_a_host_says_again_is_no_fact(stage: Stage):
    def mirror(connection):
        sent = connection.recv(65536)
        connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s" % (len(sent), sent))

    with serving(mirror) as host:
        result = stage.solve(
            stage.task(command(FETCH), pop()), environ={**os.environ, **AUTH}, network="list",
            allow=[f"http://web.test=127.0.0.1:{host.port}"], credentials=["web.test:Authorization=$SHOP"],
        )  # fmt: skip
    assert "Authorization: [secret CREDENTIAL web.test Authorization]" in events(result.run_dir, ToolReturned)[0].text
    assert b"hush" not in kept_texts(stage.only_run())


def test_a_run_that_goes_on_reaches_what_it_reached_and_nothing_else(stage: Stage):
    with serving() as host:
        first = stage.solve(
            stage.task(command(FETCH), command(f"{FETCH}; {REFUSED}"), pop()), network="list", max_steps=1,
            allow=[f"http://web.test=127.0.0.1:{host.port}"],
        )  # fmt: skip
        assert first.outcome == "step_limit" or first.ending == "limit:steps"
        more = stage.call("resume", first.run_dir, "--max-steps", "+5", env={"STACKMEM_ALLOW": "evil.test"})
    assert more.returncode == 0, more.stderr
    again = events(first.run_dir, ToolReturned)[-1]
    assert told(again) == [("web.test", True, 1), ("evil.test", False, 1)]
    stackmem.replay(first.run_dir)


def test_a_program_has_its_requests_in_its_answers(stage: Stage):
    program = stage.root / "main.apl"
    program.write_text(json.dumps({"main": [{"name": "Fetch", "tool": "shell", "command": FETCH}]}))
    with serving() as host:
        ran = stage.call("run", program, "--network", "list", "--allow", f"http://web.test=127.0.0.1:{host.port}")
    assert ran.returncode == 0, ran.stderr
    (answered,) = events(stage.only_run(), stackmem.core.program_facts.ToolAnswered)
    assert told(answered) == [("web.test", True, 1)]


def test_a_conversation_reaches_listed_hosts_and_its_model_is_told_which(stage: Stage):
    with serving() as host:
        listed = {"network": "list", "allow": [f"http://web.test=127.0.0.1:{host.port}"]}
        script = stage.script(command(f"{FETCH}; {REFUSED}"), {"text": "Fetched."})
        result = talk(stage, Scripted("Fetch it."), script, **listed)
    assert told(events(result.run_dir, ToolReturned)[0]) == [("web.test", True, 1), ("evil.test", False, 1)]
    first = prompt_of(stackmem.open_run(result.run_dir).moment(1)).messages[0]
    assert "through the proxy in HTTPS_PROXY: http://web.test:80\n" in first.parts[0].text
    replayed(result)


def test_a_fork_reaches_what_its_parent_reached(stage: Stage):
    with serving() as host:
        listed = {"network": "list", "allow": [f"http://web.test=127.0.0.1:{host.port}"]}
        first = stage.solve(stage.task(command(FETCH), command(f"{FETCH}; {REFUSED}"), pop()), **listed)
        forked = stage.call("fork", first.run_dir, "--at", "1", env={"STACKMEM_ALLOW": "evil.test"})
        assert forked.returncode == 0, forked.stderr
    second = next(run for run in stage.runs.iterdir() if run != first.run_dir)
    assert told(events(second, ToolReturned)[-1]) == [("web.test", True, 1), ("evil.test", False, 1)]


@pytest.mark.parametrize(
    ("flags", "says"),
    [
        (("--network", "list"), "--network list has no hosts"),
        (("--allow", "web.test"), "--allow needs --network list, but the network is none"),
        (("--network", "list", "--allow", "a b"), "--allow 'a b' is not a host"),
        (
            ("--network", "list", "--allow", "web.test", "--isolation", "landlock"),
            "isolation landlock does not isolate the network",
        ),
        (
            ("--network", "list", "--allow", "web.test", "--isolation", "none"),
            "isolation none does not isolate the network",
        ),
        (
            ("--network", "list", "--allow", "web.test", "--credentials", "web.test:X=$Y"),
            "--credentials web.test:X needs an encrypted entry",
        ),
    ],
)
def test_what_cannot_be_kept_to_is_refused_in_one_sentence_before_there_is_a_run(stage: Stage, flags, says):
    refused = stage.call("solve", stage.task(pop()), "--model", "demo", *flags)
    assert refused.returncode == 2
    assert refused.stderr.startswith(f"stackmem: {says}")
    assert refused.stderr.count("\n") == 1
    assert stage.left_behind() == []


def test_a_project_file_cannot_open_the_network(stage: Stage):
    for line in ('network = "list"', 'allow = ["web.test"]', 'credentials = ["web.test:X=$Y"]'):
        (stage.elsewhere / "stackmem.toml").write_text(line)
        assert stage.call("solve", stage.root / "small", "--model", "demo").returncode == 2

"""Gateway status at any time: after the end, after a kill, and with a strategy's savings."""

import json
import signal

import pytest

from stackmem.core.errors import RulesDiffer, TraceError
from stackmem.core.facts import ModelReplied, RunEnded
from stackmem.doors.gateway.exchanges import RequestPassed, read_exchanges
from stackmem.doors.gateway.serving import GatewayTerms, serving
from stackmem.doors.gateway.status import gateway_status
from stackmem.doors.gateway.upstream import upstreams
from stackmem.doors.gateway.verifying import verify_gateway_run
from stackmem.run.run_folder import EXCHANGES, TRACE
from stackmem.trace.store import TraceReader
from tests.doors.gateway.upstream import (
    CLIENT,
    RawAnswer,
    RawUpstream,
    assistant,
    message_events,
    request,
    result,
    text,
    use,
    user,
)
from tests.stage import Stage

HEADERS = {"x-api-key": "sk-ant-api03-0123456789abcdefghij", "anthropic-version": "2023-06-01"}


def test_a_strategys_run_says_what_was_sent_and_saved(tmp_path):
    told, count = [user("Mend the parser.")], 6
    script = [RawAnswer(message_events(use("run", f"c{number}", n=number), stop="tool_use")) for number in range(count)]
    refused = RawAnswer((b"{}",), 529)
    with RawUpstream(refused, *script) as upstream:
        terms = GatewayTerms(upstreams(upstream.url, {}), tmp_path, strategy="mask:1,poll=1")
        with serving(terms, {}) as served:
            url = f"{served.url}/v1/messages"
            CLIENT.post(url, content=request(*told), headers=HEADERS, timeout=60)
            for number in range(count):
                CLIENT.post(url, content=request(*told), headers=HEADERS, timeout=60)
                told += [assistant(use("run", f"c{number}", n=number)), user(result(f"c{number}", "word " * 900))]
    (row,) = gateway_status(tmp_path)
    assert (row.state, row.strategy, row.conversations, row.requests) == ("ended", "mask:1,poll=1", 1, count + 1)
    assert (row.retries, row.failed, row.context_tokens) == (1, 1, 100)
    assert row.usage.prompt == 100 * count
    assert row.sent_share < 0.8
    assert not row.no_effect
    assert row.savings is not None
    assert row.savings.usd < 0  # a mask that moves at every step makes every step rewrite the cached prompt
    assert row.savings.off_usd > 0


def test_a_strategy_that_changed_no_request_is_marked(tmp_path):
    with RawUpstream(RawAnswer(message_events(text("Done.")))) as upstream:
        terms = GatewayTerms(upstreams(upstream.url, {}), tmp_path, strategy="stackheap")
        with serving(terms, {}) as served:
            CLIENT.post(f"{served.url}/v1/messages", content=request(user("Hi")), headers=HEADERS, timeout=60)
    (row,) = gateway_status(tmp_path)
    assert (row.strategy, row.no_effect) == ("stackheap", True)


def test_the_record_of_a_killed_gateway_is_complete(stage: Stage):
    with RawUpstream(RawAnswer(message_events(text("I look."), use("run", "c1", n=1), stop="tool_use"))) as upstream:
        served = stage.start("gateway", "--upstream", upstream.url)
        assert served.stdout is not None
        url = served.stdout.readline().split("ANTHROPIC_BASE_URL=")[1].split()[0]
        CLIENT.post(f"{url}/v1/messages", content=request(user("Hi")), headers=HEADERS, timeout=60)
        (running,) = json.loads(stage.call("gateway", "status", "--json").stdout)
        served.send_signal(signal.SIGKILL)
        served.communicate(timeout=60)
    (folder,) = stage.runs.iterdir()
    before = [type(record.event) for record in TraceReader(folder / TRACE)]
    shown = stage.call("gateway", "status", "-o", str(stage.runs))
    after = [type(record.event) for record in TraceReader(folder / TRACE)]
    assert (running["state"], running["requests"], running["context_tokens"]) == ("running", 1, 100)
    assert folder.name in shown.stdout
    assert ModelReplied not in before
    assert after[-2:] == [ModelReplied, RunEnded]
    assert "interrupted" in stage.call("runs").stdout


def test_a_folder_without_such_runs_says_so(stage: Stage):
    assert "no gateway runs in" in stage.call("gateway", "status").stdout


@pytest.mark.parametrize("strategy", ["full", "mask:1,poll=1", "window:1,step=1", "truncate:500", "clear:900,keep=1"])
def test_a_replay_verifies_the_trace_and_every_cut_and_names_what_was_changed(tmp_path, strategy):
    told, count = [user("Mend the parser.")], 5
    script = [RawAnswer(message_events(text(f"Step {number}. "), use("run", f"c{number}", n=number), stop="tool_use"))
              for number in range(count)]  # fmt: skip
    with RawUpstream(*script) as upstream:
        terms = GatewayTerms(upstreams(upstream.url, {}), tmp_path, strategy=strategy)
        with serving(terms, {}) as served:
            for number in range(count):
                body = request(*told, system="Be brief.")
                CLIENT.post(f"{served.url}/v1/messages", content=body, headers=HEADERS, timeout=60)
                said = assistant(f"Step {number}.", use("run", f"c{number}", n=number))
                told += [said, user(result(f"c{number}", "word " * 200), "<system-reminder>x</system-reminder>")]
    (folder,) = tmp_path.iterdir()
    done = verify_gateway_run(folder)
    assert (done.facts, done.cuts, done.not_followed) == (15, 0 if strategy == "full" else count, 0)
    lines = (folder / EXCHANGES).read_bytes()
    if strategy != "full":
        cut = b'"short":0' if b'"short":1' not in lines else b'"short":1'
        assert b'"short":2' in lines or b'"short":1' in lines
        (folder / EXCHANGES).write_bytes(lines.replace(cut, b'"short":7', 1))
        with pytest.raises(RulesDiffer, match="left out"):
            verify_gateway_run(folder)
    (folder / EXCHANGES).write_bytes(lines.replace(b"Step 1.", b"Step \xff."))
    with pytest.raises(TraceError, match="not a line of the gateway's log"):
        verify_gateway_run(folder)
    for number in (2**64, -1):
        (folder / EXCHANGES).write_bytes(lines.replace(b'"conversation":1', b'"conversation":%d' % number))
        verify_gateway_run(folder)
    (folder / EXCHANGES).write_bytes(lines.replace(b"Step 1.", b"Step 9."))
    with pytest.raises(RulesDiffer, match="does not follow"):
        verify_gateway_run(folder)


def test_a_replay_follows_a_conversation_after_an_edit_that_failed(tmp_path):
    limited = RawAnswer((b'{"type":"error","error":{"type":"overloaded_error","message":"later"}}',), status=529)
    calls = [use("run", f"c{number}", n=number) for number in range(4)]
    replies = [RawAnswer(message_events(call, stop="tool_use")) for call in calls]
    told = [user("Mend the parser.")]
    for call in calls:
        told += [assistant(call), user(result(call["id"], "word " * 50))]
    edited = [*told[:2], user(result("c0", "nothing"))]
    requests = (told[:1], told[:3], edited, told[:5], told[:7])
    with (
        RawUpstream(*replies[:2], limited, *replies[2:]) as upstream,
        serving(GatewayTerms(upstreams(upstream.url, {}), tmp_path, strategy="truncate:250"), {}) as served,
    ):
        for messages in requests:
            CLIENT.post(f"{served.url}/v1/messages", content=request(*messages), headers=HEADERS, timeout=60)
    (folder,) = tmp_path.iterdir()
    asked = [one for one in read_exchanges(folder / EXCHANGES) if isinstance(one, RequestPassed)]
    assert [one.kind for one in asked] == ["new", "turn", "edit", "turn", "turn"]
    assert [one.dropped for one in asked] == [0, 0, 0, 0, 2]
    verified = verify_gateway_run(folder)
    assert (verified.cuts, verified.not_followed) == (5, 0)

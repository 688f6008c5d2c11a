"""A request of many megabytes does not block others, is recorded in order, and uses bounded memory.

The tests decide the order with events: the large request is held in the middle of its work until the small one is done.
"""

import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx2
import pytest

from stackmem.doors.gateway import recording, workers
from stackmem.doors.gateway.exchanges import AnswerPassed, RequestPassed, read_exchanges
from stackmem.doors.gateway.verifying import verify_gateway_run
from stackmem.doors.gateway.wires import messages
from stackmem.doors.gateway.wires.bodies import ReadBodies
from stackmem.run.run_folder import EXCHANGES
from tests.doors.gateway.test_proxy import CLIENT, DONE, gateway, post
from tests.doors.gateway.upstream import RawAnswer, RawUpstream, assistant, message_events, request, text, user

BYTES = 2 << 20
"""Size of a request that the threads for large work read and record."""
SMALL = request(user("Hi"))
MIDDLE = request(user("a b\n" * (1 << 16)))


def large_request(tmp_path: Path, number: int = 0) -> bytes:
    """Return a request that no test has sent before, because parsed requests are cached."""
    return request(user(f"{tmp_path} {number} " + "x y\n" * (BYTES // 4)))


@pytest.fixture(autouse=True)
def own_cache(monkeypatch: pytest.MonkeyPatch) -> None:
    """Drop the parsed requests after each test, because forks of a process with much memory are slow."""
    monkeypatch.setattr(messages, "_bodies", ReadBodies("messages", messages._read_message))


def answer(_: bytes) -> RawAnswer:
    return DONE


class Held:
    """Stops the large request in a piece of work until it is released."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, owner: Any, name: str, size: Any) -> None:
        self.reached, self.let_go = threading.Event(), threading.Event()
        self.was = getattr(owner, name)

        def held(*given: Any) -> Any:
            if size(given) > BYTES // 2:
                self.reached.set()
                assert self.let_go.wait(120)
            return self.was(*given)

        monkeypatch.setattr(owner, name, held)


STAGES = {
    "reading": (ReadBodies, "_anew", lambda given: len(given[1])),
    "looking for secrets": (recording, "_holds", lambda given: len(given[1])),
    "writing": (recording.RunBeingTold, "_take", lambda given: getattr(given[1], "body_bytes", 0)),
}


@pytest.mark.parametrize("strategy", ["full", "mask:1,poll=1"])
@pytest.mark.parametrize("stage", STAGES)
def test_small_requests_come_to_their_end_while_a_large_one_is_worked_on(tmp_path, monkeypatch, stage, strategy):
    held = Held(monkeypatch, *STAGES[stage])
    with (
        RawUpstream(answer=answer) as upstream,
        gateway(upstream, tmp_path, strategy=strategy) as served,
        ThreadPoolExecutor(8) as pool,
    ):
        larges = [
            pool.submit(post, served, large_request(tmp_path, number)) for number in range(4)
        ]  # as many as there are threads for large requests
        assert held.reached.wait(60)
        try:
            told = [user("Hi")]
            for _ in range(3):
                assert post(served, request(*told)).content == b"".join(DONE.pieces)
                told += [assistant("Done."), user("More")]
            assert post(served, MIDDLE).status_code == 200
            assert not any(large.done() for large in larges)
        finally:
            held.let_go.set()
        assert [large.result(120).content for large in larges] == [b"".join(DONE.pieces)] * 4
        assert served.gateway.notes == []
    runs = {folder.name: list(read_exchanges(folder / EXCHANGES)) for folder in tmp_path.iterdir()}
    asked = [one for lines in runs.values() for one in lines if isinstance(one, RequestPassed)]
    assert sum(one.body_bytes > BYTES for one in asked) == 4
    small = [
        one for lines in runs.values() for one in lines if isinstance(one, RequestPassed) and one.body_bytes < 2_000
    ]
    assert [one.kind for one in small] == ["new", "turn", "turn"]
    for folder in tmp_path.iterdir():
        assert verify_gateway_run(folder).not_followed == 0


def test_a_conversation_of_large_turns_is_recorded_in_order(tmp_path):
    """The client sends each turn as soon as the previous answer has arrived, which may still be being recorded."""
    told = [user("a b\n" * (1 << 19))]
    with RawUpstream(answer=answer) as upstream, gateway(upstream, tmp_path) as served:
        for number in range(6):
            assert post(served, request(*told)).status_code == 200
            told += [assistant("Done."), user(f"turn {number}")]
        assert served.gateway.notes == []
    (folder,) = tmp_path.iterdir()
    lines = list(read_exchanges(folder / EXCHANGES))
    assert [type(one) for one in lines[:-1]] == [RequestPassed, AnswerPassed] * 6
    assert [one.kind for one in lines if isinstance(one, RequestPassed)] == ["new"] + ["turn"] * 5
    assert not any(one.elsewhere for one in lines if isinstance(one, AnswerPassed))
    verify_gateway_run(folder)


def test_an_answer_that_comes_at_once_passes_before_its_large_request_is_recorded(tmp_path, monkeypatch):
    held = Held(monkeypatch, *STAGES["looking for secrets"])
    begun = RawAnswer(message_events(text("Half"))[:1], hangs=True)
    with RawUpstream(begun) as upstream, gateway(upstream, tmp_path) as served:
        asked = httpx2.stream(
            "POST",
            f"{served.url}/v1/messages",
            content=large_request(tmp_path),
            headers={"x-api-key": "k"},
            timeout=120,
        )
        with asked as came:
            assert next(came.iter_raw()).startswith(begun.pieces[0])
            assert held.reached.wait(60)
        assert upstream.left.wait(60)
        held.let_go.set()
    (folder,) = tmp_path.iterdir()
    names = [type(one).__name__ for one in read_exchanges(folder / EXCHANGES)]
    assert names == ["RequestPassed", "AnswerPassed", "RunClosed"]


def test_the_bytes_of_requests_at_a_time_are_bounded_and_given_back(tmp_path, monkeypatch):
    monkeypatch.setattr(workers, "MAX_HELD_BYTES", BYTES + BYTES // 2)
    large = large_request(tmp_path)
    hangs = RawAnswer(message_events(text("Half"))[:1], hangs=True)
    with RawUpstream(hangs, DONE, DONE) as upstream, gateway(upstream, tmp_path) as served:
        held = served.gateway._workers
        with httpx2.stream("POST", f"{served.url}/v1/messages", content=large, headers={"x-api-key": "k"}) as came:
            assert next(came.iter_raw()).startswith(hangs.pieces[0])
            refused = post(served, large)
            assert (refused.status_code, refused.json()["error"]["type"]) == (503, "overloaded_error")
            assert post(served, SMALL).status_code == 200
        assert upstream.left.wait(60)
        for _ in range(1_000):  # until the gateway notices that its client has left
            if held.reserved_bytes < BYTES:
                break
            CLIENT.get(served.url)
        assert post(served, large).status_code == 200
    assert held.reserved_bytes == 0

"""Whole runs of a served model at the small size: requests, records, and replay."""

from msgspec import UNSET, json

from stackmem.core.facts import CallRejected, NoticeGiven, RunStarted, ToolReturned
from tests.providers.chat_server import ChatServer, chunks
from tests.stage import Stage, events

HALF = 5_000
"""Over half of the window of the server below."""


def said(tool: str, prompt_tokens: int = 300, /, **arguments: object) -> bytes:
    """A call written as text, as small models do."""
    text = json.encode({"name": tool, "arguments": arguments}).decode()
    return chunks({"content": text}, usage={"prompt_tokens": prompt_tokens, "completion_tokens": 20})


def small_server(*answers: bytes, parameters: int = 1_500_000_000) -> ChatServer:
    server = ChatServer(*answers)
    meta = {"n_params": parameters, "n_ctx": 9_000}
    server.models = {"data": [{"id": "coder", "meta": meta}]}
    return server


def solve(stage: Stage, server: ChatServer, *more: str):
    folder = stage.root / "project"
    folder.mkdir(exist_ok=True)
    (folder / "long.txt").write_text("a line of text\n" * 1_000, encoding="utf-8")
    address = ("--model", "llamacpp/coder", "--base-url", f"{server.url}/v1")
    return stage.call("solve", str(folder), "-t", "Read long.txt.", *address, "--yes", *more)


def test_a_small_model_gets_the_small_size_and_its_run_replays(stage: Stage) -> None:
    store = {"name": "fact", "content": "1,000 lines"}
    answers = [
        said("read_file", HALF, path="long.txt"),
        said("heap_alloc", HALF, **store),
        said("pop_frame", result="Read."),
    ]
    with small_server(*answers) as server:
        ran = solve(stage, server)
    assert ran.returncode == 0, ran.stderr
    run = stage.only_run()
    (start,) = events(run, RunStarted)
    assert start.small is not UNSET
    assert [tool["function"]["name"] for tool in server.bodies[0]["tools"]] == [tool.name for tool in start.tools]
    assert "long.txt" in start.small.look.listing
    assert start.small.look.files == ()  # it is too long
    assert [tool.name for tool in start.tools if tool.name not in start.registered] == [
        "read_file", "write_file", "list_files", "run_command", "pop_frame"
    ]  # fmt: skip
    assert {body["max_completion_tokens"] for body in server.bodies} == {1_024}
    assert all(body["tools"] == server.bodies[0]["tools"] for body in server.bodies)
    assert all(body["messages"][0] == server.bodies[0]["messages"][0] for body in server.bodies)
    (read,) = events(run, ToolReturned)
    assert len(read.text.encode()) <= 2_048
    assert [event.code for event in events(run, NoticeGiven)] == ["memory_tools"]
    assert events(run, CallRejected) == []
    assert stage.call("replay", str(run)).returncode == 0


def test_a_large_model_and_one_that_is_to_have_the_full_size_get_it(stage: Stage) -> None:
    for parameters, more in ((70_000_000_000, ()), (1_500_000_000, ("--size", "full"))):
        with small_server(said("pop_frame", result="Read."), parameters=parameters) as server:
            ran = solve(stage, server, *more)
        assert ran.returncode == 0, ran.stderr
        assert "push_frame" in {tool["function"]["name"] for tool in server.bodies[0]["tools"]}
        assert server.bodies[0]["max_completion_tokens"] == 9_000 // 4


def test_the_size_that_was_asked_for_outranks_the_count(stage: Stage) -> None:
    with small_server(said("pop_frame", result="Read."), parameters=70_000_000_000) as server:
        ran = solve(stage, server, "--size", "small", "--strategy", "stackheap")
    assert ran.returncode == 0, ran.stderr
    (start,) = events(stage.only_run(), RunStarted)
    assert start.small is not UNSET
    assert "push_frame" in {tool.name for tool in start.small.later}


def test_a_strategy_without_a_small_size_is_refused_before_anything_is_asked(stage: Stage) -> None:
    with small_server() as server:
        ran = solve(stage, server, "--size", "small", "--strategy", "mem1")
    assert ran.returncode == 2
    assert "mem1 has no small size" in ran.stderr
    assert server.bodies == []


def test_a_small_model_is_shown_the_file_that_it_would_overwrite(stage: Stage) -> None:
    """Small models write only the new part, and so delete the rest."""
    only_new, whole = "def multiply(a, b):\n    return a * b\n", "def add(a, b):\n    return a + b\n"
    answers = [
        said("write_file", path="calc.py", content=only_new),
        said("write_file", path="./calc.py", content=whole + only_new),
        said("write_file", path="new.py", content=only_new),
        said("edit_file", path="long.txt", old_string="a line", new_string="no line"),
        said("pop_frame", result="Added multiply."),
    ]
    (stage.root / "project").mkdir()
    (stage.root / "project" / "calc.py").write_text(whole, encoding="utf-8")
    with small_server(*answers) as server:
        ran = solve(stage, server, "--extra-tools", "edit_file")
    assert ran.returncode == 0, ran.stderr
    first, second, third, edit = events(stage.only_run(), ToolReturned)
    assert (first.failed, second.failed, third.failed, edit.failed) == (True, False, False, True)
    assert "was not changed, because you have not read it" in first.text
    assert whole in first.text
    assert third.text == f"wrote {len(only_new)} bytes to 'new.py'; it is new"
    assert stage.call("replay", str(stage.only_run())).returncode == 0

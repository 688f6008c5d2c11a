"""The simulator and the strict test server's cache, written independently, agree on any sequence of requests."""

import json
import math
from dataclasses import dataclass, field

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stackmem.core.facts import ModelReplied
from stackmem.core.images import no_image
from stackmem.core.log import Log
from stackmem.core.messages import Breakpoint, Message, Part, Text, Thinking, ToolCall, ToolResult, ToolSpec, View
from stackmem.models.registry import open_model
from stackmem.providers.anthropic import _blocks, _tool, request_body
from stackmem.providers.images import Sight
from stackmem.review.measure.cache import CacheRequest, simulate
from stackmem.review.measure.cached_steps import cached_steps
from stackmem.review.measure.prefix import PromptBlock
from tests.build import World, alloc, call, do, failed, play, pop, push, reply, started
from tests.contracts.test_runs_over_http import PUSH, SPELLED, run
from tests.providers.prefix_cache import PrefixCache
from tests.providers.server import MessagesServer, calls

from .runs import seen

SCHEMA = '{"additionalProperties":false,"properties":{},"required":[],"type":"object"}'
CHOICES = ("auto", "none")  # of equal length, so that a count does not depend on the choice
BLIND = Sight(View("", (), (), ()), None, no_image)
SETTINGS = json.dumps([{"type": "auto"}, None], sort_keys=True)


def counted(settings: str):
    """Count a block like the server: its position and its JSON, four characters per token."""

    def count(block: PromptBlock) -> int:
        match block.content:
            case ToolSpec():
                made, place = _tool(block.content, strict=True), "tool"
            case Text() if block.place == "system":
                made, place = {"type": "text", "text": block.content.text}, "system"
            case ToolSpec():
                raise AssertionError
            case _:
                (made,), place = _blocks(block.content, False, BLIND), f"{block.place} {settings}"
        return math.ceil(len(place + json.dumps(made, ensure_ascii=False)) / 4)

    return count


def figures(usage: dict) -> tuple[int, int, int, int]:
    written = usage["cache_creation"]
    short, long = written["ephemeral_5m_input_tokens"], written["ephemeral_1h_input_tokens"]
    return usage["cache_read_input_tokens"], short, long, usage["input_tokens"]


@dataclass
class Server:
    """The server's cache with an adjustable clock."""

    minimum: int
    now: float = 0.0
    cache: PrefixCache = field(init=False)

    def __post_init__(self) -> None:
        self.cache = PrefixCache(self.minimum, lambda: self.now)

    def answer(self, request: CacheRequest) -> tuple[int, int, int, int]:
        self.now = request.at
        body = request_body(request.view, "m", 1_000, None)
        body["tool_choice"] = {"type": request.settings}
        return figures(self.cache.usage(body))


texts = st.builds(lambda word, size: word * size, st.sampled_from("abc"), st.integers(1, 900))
blank = st.sampled_from(["", "  \n"])
user_parts: st.SearchStrategy[Part] = st.one_of(
    st.builds(Text, st.one_of(texts, texts, blank)),
    st.builds(ToolResult, st.sampled_from(["c1", "c2"]), texts, st.booleans()),
)
reply_parts: st.SearchStrategy[Part] = st.one_of(
    st.builds(Text, st.one_of(texts, blank)),
    st.builds(ToolCall, st.sampled_from(["c1", "c2"]), st.just("read_file"), st.fixed_dictionaries({"path": texts})),
    st.builds(lambda text: Thinking({"type": "thinking", "thinking": text, "signature": "s"}), texts),
    st.just(Thinking({"type": "reasoning_content", "text": "elsewhere"})),
)


def message(role, parts):
    return st.lists(parts, min_size=1, max_size=30).map(lambda found: Message(role, tuple(found)))


turns = st.tuples(message("assistant", reply_parts), message("user", user_parts))
waits = st.sampled_from([0.0, 1.0, 150.0, 299.0, 300.0, 301.0, 3_599.0, 3_601.0])
acts = st.one_of(
    st.tuples(st.just("grow"), turns),
    st.tuples(st.just("grow"), turns),
    st.tuples(st.just("again"), st.none()),
    st.tuples(st.just("switch"), st.integers(0, 2)),
    st.tuples(st.just("edit"), texts),
    st.tuples(st.just("cut"), st.none()),
    st.tuples(st.just("system"), texts),
    st.tuples(st.just("tools"), texts),
    st.tuples(st.just("choice"), st.sampled_from(CHOICES)),
)


@dataclass
class Talk:
    """Three conversations that take turns, and their shared prefix."""

    system: str = "s" * 1_500
    tool: str = "reads"
    choice: str = "auto"
    at: int = 0
    now: float = 0.0
    messages: list[list[Message]] = field(
        default_factory=lambda: [[Message("user", (Text("run " * 300), Text(f"frame {n} " * 300)))] for n in range(3)]
    )

    def request(self, act: str, what, wait: float, marks: list[tuple[int, int, str]] | None) -> CacheRequest:
        self.now += wait
        spoken = self.messages[self.at]
        match act:
            case "grow":
                spoken += what
            case "switch":
                self.at = what
            case "edit":
                spoken[len(spoken) // 2] = Message(spoken[len(spoken) // 2].role, (Text(what),))
            case "cut":
                del spoken[max(1, len(spoken) - 2) :]
            case "system":
                self.system = what * 20
            case "tools":
                self.tool = what
            case "choice":
                self.choice = what
        spoken = self.messages[self.at]
        points = self.rolling(spoken) if marks is None else self.anywhere(spoken, marks)
        tools = (ToolSpec("read_file", self.tool, SCHEMA),)
        return CacheRequest(self.now, View(self.system, tools, Log(spoken), points), self.choice)

    @staticmethod
    def rolling(spoken: list[Message]) -> tuple[Breakpoint, ...]:
        last = len(spoken) - 1
        ends = [Breakpoint(at, len(spoken[at].parts) - 1, "5m") for at in (last - 2, last) if at >= 0]
        return (Breakpoint(-1, 0, "1h"), Breakpoint(0, 0, "1h"), *ends)

    @staticmethod
    def anywhere(spoken: list[Message], marks: list[tuple[int, int, str]]) -> tuple[Breakpoint, ...]:
        places = {(at % len(spoken), part % len(spoken[at % len(spoken)].parts)) for at, part, _ in marks}
        lives = sorted((ttl for *_, ttl in marks[: len(places)]), key=("1h", "5m").index)
        return tuple(Breakpoint(at, part, ttl) for (at, part), ttl in zip(sorted(places), lives, strict=False))


anywhere = st.lists(
    st.tuples(st.integers(0, 20), st.integers(0, 30), st.sampled_from(["5m", "1h"])), min_size=1, max_size=4
)


@given(
    st.lists(st.tuples(acts, waits, st.one_of(st.none(), anywhere)), min_size=1, max_size=25),
    st.sampled_from([0, 64, 512, 1_024]),
)
def test_the_simulator_and_the_server_agree_on_any_conversations(steps, minimum):
    talk, server = Talk(), Server(minimum)
    requests = [talk.request(act, what, wait, marks) for (act, what), wait, marks in steps]
    settings = json.dumps([{"type": "auto"}, None], sort_keys=True)
    found = [
        (one.read, one.written_5m, one.written_1h, one.uncached)
        for one in simulate(requests, minimum, counted(settings))
    ]
    assert found == [server.answer(request) for request in requests]


@pytest.mark.parametrize("strategy", SPELLED)
def test_the_simulator_predicts_what_a_server_reports_for_every_step_of_a_run(strategy):
    story = (
        calls("read_file", {"path": "spec.md"}, thought="I read first."),
        calls("heap_alloc", {"name": "spec", "content": "essence"}),
        calls("push_frame", PUSH),
        calls("heap_read", {"name": "spec"}, thought="In the child."),
        calls("heap_write", {"name": "spec", "content": "more"}),
        calls("no_such_tool", {}),
        calls("pop_frame", {"result": "The child is done."}),
        *[calls("read_file", {"path": "spec.md"}) for _ in range(5)],
        calls("pop_frame", {"result": "All is done."}),
    )
    with MessagesServer(*story) as server:
        events = run(open_model("claude-sonnet-5-5", server.environ), strategy)
        body = server.bodies[0]
    settings = json.dumps([body.get("tool_choice"), body.get("thinking")], sort_keys=True)
    steps = list(cached_steps(seen(events, seconds=0.01), 512, counted(settings)))
    assert len(steps) == sum(isinstance(event, ModelReplied) for event in events) > 6
    assert [one.usage for one in steps] == [one.recorded for one in steps]


def test_a_prefix_that_is_stable_breaks_only_at_the_first_request_and_in_new_frames():
    story = (
        calls("push_frame", PUSH), calls("list_files", {"path": "."}), calls("pop_frame", {"result": "Done."}),
        calls("pop_frame", {"result": "Done."}),
    )  # fmt: skip
    with MessagesServer(*story) as server:
        events = run(open_model("claude-sonnet-5-5", server.environ), "stackheap")
    broken = [one.cached.broken for one in cached_steps(seen(events), 512, counted(SETTINGS))]
    assert broken == ["first request", "new conversation", "", ""]


@pytest.mark.parametrize(("place", "why"), [("system", "system changed"), ("tail", "")])
def test_an_index_in_the_system_prompt_breaks_the_prefix_when_the_heap_changes(place, why):
    story = (
        calls("heap_alloc", {"name": "a", "content": "x"}), calls("list_files", {"path": "."}),
        calls("pop_frame", {"result": "Done."}),
    )  # fmt: skip
    with MessagesServer(*story) as server:
        events = run(open_model("claude-sonnet-5-5", server.environ), f"stackheap:index={place}")
    broken = [one.cached.broken for one in cached_steps(seen(events), 512, counted(SETTINGS))]
    assert broken == ["first request", why, ""]


replies = st.sampled_from([
    do("read_file", path="a.py"), do("run_command", command="true"), do("write_file", path="a.py", content="x"),
    alloc("a", source="a.py"), alloc("b"), do("heap_read", name="a"), do("heap_write", name="a", content="new"),
    do("heap_free", name="a"), push(), pop(), do("dance"), reply("No call.", stop="end"), failed("overloaded"),
    reply(call("list_files"), call("list_files")), do("pop_frame", result=""), failed("window"),
])  # fmt: skip


@given(st.sampled_from(["full", "stackheap", "stackheap:index=delta"]), st.lists(replies, max_size=40))
def test_a_strategy_that_only_appends_breaks_no_prefix(strategy, given_replies):
    played = play(*given_replies, start=started(strategy), world=World(files={"a.py": "one"}))
    begun: set[str] = set()
    for one in cached_steps(seen(played, seconds=0.1), 0, counted(SETTINGS)):
        fresh = ("new conversation" if begun else "first request") if one.frame not in begun else ""
        assert one.cached.broken == fresh
        begun.add(one.frame)

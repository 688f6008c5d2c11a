"""Replies by later versions of the contract: read in new runs, and unreadable in runs recorded before."""

from __future__ import annotations

import random
import time
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stackmem.languages.playbook.literals import CallTo, Variable
from stackmem.languages.playbook.reply import read_reply
from stackmem.languages.playbook.reply_items import (
    AtStep,
    Fired,
    Item,
    Queued,
    ReturnItem,
    SetVar,
    TextItem,
    Unreadable,
    Yielded,
)
from tests.compliance.playbook_stage import load_cases
from tests.growth import stays_linear
from tests.languages.test_values_round_trip import SAMPLES, same, value_of

from .stage import one, run

STEP = AtStep("Main", (3,), "03", "QUE")


def python(*lines: str, **variables: Any) -> tuple[Item, ...]:
    return read_reply("```python\n" + "\n".join(('await self.Step("Main:03:QUE")', *lines)) + "\n```", variables).items


READ = {
    'await self.Say("user", "Hi")': Queued(CallTo("Say", ("user", "Hi"))),
    'await Say("user", "Hi")': Queued(CallTo("Say", ("user", "Hi"))),
    "self.state.sum = await self.Add(a=1, b=self.state.n)": Queued(
        CallTo("Add", (), (("a", 1), ("b", Variable("n")))), "sum"
    ),
    "$sum = await Add($n, [1, {'a': None}])": Queued(CallTo("Add", (Variable("n"), [1, {"a": None}])), "sum"),
    "self.state.x = -3": SetVar("x", -3),
    'self.state["x"] = True': SetVar("x", True),
    "self.state.x = self.state.n": SetVar("x", Variable("n")),
    "self.state.x = self.state.n + 1": SetVar("x", 6),
    "self.state.n += 2": SetVar("n", 7),
    'self.state.x = f"{self.state.n} of {$n:.1f}"': SetVar("x", "5 of 5.0"),
    "self.state.x = self.state.map['a'].b[0]": SetVar("x", "c"),
    'await self.Yield("for call")': Yielded("call"),
    'await Yld("user")': Yielded("user"),
    'await self.Yield("meeting 100")': Yielded("other", "meeting 100"),
    "await self.Return()": ReturnItem(None),
    "await self.Return(self.state.n)": ReturnItem(Variable("n")),
    'await self.LogTrigger("Big:T1:CND")': Fired("Big", 1, "CND"),
    "# recap: all is well": TextItem("recap", "all is well"),
    "# plan - go on": TextItem("plan", "go on"),
    'self.state.__ = "Main() greeted."': TextItem("recap", "Main() greeted."),
}  # fmt: skip


@pytest.mark.parametrize(("line", "item"), READ.items())
def test_a_line_of_python_is_the_item(line: str, item: Item) -> None:
    assert python(line, n=5, map={"a": {"b": "c"}}) == (STEP, item)


UNREAD = {
    "if self.state.n: pass": "only calls and assignments are read",
    "import os": "only calls and assignments are read",
    "self.state.x = open('/etc/passwd').read()": "is not a playbook",
    "self.state.x = len(self.state.n)": "is not a literal, a variable or a call of the program",
    "self.state.x = __import__('os')": "is not a literal, a variable or a call of the program",
    "self.state.x = 'a' * 10": "only numbers are calculated",
    "self.state.x = 9 * 9_000_000_000_000_000_000": "the number is too large",
    "self.state.x = 2 ** 9": "only numbers are calculated",
    "self.state.x = 1 / 0": "division by zero",
    "self.state.x = self.state.none + 1": "$none has no value",
    "self.state.x = f'{5:>99999999}'": "is not read in a text",
    "self.current_meeting.shared_state.x = 1": "is not a variable of the program",
    "self.Say.__globals__['x']()": "is not a playbook",
    "self.F(*[1])": "* and ** are not read",
    "await self.Step('nowhere')": "Step takes a text such as Playbook:Line:CODE",
    "await self.Yield('')": "is not a yield",
    "x = (": "it is not Python",
    "x = 1\0": "it is not Python",
    "await self.Return(self.F())": "a call in Return",
    "self.state.x = 1j": "is not a literal",
}  # fmt: skip


@pytest.mark.parametrize(("line", "why"), UNREAD.items())
def test_anything_else_is_unreadable(line: str, why: str) -> None:
    *_, last = python(line, n=5)
    assert isinstance(last, Unreadable)
    assert why in last.reason


def test_a_value_that_a_call_will_give_is_not_used_before() -> None:
    lines = ("x = await self.F()", "y = x", "await self.G(y)", 'self.state.z = f"{x}"')
    *_, call, fault = python(*lines)
    assert call == Queued(CallTo("G", (Variable("x"),)))
    assert isinstance(fault, Unreadable)
    assert "$x is only known after the call returned; yield first" in fault.reason


def test_a_local_variable_stands_for_its_value() -> None:
    assert python("move = [5, 'a']", "await self.Play(move)")[1] == Queued(CallTo("Play", ([5, "a"],)))


def test_the_reading_ends_at_the_first_yield_and_names_what_it_left_out() -> None:
    reply = 'await self.Step("Main:03:YLD")\nself.state.name = await self.Yield("user")\nself.state.y = 1'
    found = read_reply(reply, {})
    assert found.items[-1] == Yielded("user")
    assert found.ignored == 'self.state.name = await self.Yield("user")\nself.state.y = 1'


LATER = {
    'yld? yes, it needs the result\n`Step["Main:03:YLD"]` yld for call': Yielded("call"),
    "yld for meeting 100": Yielded("other", "meeting 100"),
    "yld for agent Host.": Yielded("other", "agent Host"),
    "yld for Host": Yielded("other", "Host"),
    "yld for agent": Yielded("other", "agent"),
    "yld for user": Yielded("user"),
}


@pytest.mark.parametrize(("reply", "end"), LATER.items())
def test_later_yields(reply: str, end: Item) -> None:
    assert read_reply(reply, {}).items[-1] == end


@pytest.mark.parametrize("reply", ["yld? yes, now", "yld for agent Host", "yld for meeting 100", "yld finished"])
def test_older_runs_read_them_as_before(reply: str) -> None:
    (item,) = read_reply(reply).items
    assert isinstance(item, Unreadable)
    (text,) = read_reply('await self.Step("Main:03:QUE")').items
    assert isinstance(text, TextItem)


@pytest.mark.parametrize("reply", [case.reply for case in load_cases()])
def test_replies_of_the_contract_mean_what_they_meant(reply: str) -> None:
    assert read_reply(reply, {"x": 1}) == read_reply(reply)


PROGRAM = one("- 01:QUE Say(hello)", "- 02:EXE Set $x to 6", "- 03:RET $x")
REPLY = """# execution_id: 1
# recap: beginning
await self.Step("P:01:QUE")
await self.Say("user", "hello")
# trig? no
# yld? no, 02 can execute
await self.Step("P:02:EXE")
self.state.x = 5 + 1
await self.Step("P:03:RET")
await self.Return(self.state.x)
"""


def test_a_program_runs_by_python_replies() -> None:
    done = run(PROGRAM, REPLY, replies="loose")
    assert (done.value, done.said) == (6, ["hello"])
    assert "Contract Broken" in run(PROGRAM, *[REPLY] * 4).report


AGENTS = """# A
says
## Main
### Triggers
- T1:BGN
### Steps
- 01:YLD for agent B
- 02:RET
# B
says
## Other
### Triggers
- T1:BGN
### Steps
- 01:QUE SendMessage(A, hi)
- 02:YLD call
- 03:RET
"""


def test_a_yield_for_an_agent_waits_for_its_message_and_one_for_a_meeting_does_not() -> None:
    sends = '`Step["Other:01:QUE"]` `SendMessage("A", "hi")`\n`Step["Other:02:YLD"]` yld call'
    first, last = '`Step["Main:01:YLD"]` yld for agent B', '`Step["Main:02:RET"]` `Return["done"]`'
    done = run(AGENTS, first, sends, '`Step["Other:03:RET"]` `Return[]`', last, replies="loose")
    assert done.value == "done"
    assert "Received message from B: hi" in "".join(done.instruction(number) for number in range(len(done.asked)))
    nobody = run(one("- 01:YLD for call", "- 02:RET 1"), "yld for meeting 100", '`Step["P:01:YLD"]` `Step["P:02:RET"]`'
                 " `Return[1]`", replies="loose")  # fmt: skip
    assert nobody.value == 1
    assert "note: cannot wait for meeting 100, so the playbook continues" in nobody.instruction(1)


PIECES = st.sampled_from(
    ['await self.Step("P:01:EXE")', "self.state.x", " = ", "f'{", "}'", "(", ")", "[", "]", "{", ":", "$x", "'", '"',
     "\n",
     "    ", "await ", "F", ",", "1", "+", "# recap:", "```", "if x:", "\\", "é", "lambda: 0", "*", "\t", "\r"]
)  # fmt: skip


@given(st.lists(PIECES, max_size=40).map("".join))
def test_any_text_is_read(text: str) -> None:
    reply = f'await self.Step("P:01:EXE")\n{text}'
    items = read_reply(reply, {"x": [1]}).items
    assert items == read_reply(reply, {"x": [1]}).items
    ends = [isinstance(item, Yielded | ReturnItem | Unreadable) for item in items]
    assert not any(ends[:-1])


def test_deep_and_long_replies_are_refused() -> None:
    for text in ("x = " + "[" * 5_000, "x = " + "-" * 50_000 + "1", "x = " + "+".join("1" * 20_000), "F(" * 3_000):
        assert isinstance(python(text)[-1], Unreadable)


GROWTH = {
    "lists": ["self.state.a = [1]", *["self.state.a = [self.state.a, self.state.a]"] * 60],
    "shown lists": ["a = [1]", *["a = [a, a]"] * 40, 'x = f"{a}"'],
    "doubled lists": ["a = [1]", *["a = a + a"] * 60],
    "doubled texts": ["a = 'x'", *["a = a + a"] * 60],
    "texts in one": ["a = 'x' + 'y'", *["a = a + a"] * 15, f"b = f'{'{a}' * 9_000}'"],
    "many texts": ["a = 'x'", *["a = a + a"] * 17, *["self.state.x = f'{a}'"] * 4_000],
}


@pytest.mark.parametrize("lines", GROWTH.values(), ids=GROWTH)
def test_a_short_reply_cannot_fill_the_memory(lines: list[str]) -> None:
    begun = time.process_time()
    assert isinstance(python(*lines)[-1], Unreadable)
    assert time.process_time() - begun < 5


def test_reading_takes_linear_time() -> None:
    assert stays_linear(lambda size: read_reply('await self.Step("P:01:EXE")\nself.state.x = 1\n' * size, {}), 2_000)


def test_values_written_as_python_read_back() -> None:
    for seed in range(SAMPLES):
        value = value_of(random.Random(seed), 4)
        (_, item) = python(f"self.state.x = {value!r}")
        assert isinstance(item, SetVar), item
        assert same(item.value, value), value

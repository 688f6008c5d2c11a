"""Hostile replies: each is rejected with a sentence, memory stays bounded, and no data is lost."""

import pytest

from stackmem.languages.frame.artifacts import LOADED_CHARS
from stackmem.languages.operations import ToolAnswer
from stackmem.languages.playbook.python_functions import _MARK, _last_message
from stackmem.languages.playbook.state import excess
from stackmem.languages.playbook.tools import FRAME_CHARS

from .stage import one, run

TWO = one("- 01:EXE", "- 02:EXE", "- 03:RET")
END = '`Step["P:02"]` `Step["P:03"]` yld return'
KEPT = f'`SaveArtifact("b", "s", "{"x" * LOADED_CHARS}")`\n'
DEEP = f"`Var[$a, {'[' * 49}{']' * 49}]`\n"
TOLD_DEEP = "nested over 50 deep"
HOSTILE = {
    "a list that holds itself twice, again and again": (
        "`Var[$a, [1]]`\n" + "`Var[$a, [$a, $a]]`\n" * 40,
        "over 10,485,760",
    ),
    "a list in a list, two thousand times": ("`Var[$a, [1]]`\n" + "`Var[$a, [$a]]`\n" * 2_000, TOLD_DEEP),
    "a map in a map": ("`Var[$a, 1]`\n" + '`Var[$a, {"k": $a}]`\n' * 60, TOLD_DEEP),
    "an argument that is too deep": (
        DEEP + "`Say([[[$a]]])`\n",
        TOLD_DEEP,
    ),
    "a number of 390 digits": (f"`Say({'9' * 390})`\n", "is too large; write it as a text"),
    "a number of 5,000 digits": (f"`Say({'9' * 5_000})`\n", "is not a number"),
    "no number": ("`Say([-Infinity])`\n", "cannot be read"),
    "a name of 100,000 letters": (f"`Var[${'v' * 100_000}, 1]`\n", "a Var is written"),
    "a name of 100,000 letters for a result": (f"`${'v' * 100_000} = Say(1)`\n", "of a known form"),
    "10,000 calls": ('`SendMessage("A", "x")` ' * 10_000, "over 5,000 items"),
    "10,000 lines": ("so it goes\n" * 10_000, "over 5,000 items"),
    "a message of 1.5 GB": (KEPT + f'`Say("{"Artifact[b]" * 15_000}")`\n', "over 10,485,760 characters; show fewer"),
    "an argument that grows when its call has run": (
        '`$r = WaitForMessage("human")`\n' + DEEP + "`Say([[[$r, $a]]])`\n",
        TOLD_DEEP,
    ),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_a_reply_that_is_meant_to_harm_is_a_fact(name):
    reply, told = HOSTILE[name]
    played = run(TWO, f'`Step["P:01"]`\n{reply}yld call', '`Step["P:01"]`\nyld call', END, user=("hm",))
    assert played.value is None
    assert told in played.instruction(1)
    assert max(len(played.whole(index)) for index in range(3)) < 20_000


def test_a_value_that_is_too_much_is_not_returned_and_the_frame_goes_on():
    deep = f"`Var[$a, {'[' * 49}{']' * 49}]`"
    played = run(TWO, f'`Step["P:01"]`\n{deep}\nyld call', '`Return[{"k": [[$a]]}]`', "`Return[1]`")
    assert "it was not returned: the value is nested over 50 deep" in played.instruction(2)
    assert played.value == 1


def test_what_a_frame_loads_has_a_limit():
    saved = "".join(f'`SaveArtifact("b{index}", "s", "{"x" * 40_000}")`\n' for index in range(12))
    loaded = "".join(f'`LoadArtifact("b{index}")`\n' for index in range(12))
    played = run(TWO, f'`Step["P:01"]`\n{saved}yld call', f"{loaded}yld call", END)
    assert played.instruction(2).count("Loaded Artifact") == 9
    assert f"of at most {FRAME_CHARS:,} characters; return first" in played.instruction(2)
    assert len(played.whole(2)) < FRAME_CHARS + 20_000


def test_an_empty_artifact_is_shown_as_nothing():
    played = run(TWO, '`Step["P:01"]` `SaveArtifact("e", "s", "")` `Say("[Artifact[e]]")`\nyld call', END)
    assert played.said == ["[]"]


def test_a_character_that_is_written_in_two_halves_is_one():
    played = run(TWO, '`Step["P:01"]` `Say("\\ud83d\\ude00 \\ud83d \\ude00")`\nyld call', END)
    assert played.said == ["\U0001f600 \\ud83d \\ude00"]


def test_the_size_of_a_value_counts_names_of_members_too():
    assert "over 10,485,760" in excess({"k" * 11_000_000: 1})
    assert excess(["x" * 10_000_000]) == ""


def test_an_answer_of_a_function_that_is_nested_without_end_is_none():
    told = "its last line is not JSON, or is nested too deep"
    assert _last_message(ToolAnswer({"stdout": _MARK + "[" * 200_000}))["failed"] == told
    deep = [[]]
    for _ in range(100):
        deep = [deep]
    assert _last_message(ToolAnswer({"call": "P", "values": deep}))["failed"].endswith("nested too deep")


def test_half_a_character_from_a_function_becomes_a_mark():
    assert _last_message(ToolAnswer({"stdout": _MARK + '{"value": "\\ud800"}'}))["value"] == "\ufffd"
    asked = _last_message(ToolAnswer({"call": "P", "values": ["\ud800"], "output": "\ud800"}))
    assert (asked["values"], asked["output"]) == (["\ufffd"], "\ufffd")


def test_a_function_that_returns_too_much_has_failed(tmp_path):
    body = "    x = []\n    for _ in range(55): x = [x]\n    return x"
    text = f"# A\n```python\n@playbook\ndef f():\n{body}\n```\n## P\n### Steps\n- 01:EXE\n- 02:EXE\n- 03:RET\n"
    played = run(text, '`Step["P:01"]` `$x = f()`\nyld call', END, folder=tmp_path)
    assert "f() failed: f returned too much: the value is nested over 50 deep" in played.instruction(1)


def test_an_argument_that_grows_when_an_earlier_call_has_run_fails_its_call():
    text = TWO + "## F\n### Steps\n- 01:RET\n"
    deep = f"{'[' * 49}{']' * 49}"
    played = run(text, '`Step["P:01"]` `$r = F()` `Say([[[$r]]])`\nyld call', f'`Step["F:01"]` `Return[{deep}]`', END)
    assert "Say([[[$r]]]) failed: the value is nested over 50 deep" in played.instruction(2)

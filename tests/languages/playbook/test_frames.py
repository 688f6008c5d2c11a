"""Frames: the pointer moves only to allowed lines, calls are made in order, and contract violations are reported."""

import json

import pytest

from stackmem.core.errors import UsageError
from stackmem.core.program_facts import PhaseEnded, StepEntered, VariableSet
from stackmem.languages.operations import Completion, EnterFrame, LeaveFrame

from .stage import one, run

MAGIC = one(
    "- 01:YLD user",
    "- 02:QUE $result = Half($n)",
    "- 03:YLD call",
    "- 04:EXE double it",
    "- 05:QUE Say",
    "- 06:RET",
    head="DoMagic()",
    more="## Half($n)\n### Steps\n- 01:RET half of $n",
)


def steps(play):
    return [note.path for note in play.done.happened if isinstance(note, StepEntered)]


def test_a_result_is_bound_when_the_call_returns():
    play = run(
        MAGIC,
        '`Step["DoMagic:01:YLD"]` yld user',
        '`Var[$n, 5]`\n`Step["DoMagic:02:QUE"]` `$result = Half($n)`\n`Step["DoMagic:03:YLD"]` yld call',
        '`Step["Half:01:RET"]` `Return[-4.1]`',
        '`Var[$result, -4.1]`\n`Step["DoMagic:02:TNK"]` hm, negative\n`Step["DoMagic:04:EXE"]` so `Var[$double, -8.2]\n'
        'trig? no\n`Step["DoMagic:05:QUE"]` `Say("-8.2")`\n`Step["DoMagic:06:RET"]` `Return[]`\ntrig? no\nyld return',
        user=("five",),
    )
    assert play.value is None
    assert play.said == ["-8.2"]
    assert steps(play) == [f"DoMagic:0{n}" for n in (1, 2, 3)] + ["Half:01"] + [f"DoMagic:0{n}" for n in (4, 5, 6)]
    assert "Half(5) returned -4.1; it is $result" in play.instruction(3)
    assert '"$result": -4.1' in play.tail(3)
    assert "User said: five" in play.instruction(1)
    assert "DoMagic:03 was executed - continue execution." in play.instruction(3)


@pytest.mark.parametrize(
    ("raw", "value"), [("false", False), ("0", 0), ('""', ""), ("", None), ("[1]", [1]), ("word", "word")]
)
def test_return_gives_its_value(raw, value):
    play = run(one("- 01:RET"), f'`Step["P:01:RET"]` `Return[{raw}]`')
    assert play.value == value
    assert type(play.value) is type(value)


def test_yld_return_without_return_gives_nothing():
    assert run(one("- 01:RET"), '`Step["P:01"]` yld return').value is None


def test_yld_exit_ends_the_program_from_inside_and_closes_every_frame():
    text = one("- 01:QUE Q()", "- 02:YLD call", more="## Q\n### Steps\n- 01:YLD exit")
    play = run(text, '`Step["P:01"]` `Q()`\n`Step["P:02"]` yld call', '`Step["Q:01"]` yld exit')
    assert play.value is None
    opened = [type(each) for each in play.done.happened if isinstance(each, EnterFrame | LeaveFrame)]
    assert opened == [EnterFrame, EnterFrame, LeaveFrame, LeaveFrame]


def test_calls_are_made_in_the_order_of_the_text_at_the_yield():
    text = one("- 01:QUE", "- 02:RET", more="## Inc($x)\n### Steps\n- 01:RET")
    play = run(
        text,
        '`Var[$a, 1]`\n`Step["P:01"]` `$b = Inc($a)` `Var[$a, 50]` `$c = Inc($b)` `Say("done")`\nyld call',
        '`Step["Inc:01"]` `Return[2]`',
        '`Step["Inc:01"]` `Return[3]`',
        '`Step["P:02"]` `$d = Inc(x=[$c, {"k": $a}])` `Return[$d]`',
        '`Step["Inc:01"]` `Return[$x]`',
    )
    assert [line for index in (1, 2) for line in play.instruction(index).splitlines()[:1]] == [
        "Execute Inc(x=1)",
        "Execute Inc(x=2)",
    ]
    assert play.value == [3, {"k": 50}]
    assert play.said == ["done"]


def test_nested_calls_are_made_innermost_first():
    text = one("- 01:QUE", "- 02:RET", more="## F($x)\n### Steps\n- 01:RET\n## G($x)\n### Steps\n- 01:RET")
    play = run(
        text,
        '`Step["P:01"]` `$r = F([G(1), {"a": G(2)}])`\nyld call',
        '`Step["G:01"]` `Return[10]`',
        '`Step["G:01"]` `Return[20]`',
        '`Step["F:01"]` `Return[$x]`',
        '`Step["P:02"]` `Return[$r]`',
    )
    assert play.value == [10, {"a": 20}]


def test_parameters_get_their_old_values_back_and_others_stay():
    text = one("- 01:QUE", "- 02:RET", head="P($x)", more='## F($x, $y="d")\n### Steps\n- 01:RET')
    play = run(
        text,
        '`Step["P:01"]` `F(2)`\nyld call',
        '`Var[$x, 3]`\n`Var[$z, 4]`\n`Step["F:01"]` `Return[]`',
        '`Step["P:02"]` `Return[[$x, $z]]`',
        inputs={"x": "one"},
    )
    assert play.value == ["one", 4]
    assert '"$y": "d"' in play.tail(1)
    assert '"$y"' not in play.tail(2)
    assert "F(2) finished" in play.instruction(2)


def test_a_returned_frame_leaves_its_summary_in_the_log_and_nothing_else():
    text = one("- 01:QUE", "- 02:RET", more="## F\n### Steps\n- 01:RET")
    play = run(
        text,
        '`Step["P:01"]` `F()`\nyld call',
        'recap - counted the stars\n`Step["F:01"]` thinking of millions `Return[7]`',
        '`Step["P:02"]` yld return',
    )
    assert "F() returned 7. counted the stars" in play.tail(2)
    assert "millions" not in play.tail(2)
    left = next(each for each in play.done.happened if isinstance(each, LeaveFrame))
    assert left.result == "F() returned 7. counted the stars"


FAULTS = {
    "prose": ("Sure, I can help you.", "ended without a yld line"),
    "nothing": ("", "ended without a yld line"),
    "never yields": ('`Step["P:01"]` `Say("lost")`', "ended without a yld line"),
    "skips a line": ('`Step["P:03"]` yld call', "P:03 cannot follow here; expected: P:01:EXE"),
    "an unknown line": ('`Step["P:44"]` yld call', "P:44 is not a line of it"),
    "another playbook": ('`Step["Q:01"]` yld call', "Q:01 is another playbook"),
    "an unknown playbook": ("`Nope(1)`\nyld call", "unknown playbook Nope"),
    "an unknown trigger": ('trig? `Trigger["P:9:CND"]`\nyld call', "unknown trigger P:T9; known: none"),
    "wrong arguments": ("`Say(text=1)`\nyld call", "Say(message) has no parameter text"),
    "too many arguments": ("`Say(1, 2)`\nyld call", "takes 1 arguments, 2 are given"),
    "too few arguments": ("`Q()`\nyld call", "Q($x) needs x"),
    "an argument twice": ("`Q(1, x=2)`\nyld call", "is given x twice"),
    "an undefined variable": ("`Say($nope)`\nyld call", "$nope has no value"),
    "an undefined variable in a list": ('`Q([{"a": $nope}])`\nyld call', "$nope has no value"),
    "an undefined variable in an inner call": ("`Say([Q($nope)])`\nyld call", "$nope has no value"),
    "an undefined variable in a map": ('`Say({"a": Q($nope)})`\nyld call', "$nope has no value"),
    "an undefined variable in Var": ("`Var[$x, $nope]`\nyld call", "$nope has no value"),
    "an undefined variable in Return": ("`Return[$nope]`", "$nope has no value"),
    "unreadable": ("`F(1+2)`\nyld call", "this cannot be read"),
    "a flood": ("x" * 1_000_001, "at most 1,000,000 are read"),
    "does nothing": ("recap - hm\nyld call", "the reply does nothing"),
    "truncated": (Completion("so", failed="truncated"), "the reply was truncated"),
}
BROKEN = one("- 01:EXE one", "- 02:EXE two", "- 03:RET", more="## Q($x)\n### Steps\n- 01:RET")


@pytest.mark.parametrize("name", FAULTS)
def test_a_reply_that_breaks_the_contract_is_told_and_corrected(name):
    reply, told = FAULTS[name]
    rest = '`Step["P:01"]` `Step["P:02"]` `Step["P:03"]` `Return["fine"]`'
    play = run(BROKEN, reply, reply, reply, rest)
    assert play.value == "fine"
    assert play.said == []
    for index, left in ((1, 3), (2, 2), (3, 1)):
        assert told in play.instruction(index).replace("P runs, and ", "").splitlines()[1]
        assert f"{left} more such replies halt the program" in play.instruction(index)
        assert "Expected: P:01:EXE" in play.instruction(index)
        assert play.instruction(index).splitlines()[1].startswith("what? ")
    assert list(dict.fromkeys(steps(play))) == ["P:01", "P:02", "P:03"]


@pytest.mark.parametrize("name", FAULTS)
def test_after_three_in_a_row_the_program_halts_with_place_and_text(name):
    reply, told = FAULTS[name]
    play = run(BROKEN, *[reply] * 4)
    assert "Playbook halted: Contract Broken" in play.report
    assert "4 replies in a row broke the contract" in play.report
    assert told in play.report.replace("P runs, and ", "")
    assert ("At: main.pb:4 (P:01)" if name == "never yields" else "At: main.pb:2 (P)") in play.report
    assert len(play.asked) == 4


def test_a_good_reply_between_starts_the_count_anew():
    bad, again = "prose", '`Step["P:01"]` yld call'
    play = run(BROKEN, bad, bad, bad, again, bad, bad, bad, '`Step["P:02"]` `Step["P:03"]` yld return')
    assert play.value is None


def test_what_stands_before_a_fault_is_kept_and_its_queued_calls_are_dropped():
    play = run(
        BROKEN,
        '`Var[$a, 1]`\n`Step["P:01"]` `Say("dropped")` `Nope()` `Var[$b, 2]`\nyld call',
        '`Step["P:02"]` `Step["P:03"]` `Return[$a]`',
    )
    assert play.value == 1
    assert play.said == []
    assert "$b" not in play.tail(1)


def test_a_prompt_that_is_too_long_halts():
    play = run(BROKEN, Completion("", failed="window", detail="200,001 tokens"))
    assert "Prompt Too Long" in play.report


def test_what_stands_behind_the_end_is_told_and_not_done():
    play = run(
        BROKEN,
        '`Step["P:01"]` yld call\n`Say("late")`\nyld user',
        '`Step["P:02"]` `Step["P:03"]` `Return[1]`\n`Return[2]`',
    )
    assert play.value == 1
    assert play.said == []
    assert "note: the text after the first yield or Return was ignored: '`Say(\"late\")` yld user'" in play.instruction(
        1
    )


def test_the_code_of_a_step_never_refuses_and_is_noted():
    play = run(BROKEN, '`Step["P:01:QUE"]` yld call', '`Step["P:02"]` `Step["P:03"]` yld return')
    assert "note: P:01 is a EXE, not a QUE" in play.instruction(1)


def test_a_thinking_step_may_name_any_line_and_moves_only_onto_a_thinking_line():
    text = one("- 01:EXE a", "- 02:TNK b", "- 03:RET")
    play = run(text, '`Step["P:03:TNK"]` `Step["P:01"]` `Step["P:02:TNK"]` `Step["P:03"]` `Return[]`')
    assert steps(play) == ["P:01", "P:02", "P:03"]


def test_a_var_that_contradicts_what_was_just_returned_is_refused_before_the_first_step_only():
    text = one("- 01:QUE", "- 02:EXE", "- 03:RET", more="## F\n### Steps\n- 01:RET")
    start = ('`Step["P:01"]` `$x = F()`\nyld call', '`Step["F:01"]` `Return[true]`')
    play = run(text, *start, "`Var[$x, 1]`\nyld call", '`Step["P:02"]` `Step["P:03"]` `Return[$x]`')
    assert play.value is True
    assert "what? $x was just returned by a call and keeps that value" in play.instruction(3)
    later = run(text, *start, '`Step["P:02"]` `Var[$x, 1]` `Step["P:03"]` `Return[$x]`')
    assert later.value == 1


@pytest.mark.parametrize(
    ("one_value", "other", "is_same"),
    [
        ("1", "1.0", True),
        ("1", "true", False),
        ("false", "0", False),
        ('[1, {"a": 2}]', '[1.0, {"a": 2}]', True),
        ("[1]", "[1, 2]", False),
        ('{"a": 1}', '{"b": 1}', False),
        ('"1"', "1", False),
        ("null", "null", True),
    ],
)
def test_equal_values_are_idempotent(one_value, other, is_same):
    text = one("- 01:QUE", "- 02:RET", more="## F\n### Steps\n- 01:RET")
    replies = ('`Step["P:01"]` `$x = F()`\nyld call', f'`Step["F:01"]` `Return[{one_value}]`')
    play = run(text, *replies, f'`Var[$x, {other}]`\n`Step["P:02"]` yld return', '`Step["P:02"]` yld return')
    assert ("just returned" in play.tail(len(play.asked) - 1)) is not is_same


TREE = one(
    "- 01:CND While more",
    "  - 01.01:EXE a",
    "  - 01.02:CND If x",
    "    - 01.02.01:EXE b",
    "  - 01.03:CND Else",
    "    - 01.03.01:EXE c",
    "  - 01.99:JMP 01",
    "- 02:EXE d",
    "- 03:LOP each",
    "  - 03.01:EXE e",
    "- 04:JMP 02",
    "- 05:RET",
)


@pytest.mark.parametrize(
    "way",
    [
        "01 01.01 01.02 01.02.01 01.03 01.99 01 02 03 04 02 03 04 05",
        "01 02 03 03.01 03 03.01 04 05",
        "01 01.01 01.01 01 01.01 01.02 01.03 01.03.01 01.99 01 02 03 04 05",
        "01 01.01 01.02 01.02.01 01 02 03 04 05",
    ],
)
def test_the_pointer_goes_where_the_program_leads(way):
    walk = " ".join(f'`Step["P:{label}"]`' for label in way.split())
    play = run(TREE, f"{walk} yld return")
    assert [path.removeprefix("P:") for path in steps(play)] == way.split()


@pytest.mark.parametrize(
    ("at", "to", "over"),
    [
        ("01 01.01", "01.03", ["01.02"]),
        ("01 01.01", "01.02.01", ["01.02"]),
        ("01 01.01", "02", ["01.02", "01.03", "01.99", "01"]),
        ("01 02", "04", ["03"]),
    ],
)
def test_lines_that_do_nothing_by_themselves_are_passed_over(at, to, over):
    walk = " ".join(f'`Step["P:{label}"]`' for label in at.split())
    play = run(TREE, f'{walk} `Step["P:{to}"]` yld return')
    assert [path.removeprefix("P:") for path in steps(play)] == [*at.split(), *over, to]


@pytest.mark.parametrize(
    ("at", "to"), [("01", "01.02"), ("01", "05"), ("01 02", "01"), ("01 02", "05"), ("01 01.01 01.02 01.02.01", "05")]
)
def test_the_pointer_goes_nowhere_else(at, to):
    walk = " ".join(f'`Step["P:{label}"]`' for label in at.split())
    play = run(TREE, f'{walk} `Step["P:{to}"]` yld call', *["x"] * 3)
    assert f"P:{to} cannot follow here" in play.instruction(1)


def test_inputs_are_the_parameters_of_the_entry():
    text = one("- 01:RET", head="P($name, $n=3)")
    play = run(text, '`Step["P:01"]` `Return[[$name, $n]]`', inputs={"name": "Ada"})
    assert play.value == ["Ada", 3]
    for inputs, told in (({"nam": 1}, "no input 'nam'; known: name, n"), ({}, "needs the input name")):
        with pytest.raises(UsageError, match=told):
            run(text, inputs=inputs)


def test_entry_names_the_playbook():
    text = one("- 01:RET", more="## Q\n### Steps\n- 01:RET")
    assert run(text, '`Step["Q:01"]` `Return[2]`', entry="Q").value == 2
    assert run(text, '`Step["Q:01"]` `Return[2]`', entry="A.Q").value == 2
    with pytest.raises(UsageError, match="cannot start with 'X', an unknown playbook; known: P, Q"):
        run(text, entry="X")


def test_begin_playbooks_run_in_the_order_of_the_file_before_any_other():
    text = "# A\n## P\n### Steps\n- 01:RET\n" + "".join(
        f"## {name}\n### Triggers\n- T1:BGN\n### Steps\n- 01:RET\n" for name in ("Q", "R")
    )
    assert run(text, '`Step["Q:01"]` `Return[1]`', '`Step["R:01"]` `Return[2]`').value == 2


SHOP = one(
    "- 01:EXE",
    "- 02:EXE",
    "- 03:RET",
    more="## Offer($code, $total)\n### Triggers\n- T1:CND $amount is over 50\n"
    "### Steps\n- 01:RET\n## Log\n### Triggers\n- T2:EVT when something happens\n### Steps\n- 01:RET",
)
OFFER = 'trig? `Trigger["Offer:01:CND"]` `Offer(code="SPRING", total=$amount)`\n'


def test_a_trigger_is_spent_until_a_variable_changes():
    play = run(
        SHOP,
        f'`Step["P:01"]` `Var[$amount, 99]`\n{OFFER}yld call',
        '`Step["Offer:01"]` `Return[]`',
        "recap - again\n`Var[$amount, 99]`\n" + OFFER + "yld call",
        f"`Var[$amount, 100]`\n{OFFER}yld call",
        '`Step["Offer:01"]` `Return[]`',
        '`Step["P:02"]` `Step["P:03"]` yld return',
    )
    assert play.value is None
    assert '`Trigger["Offer:T1:CND"]` by enqueuing `Offer($code, $total)`' in play.whole(0)
    assert steps(play) == ["P:01", "Offer:01", "Offer:01", "P:02", "P:03"]


def test_a_spent_trigger_queues_nothing_and_is_noted():
    fire = 'trig? `Trigger["Log:T02:EVT"]` `Log()` `Say("twice")`\n'
    play = run(
        SHOP,
        f'`Step["P:01"]`\n{fire}yld call',
        '`Step["Log:01"]` yld return',
        f'{fire}`Step["P:02"]` yld call',
        '`Step["P:03"]` yld return',
    )
    assert play.said == ["twice"]
    assert "note: Log:T2 has fired already" in play.instruction(3)


def test_a_trigger_without_its_call_queues_it_where_no_argument_is_missing():
    play = run(
        SHOP,
        '`Step["P:01"]`\ntrig? `Trigger["Log:2:EVT"]`\nyld call',
        '`Step["Log:01"]` yld return',
        'trig? `Trigger["Offer:1:CND"]`\nyld call',
        '`Step["P:02"]` `Step["P:03"]` yld return',
    )
    assert "what? Offer($code, $total) needs code, total" in play.instruction(3)


def test_a_message_makes_a_trigger_ready_again():
    fire = 'trig? `Trigger["Log:T2:EVT"]` `Log()`\n'
    play = run(
        SHOP,
        f'`Step["P:01"]`\n{fire}yld user',
        '`Step["Log:01"]` yld return',
        f"{fire}yld call",
        '`Step["Log:01"]` yld return',
        '`Step["P:02"]` `Step["P:03"]` yld return',
        user=("hello",),
    )
    assert steps(play).count("Log:01") == 2


def test_notes_say_kind_and_size_and_the_digest_of_what_changed():
    play = run(one("- 01:RET"), '`Var[$a, "abc"]`\n`Step["P:01"]` yld return')
    assert VariableSet("a", "text", 3) in play.done.happened
    ended = next(each for each in play.done.happened if isinstance(each, PhaseEnded))
    assert list(ended.digests) == ["$a"]


def test_a_playbook_without_steps_gets_the_default_ones():
    rest = "".join(f'`Step["Solve:0{n}"]` ' for n in (2, 3, 4, 5, 6))
    play = run("# A\n## Solve\nFind the answer.\n", '`Step["Solve:01:TNK"]` yld call', f"{rest}`Return[42]`")
    assert play.value == 42
    assert "04:CND While $task_status" in play.whole(0)


def test_the_same_replies_make_the_same_run():
    replies = (
        '`Var[$a, {"b": [1]}]`\n`Step["P:01"]` `Say($a)`\nyld call',
        '`Step["P:02"]` `Step["P:03"]` `Return[$a]`',
    )
    one_run, other = run(BROKEN, *replies), run(BROKEN, *replies)
    assert one_run.done.happened == other.done.happened


def test_a_program_that_is_none_halts_with_its_line():
    play = run("# A\n## P\n### Steps\n- 01:FOO\n")
    assert play.report.splitlines() == [
        "Playbook halted: Unknown Code",
        "  Reason: FOO is not a code of a step; known: EXE, TNK, QUE, CND, CHK, RET, JMP, YLD, LOP, ELS",
        "  At: main.pb:4",
        "  Text: - 01:FOO",
    ]


def test_the_state_is_json():
    play = run(one("- 01:RET"), '`Var[$a, "é"]`\n`Step["P:01"]`yld call', "yld return")
    state = json.loads(play.tail(1).partition("```json\n")[2].partition("\n```")[0])
    assert state["call_stack"] == [{"playbook": "P", "line_number": "01", "source_line_number": 4}]
    assert state["variables"] == {"$a": "é"}


def test_a_line_under_a_number_that_is_no_line_has_no_loop_around_it():
    text = one("- 01:EXE", "  - 02.01:EXE", "- 03:RET", more="### Notes\n- N1 be kind")
    play = run(text, '`Step["P:01"]` `Step["P:02.01"]` `Step["P:03"]` yld return')
    assert steps(play) == ["P:01", "P:02.01", "P:03"]
    assert "- N1 be kind" in play.whole(0)

"""The agent loop: the effect of each decision, and how the loop ends."""

import json

import pytest

from stackmem.core.errors import UsageError
from stackmem.core.program_facts import StepEntered, StepFailed
from stackmem.core.requests import Wait
from stackmem.languages.loop_agent.prompt import results_rule
from stackmem.languages.operations import Completion, ToolAnswer

from .stage import AGENT, actions, ask, change, done, for_each, play, step, while_

NOTES = AGENT + "payload: {notes: []}\n"


def test_the_value_is_the_payload_and_the_message_is_said():
    played = play(change(newElements={"notes": ["a"]}), done(), agent=NOTES)
    assert (played.value, played.done.said) == ({"notes": ["a"]}, ["done"])


def test_a_change_without_a_step_is_applied_and_the_loop_goes_on():
    played = play(change(newElements={"notes": ["a"]}), done(), agent=NOTES)
    assert '"a"' in played.last
    assert len(played.asked) == 2


def test_the_request_and_inputs_reach_the_agent():
    played = play(done(), agent=NOTES, options={"request": "Find Ann."}, inputs={"notes": ["seen"]})
    assert played.prompt(0).startswith("Find Ann.")
    assert "seen" in played.prompt(0)


def test_an_unknown_input_names_the_known_ones():
    with pytest.raises(UsageError, match="known: notes"):
        play(done(), agent=NOTES, inputs={"note": 1})


TYPED = "start_schema: {required: [n], properties: {n: {type: integer}}}\n"


def test_a_payload_that_does_not_fit_its_start_schema_is_refused_before_the_run():
    with pytest.raises(UsageError, match="by --input"):
        play(done(), agent=AGENT + TYPED)
    assert play(done(), agent=AGENT + TYPED, inputs={"n": 1}).value == {"n": 1}


def test_the_end_schema_is_not_applied_at_the_start():
    agent = AGENT + "payload: {a: 1}\npayload_schema: {required: [n]}\n"
    played = play(done(**change(newElements={"n": 2})), agent=agent)
    assert played.value == {"a": 1, "n": 2}


def test_the_start_schema_is_not_applied_at_the_end():
    played = play(done(**change(removeElements={"n": "__DELETE__"})), agent=AGENT + TYPED, inputs={"n": 1})
    assert played.value == {}


def test_a_start_schema_may_only_warn():
    played = play(done(), agent=AGENT + "on_start_misfit: warn\n" + TYPED)
    assert "the payload does not fit its start schema: " in played.prompt(0)
    assert [each.reason for each in played.done.happened if isinstance(each, StepFailed)] == [
        "your payload: the payload does not fit its start schema: $.n is missing"
    ]


def test_the_start_schema_of_a_sub_agent_fails_its_call():
    agent = AGENT + f"sub_agents: [{{name: kid, inline: {{name: kid, prompt: q, {TYPED.strip()}}}}}]\n"
    played = play(ask("kid"), done(), agent=agent)
    assert "the payload does not fit its start schema" in played.last
    assert len(played.asked) == 2, "the sub-agent asked no model"


def test_a_change_that_breaks_the_schema_is_told():
    agent = AGENT + "payload: {n: 1}\npayload_schema: {properties: {n: {type: integer}}}\n"
    played = play(change(updateElements={"n": "x"}), done(), agent=agent)
    assert "does not fit its schema now: $.n must be of type integer" in played.last


def test_results_that_break_the_schema_are_told_wherever_they_come_from():
    agent = AGENT + "payload: {n: 1, items: [1]}\npayload_schema: {properties: {n: {type: integer}}}\n"
    agent += "sub_agents: [{name: kid, inline: {name: kid, prompt: q}}]\n"
    call = {"name": "Poll", "outputMapping": "n"}
    steps = (
        step("Actions", actions=[call]), for_each(action=call), while_("payload.n === 1", action=call), ask("kid"),
    )  # fmt: skip
    for asked in steps:
        child = [done(**change(updateElements={"n": "x"}))] if "Sub-Agent" in str(asked) else []
        assert (
            "does not fit its schema now: $.n must be of type integer" in play(asked, *child, done(), agent=agent).last
        )


def test_an_empty_reply_of_the_person_is_told_as_such():
    assert "The person gave an empty reply." in play(step("Chat") | {"message": "Well?"}, done(), answers=(" ",)).last


@pytest.mark.parametrize(
    "reply",
    ["no", '{"a": 1} {"b": 2}', "[1]", '{"nextStep": {"type": "Dance"}}', "x" * 1_000_001, "{" * 101,
     '{"a":' * 500, "```json\nno\n```", '{"taskComplete": 7}', '{"nextStep": []}', "{}"],
    ids=lambda reply: reply[:30],
)  # fmt: skip
def test_a_malformed_reply_is_told_why_and_three_in_a_row_end_the_agent(reply):
    played = play(*[reply] * 3)
    kind, report = played.halted
    assert kind == "Malformed Response"
    assert "3 responses in a row" in report
    assert "Your response could not be used:" in played.last


def test_a_good_reply_begins_the_count_anew():
    played = play("no", "no", actions("poll"), "no", "no", done())
    assert played.value == {}


def test_empty_replies_are_failed_steps_and_ten_in_a_row_end_the_agent():
    played = play(*[""] * 10)
    assert played.halted[0] == "Failed"
    assert "10 steps failed in a row; the last: the reply is empty" in played.halted[1]


def test_bare_retries_end_as_stalled_after_five():
    played = play(*[step("Retry")] * 5)
    assert played.halted[0] == "stalled"
    assert "Nothing was done." in played.last


def test_a_retry_that_keeps_something_is_not_bare():
    played = play(*[{**step("Retry"), "scratchpad": "x"}] * 6, done())
    assert played.value == {}


def test_a_change_that_changes_nothing_is_bare_too():
    assert play(*[change(updateElements={"notes": {}})] * 5, agent=NOTES).halted[0] == "stalled"


def test_expansions_that_fail_are_failed_steps():
    played = play(*[step("Retry", messageIndex=3)] * 10)
    assert played.halted[0] == "Failed"
    assert "Do not request this expansion again" in played.last


def test_an_end_that_is_not_allowed_yet_is_a_failed_step():
    agent = "name: a\nprompt: p\nactions: [{name: Poll, tool: poll, min_runs: 1}]\n"
    assert "these actions must run first: Poll (0 of 1)" in play(*[done()] * 10, agent=agent).halted[1]


def test_retries_stop_at_the_most_runs():
    agent = "name: a\nprompt: p\nactions: [{name: Poll, tool: poll, retries: 5, max_runs: 2}]\n"
    assert len(play(actions("poll"), done(), agent=agent, tool=lambda _: ToolAnswer(None, "error", "no")).calls) == 2


def test_very_long_replies_and_words_do_not_fill_the_prompt():
    played = play("x" * 900_000, {"k" * 90_000: 1, **change(**{"y" * 90_000: 1})}, actions("z" * 90_000), done())
    assert len(played.last) < 320_000
    assert len(play("x" * 900_000, done()).last) < 40_000
    many = change(updateElements={f"k{number}": 1 for number in range(80)})
    assert "- and 30 more" in play(many, done()).last


def test_iterations_are_limited():
    played = play(actions("poll"), actions("poll"), agent=AGENT + "limits: {iterations: 2}\n")
    assert played.halted == (
        "Limit Reached",
        "tester ended in turn 3: Limit Reached. the agent has used its 2 iterations",
    )


def test_tokens_are_limited():
    played = play(actions("poll"), actions("poll"), agent=AGENT + "limits: {tokens: 30}\n")
    assert "30 of its 30 tokens" in played.halted[1]


def test_failures_are_limited_by_the_definition():
    failing = lambda _: ToolAnswer(None, "error", "no")  # noqa: E731
    played = play(actions("poll"), actions("poll"), agent=AGENT + "limits: {failures: 2}\n", tool=failing)
    assert "2 steps failed in a row; the last: Poll: no" in played.halted[1]


def test_an_action_that_fails_three_times_is_said_to():
    failing = lambda _: ToolAnswer({"stdout": "x"}, "exit", "exit 1")  # noqa: E731
    played = play(*[actions("poll")] * 3, done(), tool=failing)
    assert "This action has failed 3 times" in played.last
    assert "**Result:** EXIT — exit 1" in played.last


def test_an_action_is_not_repeated_unless_its_definition_says_so():
    failing = lambda _: ToolAnswer(None, "error", "no")  # noqa: E731
    assert len(play(actions("poll"), done(), tool=failing).calls) == 1
    agent = "name: a\nprompt: p\nactions: [{name: Poll, tool: poll, retries: 2}]\n"
    played = play(actions("poll"), done(), tool=failing, agent=agent)
    assert len(played.calls) == 3
    assert [effect.seconds for effect in played.done.happened if isinstance(effect, Wait)] == [1.0, 2.0]
    hopeless = lambda _: ToolAnswer(None, "bad_arguments", "no")  # noqa: E731
    assert len(play(actions("poll"), done(), tool=hopeless, agent=agent).calls) == 1


def test_independent_actions_that_may_run_together_do_and_answer_in_order():
    played = play(actions("fetch", "fetch", "poll", url="x"), done())
    assert [type(effect).__name__ for effect in played.done.happened].count("Group") == 1
    assert [call.tool for call in played.calls] == ["fetch", "fetch", "poll"]
    assert played.last.index("[#1] ## Fetch Page ✓") < played.last.index("[#3] ## Poll ✓")


def test_an_unknown_action_lists_the_known_ones_and_an_ambiguous_one_its_meanings():
    agent = "name: a\nprompt: p\nactions: [{name: Get One, tool: poll}, {name: Get Two, tool: poll}]\n"
    played = play(actions("dance"), actions("get"), done(), agent=agent)
    assert "unknown action 'dance'; known: Get One, Get Two" in played.last
    assert "'get' could be Get One, Get Two; give the whole name" in played.last
    assert played.calls == []


def test_parameters_are_checked_and_runs_are_counted():
    agent = (
        "name: a\nprompt: p\nactions:\n- {name: Poll, tool: poll, min_runs: 1, max_runs: 1, "
        "params: {type: object, required: [id]}}\n"
    )
    played = play(done(), actions("poll"), actions("poll", id=1), actions("poll", id=2), done(), agent=agent)
    assert "these actions must run first: Poll (0 of 1)" in played.prompt(1)
    assert "BAD_PARAMETERS — $.id is missing" in played.last
    assert "MAX_RUNS — it may run 1 times, and has" in played.last
    assert len(played.calls) == 1


def test_the_seconds_of_a_command_go_to_the_sandbox():
    agent = "name: a\nprompt: p\nactions: [{name: Run, tool: shell}]\n"
    played = play(actions("run", command="ls", timeout_seconds=5), done(), agent=agent)
    assert (played.calls[0].arguments, played.calls[0].timeout_seconds) == ({"command": "ls"}, 5.0)


def test_an_output_mapping_writes_under_the_permissions():
    agent = (
        AGENT.replace("tool: poll", "tool: poll, output_mapping: {status: state, none: x}") + "allowed_paths: [state]\n"
    )
    call = {"name": "fetch", "params": {}, "outputMapping": "elsewhere"}
    answer = lambda _: ToolAnswer({"status": "ok"})  # noqa: E731
    both = step("Actions", actions=[{"name": "poll"}, call])
    played = play(both, done(), agent=agent, tool=answer)
    assert played.value == {"state": "ok"}
    assert "the result has no 'none'" in played.last
    assert "Cannot add 'elsewhere'" in played.last


def test_chat_asks_the_person_and_goes_on():
    played = play({"message": "Which?"}, done(), answers=("the blue one",))
    assert played.questions == ["Which?"]
    assert "The person replied:\nthe blue one" in played.last


def test_commands_are_said_and_never_done():
    link = {"type": "open:url", "label": "See", "url": "https://a.b"}
    note = {"type": "notification", "message": "Saved"}
    played = play(
        {"actionableCommands": [link], "automaticCommands": [note]}, done(actionableCommands=[link]), answers=("ok",)
    )
    assert played.done.said == ["[info] Saved", "[open] See: https://a.b", "[open] See: https://a.b", "done"]


def test_a_form_is_asked_question_by_question_until_it_fits():
    form = {
        "title": "New",
        "questions": [
            {"id": "n", "label": "How many?", "required": True, "helpText": "A guess will do.",
             "type": {"type": "number", "min": 1, "placeholder": "3"}},
            {"id": "c", "label": "Which?", "defaultValue": "x", "type": {"type": "radio", "options": ["x", "y"]}},
            {"id": "t", "label": "Why?", "type": "text"},
            {"id": "m", "label": "All?", "type": {"type": "checkbox", "options": ["x", "y"]}},
        ],
    }  # fmt: skip
    played = play({"message": "Please fill in", "responseForm": form}, done(), answers=("0", "4", "", "", "x,y"))
    assert played.questions[0] == "Please fill in\nNew\nHow many? *\nA guess will do.\n(a number; min 1; such as 3)"
    assert played.questions[1].startswith("That does not do: it must be from 1 to inf.")
    assert played.questions[2].endswith('1. x\n  2. y\n(a number or a value; empty: "x")')
    assert 'The person filled in the form:\n{"n": 4, "c": "x", "t": null, "m": ["x", "y"]}' in played.last


def test_a_question_that_is_never_answered_well_ends_the_agent():
    form = {"questions": [{"id": "n", "label": "How many?", "type": {"type": "number"}}]}
    played = play({"responseForm": form}, answers=("x",) * 10)
    assert played.halted[0] == "Invalid Answer"


def test_what_looks_odd_in_a_change_is_shown_once_more():
    played = play(change(newElements={"notes": ["..."], "_x": 1}, stray=1), done(), agent=NOTES)
    assert "please look at this again: 'notes[0]' contains what looks like a placeholder" in played.last
    assert "'stray' stood outside" in played.last


def test_repairs_are_told():
    played = play('```json\n{"nextStep": {"type": "Retry"},}\n```', done())
    assert "a code fence was taken off\n- trailing commas were taken out" in played.last


def test_a_reply_that_was_cut_off_or_refused_is_no_crash():
    played = play(Completion('{"a', failed="truncated"), Completion("", failed="refused", detail="not this"), done())
    assert "the reply was cut off" in played.prompt(1)
    assert "The step failed: not this." in played.last


def test_a_large_result_is_shown_as_a_table_unless_that_is_off():
    rows = lambda _: ToolAnswer([{"name": f"n{n}", "size": n} for n in range(60)])  # noqa: E731
    assert "[60 rows; columns: name | size; each cell is JSON]" in play(actions("poll"), done(), tool=rows).last
    off = AGENT + "prompt_params: {crushActionResults: false}\n"
    assert "rows; columns" not in play(actions("poll"), done(), tool=rows, agent=off).last


def test_the_prompt_and_the_engine_say_the_same_number_of_turns():
    assert "for ONE turn only" in play(done()).asked[0].system
    assert "for 3 turns only" in play(done(), agent=AGENT + "loop_result_turns: 3\n").asked[0].system
    assert "not shown at all" in results_rule(0, changes=True)
    assert "payloadChangeRequest" not in results_rule(1, changes=False)


def test_the_model_of_the_definition_is_asked():
    assert play(done(), agent=AGENT + "model: other\n").asked[0].model == "other"


def test_a_tool_that_is_not_there_halts_before_the_first_request():
    played = play(agent="name: a\nprompt: p\nactions: [{name: X, tool: nothing}]\n")
    assert played.halted[0] == "Unknown Tool"
    assert "known: shell" in played.halted[1]


def test_a_broken_definition_halts_with_its_place():
    played = play(agent="name: a\nprompt: p\nmood: fine\n")
    assert played.halted[0] == "Invalid Agent"
    assert "/w/main.agent.yaml:3:1: the agent has no `mood`" in played.halted[1]
    assert played.halted[1].endswith("    mood: fine\n    ^")
    assert "syntax" not in play(agent="a: [").halted[1]


def test_replaying_asks_for_the_same_prompts():
    replies = (actions("fetch", "poll"), change(newElements={"a": 1}), done())
    one, two = (play(*replies) for _ in range(2))
    assert one.asked == two.asked
    assert json.dumps(one.value) == json.dumps(two.value)


def test_each_decision_is_noted_in_the_words_of_the_format():
    agent = AGENT + "payload: {items: [1]}\nsub_agents: [{name: kid, inline: {name: kid, prompt: q}}]\n"
    replies = (
        actions("Poll", "Fetch Page"), ask("kid"), done(), for_each(), while_("false"), "no", "", step("Retry"),
        step("retry", messageIndex=9), {"message": "a\nb"}, done("all"),
    )  # fmt: skip
    played = play(*replies, agent=agent, answers=("",))
    noted = [fact.call for fact in played.done.happened if isinstance(fact, StepEntered) and "turn" in fact.path]
    loops = ("ForEach over 1 of items", "While false")
    assert [call for call in noted if call not in loops] == [
        "Actions Poll, Fetch Page", "Sub-Agent kid", "Success: done", "ForEach", "While",
        "Malformed", "Failed", "Retry", "Retry with #9", "Chat: a b", "Success: all",
    ]  # fmt: skip


def test_what_no_tool_was_asked_for_and_what_failed_in_a_loop_is_noted():
    agent = AGENT + "payload: {items: [1, 2]}\n"
    played = play(actions("Poll", "fly"), for_each(action={"name": "fly"}, continueOnError=True), done(), agent=agent)
    noted = [fact.reason for fact in played.done.happened if isinstance(fact, StepFailed)]
    assert "fly was not run: unknown action 'fly'; known: Fetch Page, Poll" in noted
    assert "2 of 2 failed, iteration 1 first: unknown action 'fly'; known: Fetch Page, Poll" in noted

"""A model in a loop gets a notice, then a refusal, then its run ends; also what it reads after a wrong call."""

import pytest
from msgspec.structs import replace

from stackmem.core.facts import (
    CallRejected,
    FramePopped,
    FramePushed,
    NoticeGiven,
    ReplyNudged,
    RunEnded,
    ToolReturned,
)
from tests.build import World, call, do, play, pop, push, reply, started

GUARDED = replace(started(), circles="refused")
READ = do("read_file", path="a.txt")


def codes(played):
    return [event.code for event in played.of(CallRejected)]


def test_three_equal_calls_bring_a_notice_and_the_seventh_is_refused():
    played = play(*[READ] * 6, start=GUARDED)
    assert codes(played) == []
    assert [event.code for event in played.of(NoticeGiven)] == ["repeated"]
    assert "different call" in played.of(NoticeGiven)[0].text
    assert codes(play(*[READ] * 7, start=GUARDED)) == ["repeated"]


def test_a_model_that_keeps_repeating_its_call_ends_as_stalled():
    played = play(*[READ] * 12, start=GUARDED)
    assert codes(played) == ["repeated"] * 3
    assert [event.ending for event in played.of(RunEnded)] == ["stalled"]


def test_another_call_in_between_starts_the_count_again():
    other = do("list_files")
    played = play(READ, READ, other, READ, READ, other, READ, start=GUARDED)
    assert codes(played) == []
    assert played.of(NoticeGiven) == []


def test_a_refused_call_that_is_repeated_without_end_is_stopped_too():
    wrong = do("read_file", file_path="a.txt")
    played = play(*[wrong] * 12, start=GUARDED)
    assert codes(played) == ["bad_arguments"] * 6 + ["repeated"] * 3
    assert played.state.end.ending == "stalled"


class Ticking(World):
    """Each command prints the number of commands so far."""

    commands = 0

    def perform(self, effect):
        answer = super().perform(effect)
        self.commands += 1
        return replace(answer, text=f"tick {self.commands}") if isinstance(answer, ToolReturned) else answer


def test_equal_calls_with_different_results_are_work():
    played = play(*[do("run_command", command="date")] * 8, start=GUARDED, world=Ticking())
    assert codes(played) == []
    assert played.of(NoticeGiven) == []


class FirstDiffers(World):
    """The first write changes the file; later ones do not."""

    commands = 0

    def perform(self, effect):
        answer = super().perform(effect)
        self.commands += 1
        return replace(answer, text="new") if isinstance(answer, ToolReturned) and self.commands == 1 else answer


def test_a_call_whose_first_result_differed_is_counted_from_the_second():
    write = do("write_file", path="a.txt", content="text")
    played = play(*[write] * 8, start=GUARDED, world=FirstDiffers())
    assert codes(played) == ["repeated"]


def test_runs_from_before_the_rule_are_not_changed():
    assert codes(play(*[READ] * 12)) == []


def test_a_result_that_copies_the_tools_own_description_is_refused():
    words = next(tool.description for tool in GUARDED.tools if tool.name == "pop_frame")
    played = play(pop(words), pop("Wrote greet.py and ran it."), start=GUARDED)
    assert codes(played) == ["pop_refused"]
    assert "repeats the description" in played.of(CallRejected)[0].reason
    assert len(played.of(FramePopped)) == 1


def test_a_result_that_copies_the_system_prompt_is_refused():
    start = replace(GUARDED, system="You are a coding agent. Do the work in small steps.")
    played = play(pop("do the work in  small steps"), pop("Wrote greet.py and ran it."), start=start)
    assert codes(played) == ["pop_refused"]
    assert "repeats the system prompt" in played.of(CallRejected)[0].reason


CHECKED = replace(GUARDED, checked=True)


def test_ending_a_checked_run_before_any_tool_was_used_is_refused_once():
    played = play(pop("All done."), pop("All done."), start=CHECKED)
    (refused,) = played.of(CallRejected)
    assert "no call has succeeded yet" in refused.reason
    assert len(played.of(FramePopped)) == 1


def test_a_refused_call_does_not_count_as_work_but_a_command_does():
    wrong = do("read_file", file_path="a.txt")
    assert codes(play(wrong, pop("All done."), start=CHECKED)) == ["bad_arguments", "pop_refused"]
    assert codes(play(do("list_files"), pop("All done."), start=CHECKED)) == []


def test_without_a_check_or_in_a_child_frame_nothing_is_refused():
    assert codes(play(pop("All done."), start=GUARDED)) == []
    assert codes(play(push(objective="Look."), pop("All done."), pop("All done."), start=CHECKED)) == []


def test_a_push_that_hands_on_the_whole_task_is_refused():
    task = GUARDED.task
    played = play(push(objective=f"  {task.upper()} "), push(objective="Write the parser."), start=GUARDED)
    assert codes(played) == ["push_refused"]
    assert len(played.of(FramePushed)) == 1


@pytest.mark.parametrize(
    ("asked", "corrected"),
    [
        (do("bash", command="ls"), '{"name":"run_command","arguments":{"command":"ls"}}'),
        (do("execute_command", cmd="ls"), '{"name":"run_command","arguments":{"command":"ls"}}'),
        (do("create_file", file_path="a", text="b"), '{"name":"write_file","arguments":{"path":"a","content":"b"}}'),
        (do("read_file", filename="a"), '{"name":"read_file","arguments":{"path":"a"}}'),
        (do("write_file", path="a", content=["x"]), '{"name":"write_file","arguments":{"path":"a","content":"..."}}'),
        (do("write_file", path="a"), '{"name":"write_file","arguments":{"path":"a","content":"..."}}'),
    ],
)
def test_a_refusal_shows_the_call_as_it_would_be_accepted(asked, corrected):
    (refused,) = play(asked).of(CallRejected)
    assert corrected in refused.reason


def test_a_name_that_resembles_nothing_gets_the_list_of_tools_and_no_example():
    (refused,) = play(do("paint", color="red")).of(CallRejected)
    assert "the tools are" in refused.reason
    assert "Call it like this" not in refused.reason


def test_the_nudge_shows_a_call_that_only_looks_and_never_suggests_to_finish():
    first, second = (
        play(reply("I would write a file.")).of(ReplyNudged)[0].text,
        play(READ, reply("hm")).of(ReplyNudged)[0].text,
    )
    assert '{"name":"list_files","arguments":{"path":"."}}' in first
    assert '{"name":"read_file","arguments":{"path":"a.txt"}}' in second
    assert "pop_frame" not in first + second


@pytest.mark.parametrize(
    ("text", "example"),
    [
        ('{"result": "replaced 2 places"}', '{"name":"pop_frame","arguments":{"result":"replaced 2 places"}}'),
        (
            'Here:\n```json\n{"path": "a", "content": "b"}\n```',
            '{"name":"write_file","arguments":{"path":"a","content":"b"}}',
        ),
        ('{"path": "a"}', '{"name":"list_files","arguments":{"path":"."}}'),  # read_file accepts that too
        ('{"color": "red"}', '{"name":"list_files","arguments":{"path":"."}}'),
        ('{"result": ' + "[" * 3_000, '{"name":"list_files","arguments":{"path":"."}}'),
        ('{"result": ' + "[" * 3_000 + "]" * 3_000 + "}", '{"name":'),
        ("}{", '{"name":"list_files","arguments":{"path":"."}}'),
        ("{}", '{"name":"list_files","arguments":{"path":"."}}'),
        ("{[1]: 2}", '{"name":"list_files","arguments":{"path":"."}}'),
    ],
)
def test_arguments_without_the_name_of_a_tool_are_answered_with_the_call_that_they_fit(text, example):
    (nudged,) = play(reply(text), start=GUARDED).of(ReplyNudged)
    assert example in nudged.text


@pytest.mark.parametrize(
    ("path", "example"),
    [
        ("src/greet.py", '{"name":"run_command","arguments":{"command":"python3 src/greet.py"}}'),
        ("notes.txt", '{"name":"read_file","arguments":{"path":"notes.txt"}}'),
        ("a;rm -rf b.py", '{"name":"read_file","arguments":{"path":"a;rm -rf b.py"}}'),
        ("-c.py", '{"name":"read_file","arguments":{"path":"-c.py"}}'),
    ],
)
def test_after_a_program_was_written_the_example_runs_it(path, example):
    played = play(do("write_file", path=path, content="x = 1"), reply("Done."), start=GUARDED)
    assert example in played.of(ReplyNudged)[0].text


def test_of_several_calls_read_from_text_the_first_is_made_and_the_others_are_named():
    several = replace(reply(call("read_file", path="a"), call("list_files")), repairs=("read a call from the text",))
    played = play(several)
    assert codes(played) == []
    assert "not performed: one call per reply" in played.answer or "not performed" in str(played.view.messages)

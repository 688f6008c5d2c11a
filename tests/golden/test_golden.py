"""Golden traces: what the rules derive from a script, stored as text to reveal every change of behavior or wording.

`python -m tests.golden.pages` rewrites the files. A changed file means that older traces no longer replay byte for
byte, so it requires a higher `RULES` in core/facts.py. rules.json maps each number to its files.
"""

import pytest

from stackmem.core.facts import RULES, ModelReplied
from tests.build import started
from tests.golden.pages import digest_of, kept, pages, remembered
from tests.golden.stories import STORIES


@pytest.mark.parametrize("name", STORIES)
def test_a_story_is_told_as_the_golden_files_tell_it(name):
    texts, told = pages(name), kept(name)
    assert sorted(told) == sorted(texts)
    for path, text in texts.items():
        assert text == told[path], (
            f"{path} differs; if that is intended, raise RULES and run python -m tests.golden.pages"
        )


def test_a_changed_golden_file_takes_a_higher_number_of_rules():
    texts = {path: text for name in STORIES for path, text in kept(name).items()}
    numbers = remembered()
    assert numbers.get(str(RULES)) == digest_of(texts), (
        f"the files are not those of RULES {RULES}; raise it in core/facts.py, then python -m tests.golden.pages"
    )
    assert max(map(int, numbers)) == RULES, "the rules number can only increase"
    assert len(set(numbers.values())) == len(numbers), "the rules number was raised without any change"


def test_the_calculator_goes_the_way_of_the_worked_example():
    played = STORIES["calculator"]()
    assert [part.name for event in played.of(ModelReplied) for part in event.parts] == [
        "read_file", "heap_alloc",
        "push_frame", "heap_read", "write_file", "run_command", "pop_frame",
        "push_frame", "heap_read", "write_file", "run_command", "pop_frame",
        "heap_free", "pop_frame",
    ]  # fmt: skip
    assert [kind for kind in played.kinds if kind != "ModelReplied"] == [
        "RunStarted", "ToolReturned", "SourcesDigested", "ChunkAllocated",
        "FramePushed", "ChunkRead", "ToolReturned", "ToolReturned", "FramePopped",
        "FramePushed", "ChunkRead", "ToolReturned", "ToolReturned", "VerifyReturned", "FramePopped",
        "ChunkFreed", "FramePopped", "RunEnded", "ChecksReturned",
    ]  # fmt: skip
    assert played.state.outcome == "solved"


def test_the_mishaps_are_of_many_kinds():
    codes = {event.code for event in STORIES["mishaps"]().events if hasattr(event, "code")}
    assert codes == {
        "no_call", "empty", "truncated", "refused", "several_calls", "unknown_tool", "bad_arguments",
        "chunk_exists", "heap_refused", "no_chunk", "no_lines", "push_refused", "constraint", "pop_refused",
        "limit:steps",
    }  # fmt: skip


def test_no_prompt_page_depends_on_the_words_of_prompts_and_tools():
    text = "".join(text for name in STORIES for text in kept(name).values())
    for tool in started().tools:
        assert tool.description not in text
    assert "You are a coding agent" not in text

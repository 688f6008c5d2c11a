"""Artifacts: short ones on the heap, long ones in files."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stackmem.core.budgets import Budgets
from stackmem.core.heap import Heap, faults
from stackmem.core.requests import InvokeTool
from stackmem.core.tools import StoreEntry
from stackmem.languages.frame.artifacts import CHUNK_CHARS, LOADED_CHARS, Artifact, load, plain_name, read, save
from stackmem.languages.operations import ChunkAnswer, KeepChunk, ToolAnswer
from tests.languages.in_memory import Done, run_in_memory


class Files:
    """A workspace that stores what is written to it."""

    def __init__(self) -> None:
        self.held: dict[str, str] = {}

    def answer(self, effect: Any) -> ToolAnswer:
        assert isinstance(effect, InvokeTool)
        path = effect.arguments["path"]
        if effect.tool == "write_file":
            assert effect.arguments["parents"] is True
            self.held[path] = effect.arguments["content"]
            return ToolAnswer()
        return ToolAnswer(self.held[path]) if path in self.held else ToolAnswer(None, "missing", f"no {path}")


def kept(content: Any, name: str = "a", summary: str = "", taken: tuple[str, ...] = ()) -> tuple[Artifact, Done, Files]:
    files = Files()
    done = run_in_memory(save(name, content, summary, taken), files.answer)
    assert isinstance(done.value, Artifact)
    return done.value, done, files


def test_a_short_text_is_a_chunk_and_no_file() -> None:
    artifact, done, files = kept("x" * CHUNK_CHARS, summary="what it is")
    assert done.chunks == {"a": "x" * CHUNK_CHARS}
    assert artifact == Artifact("a", "a", "what it is", CHUNK_CHARS)
    assert files.held == {}


def test_a_longer_text_is_a_file_and_a_chunk_that_names_it() -> None:
    text = "x" * (CHUNK_CHARS + 1)
    artifact, done, files = kept(text, "the report", "what it is")
    assert files.held == {"artifacts/the_report": text}
    assert done.chunks == {"the_report": "what it is\n(2,001 characters, in the file artifacts/the_report)"}
    assert [each.source for each in done.happened if isinstance(each, KeepChunk)] == ["artifacts/the_report"]
    assert run_in_memory(read(artifact), files.answer).value == (text, "")


def test_what_is_loaded_is_head_and_tail_with_a_mark() -> None:
    text = "h" * 40_000 + "t" * 40_000
    artifact, _, files = kept(text)
    shown, failed = run_in_memory(load(artifact), files.answer).value
    assert (len(shown) <= LOADED_CHARS, failed) == (True, "")
    assert shown.startswith("hhh")
    assert shown.endswith("ttt")
    assert " of 80,000 characters left out ...]" in shown


def test_a_value_that_is_no_text_is_kept_as_json() -> None:
    _, done, _ = kept({"n": [1, None]})
    assert done.chunks == {"a": '{"n":[1,null]}'}


def test_two_names_that_become_one_are_refused_and_the_same_name_is_written_over() -> None:
    refused, done, _ = kept("x", "a b", taken=("a_b",))
    assert refused.failed == "'a b' and 'a_b' would be one artifact; rename one"
    assert done.happened == []
    assert kept("x", "a b", taken=("a b",))[0].failed == ""


def test_a_file_that_cannot_be_written_leaves_no_chunk() -> None:
    done = run_in_memory(save("a", "x" * 9_999), lambda _: ToolAnswer(None, "refused", "no room"))
    assert done.value.failed == "the artifact could not be written: no room"
    assert done.chunks == {}


def test_a_heap_that_takes_no_more_says_so_itself() -> None:
    doing = save("a", "x")
    next(doing)
    with pytest.raises(StopIteration) as stop:
        doing.send(ChunkAnswer(failed="the heap is full"))
    assert stop.value.value.failed == "the heap is full"


def test_a_file_that_is_gone_is_said_to_be() -> None:
    assert run_in_memory(load(Artifact("a", "a", file="artifacts/a")), Files().answer).value == ("", "no artifacts/a")


def test_an_empty_text_is_kept() -> None:
    artifact, done, files = kept("")
    assert files.held == {"artifacts/a": ""}
    assert done.chunks == {"a": "(0 characters, in the file artifacts/a)"}
    assert run_in_memory(load(artifact), files.answer).value == ("", "")


@given(st.text(max_size=300), st.text(max_size=300), st.text(min_size=0, max_size=50))
def test_the_heap_takes_every_artifact_there_is(name: str, summary: str, text: str) -> None:
    _, done, _ = kept(text, name or "a", summary)
    for effect in [each for each in done.happened if isinstance(each, KeepChunk)]:
        entry = StoreEntry(effect.name, effect.content, effect.description, effect.source)
        assert faults(Heap(), (entry,), Budgets()) == []


@given(st.text(max_size=200))
def test_no_name_leads_out_of_the_folder(name: str) -> None:
    plain = plain_name(name)
    assert 1 <= len(plain) <= 64
    assert plain[0] not in ".-"
    assert "/" not in plain
    assert plain.isascii()
    assert plain.isprintable()

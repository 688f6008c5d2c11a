"""Runs of third-party agents: they change files outside the harness and keep their own conversation."""

from stackmem.core.facts import CallRejected, FramePopped, FramePushed, SourcesDigested
from tests.build import World, alloc, do, play, pop, push, started, stored

MEMORY = "stackheap:index=delta,tools=memory"


def client(*replies, **files):
    return play(*replies, start=started(MEMORY, client="somebody 1"), world=World(files))


def test_the_sources_are_looked_at_before_every_call_and_a_changed_one_is_stale():
    world = World({"spec.md": "first"})
    start = started(MEMORY, client="somebody 1")
    before = play(alloc("spec", source="spec.md"), do("heap_list"), start=start, world=world)
    assert "STALE" not in before.answer
    assert len(before.of(SourcesDigested)) == 2
    changed = play(alloc("spec", source="spec.md"), do("heap_list"), start=start, world=Changing("spec.md"))
    assert "STALE" in changed.answer


class Changing(World):
    """A file that somebody else changes after each look."""

    def __init__(self, path):
        super().__init__({path: "first"})

    def perform(self, effect):
        given = super().perform(effect)
        self.files = {path: f"{text}." for path, text in self.files.items()}
        return given


def test_a_heap_without_sources_is_not_looked_for():
    assert client(alloc("a"), do("heap_read", name="a"), do("heap_free", name="a")).of(SourcesDigested) == []


def test_the_root_never_pops_and_a_frame_does():
    played = client(pop(), push(), pop("Found.", store=[stored("a")]), pop())
    assert [event.code for event in played.of(CallRejected)] == ["pop_refused", "pop_refused"]
    assert [event.result for event in played.of(FramePopped)] == ["Found."]
    assert played.state.end is None
    assert list(played.state.heap.chunks) == ["a"]


def test_a_frame_has_no_budget_of_steps_that_are_not_ours():
    assert [event.constraint for event in client(push()).of(FramePushed)] == [""]


def test_a_source_that_is_none_is_refused():
    played = client(alloc("a", source="../x"), alloc("b", source="gone"), there="x")
    assert [event.code for event in played.of(CallRejected)] == ["heap_refused", "heap_refused"]


def test_workspace_tools_and_verify_are_not_offered():
    played = client(do("run_command", command="ls"), push(verify="ls"), push(constraint="steps=3"))
    assert [event.code for event in played.of(CallRejected)] == ["unknown_tool", "bad_arguments", "bad_arguments"]

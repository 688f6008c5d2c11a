"""Conversations that continue from their parent's."""

import pytest
from msgspec import json

from stackmem.core.messages import ToolResult
from tests.build import alloc, do, play, pop, push, settled, started

BRANCHES = {
    "fold": (do("branch", name="b", prompt="Look."), do("return", result="Seen.")),
    "stackheap_fork": (push(name="b"), pop("Seen.")),
}


def encoded(view):
    return [json.encode(message) for message in view.messages]


@pytest.fixture(params=BRANCHES)
def nested(request):
    """The root runs a command, branches twice, returns twice, and runs another command."""
    begin, end = BRANCHES[request.param]
    look = do("list_files")
    return play(look, begin, look, begin, look, end, look, end, look, start=started(request.param))


def test_a_childs_first_prompt_starts_with_all_of_its_parents_and_ends_with_its_opening(nested):
    asked = [request.view for request in nested.asked]
    root, child, grandchild = asked[1], asked[2], asked[4]
    for parent, born in ((root, child), (asked[3], grandchild)):
        before, now = encoded(parent), encoded(born)
        assert now[: len(before)] == before
        assert len(now) == len(before) + 2
    opening = grandchild.messages[-1].parts[0]
    assert isinstance(opening, ToolResult)
    assert opening.call_id == grandchild.messages[-2].parts[0].id
    assert "depth 2" in opening.text


def test_a_parent_continues_with_only_the_result(nested):
    asked = [request.view for request in nested.asked]
    before, now = encoded(asked[1]), encoded(asked[8])
    assert now[: len(before)] == before
    assert len(now) == len(before) + 2
    assert asked[8].messages[-1].parts[0].text.endswith("returned:\nSeen.")
    assert "depth 1" not in now[-1].decode()


def test_what_is_shared_is_rendered_as_if_nothing_were(nested):
    for request in nested.asked:
        assert request.view.digest == settled(request.view).digest


def test_a_branch_that_is_taken_again_does_not_see_the_first_ones_steps():
    begin, end = BRANCHES["fold"]
    played = play(begin, do("read_file", path="secret"), end, begin, do("list_files"), start=started("fold"))
    assert "secret" not in "".join(part.decode() for part in encoded(played.view))


def test_a_child_sees_the_current_heap_and_its_parent_the_changes():
    played = play(alloc("a"), push(), alloc("b"), pop(), start=started("stackheap_fork"))
    child, parent = encoded(played.asked[2].view)[-1].decode(), encoded(played.view)[-1].decode()
    assert "HEAP INDEX: 1 chunk" in child
    assert "HEAP INDEX: 2 chunks" in parent


def test_a_branch_counts_its_parents_context_for_its_own():
    begin, _ = BRANCHES["fold"]
    played = play(do("list_files"), begin, start=started("fold"))
    root, branch = played.state.stack
    assert branch.context_tokens >= root.context_tokens

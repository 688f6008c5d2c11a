"""``workday``: a user's requests, of which later ones need the results of earlier ones."""

import re

import pytest

from stackmem.lab.worlds import WORLDS, tasks
from stackmem.lab.worlds.folder import manifest
from stackmem.lab.worlds.kernel import DayRequest
from tests.lab.worlds.worlds import made


def sizes(requests: tuple[DayRequest, ...]) -> list[int]:
    return [request.last - request.first + 1 for request in requests]


@pytest.mark.parametrize("horizon", [10, 17, 60, 300])
def test_the_requests_ask_for_every_unit_once_and_in_order(horizon: int):
    world = made("workday", horizon)
    asked = [unit for one in world.world.requests for unit in range(one.first, one.last + 1)]
    assert asked == list(range(1, len(world.commands) + 1))


def test_a_day_has_fifty_requests_of_five_to_thirty_steps_and_the_fiftieth_is_as_large_as_the_fifth():
    world = made("workday", 850, 1)
    assert len(world.world.requests) == 50
    last_of = {request.last for request in world.world.requests}
    steps, so_far = [], 0
    for call in world.calls:
        so_far += 1
        done = re.match(r"\./work do (\d+)", str(call.args.get("command")))
        if done and int(done[1]) in last_of:
            steps.append(so_far + 1)  # the result is a step too
            so_far = 0
    assert min(steps) >= 5
    assert max(steps) <= 30
    assert abs(sizes(world.world.requests)[49] - sizes(world.world.requests)[4]) <= 1


def test_each_later_request_needs_what_an_earlier_one_found_out():
    world = made("workday", 300).world
    known: set[str] = set()
    for number, request in enumerate(world.requests):
        keys = {need.key for unit in world.units[request.first - 1 : request.last] for need in unit.needs}
        about = {key for key in keys if not key.startswith("repo.")}
        assert about - known, "each request adds something new"
        assert not number or about & known
        known |= keys | {key for unit in world.units[request.first - 1 : request.last] for key in unit.gives}


def test_the_manifest_says_what_the_person_asks_for_and_other_families_have_no_person():
    world = made("workday", 60)
    asked = manifest(world)["requests"]
    assert [text.splitlines()[1] for text in asked] == [
        f"Do units {request.first} to {request.last}." for request in world.world.requests
    ]
    assert "requests" not in manifest(made("ledger", 20))
    assert set(WORLDS) - set(tasks()) == {"workday"}

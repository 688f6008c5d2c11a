import os

import pytest

from tests.workspace.people import NOBODY, PEOPLE, as_user, for_everyone

as_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can switch to another user")


@for_everyone
def test_a_body_runs_as_the_person_who_owns_the_place(place):
    (place / "mine").touch()
    assert (place / "mine").stat().st_uid == os.geteuid() == place.stat().st_uid


@as_root
def test_a_body_runs_as_root_and_as_somebody_without_privileges():
    assert [person.runs(os.geteuid) for person in PEOPLE] == [0, NOBODY]


@as_root
def test_a_user_cannot_go_back_to_be_root():
    with pytest.raises(pytest.fail.Exception, match="PermissionError"):
        as_user(NOBODY, lambda: os.setuid(0))


@as_root
def test_a_failure_in_the_child_fails_the_test_and_says_where():
    def body():
        assert os.getuid() == 1

    with pytest.raises(pytest.fail.Exception, match="in body"):
        as_user(NOBODY, body)


@as_root
def test_a_child_that_dies_fails_the_test():
    with pytest.raises(pytest.fail.Exception, match="without a report"):
        as_user(NOBODY, lambda: os.kill(os.getpid(), 9))

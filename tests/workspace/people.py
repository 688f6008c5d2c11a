"""The users under whom the hostile cases run: root and an unprivileged user, or the user who runs the tests.

A test that takes ``place`` and is decorated with ``@for_everyone`` runs once as each of them. Its body runs in a forked
child that dropped its privileges, so the kernel, not the test, refuses what it may not do.
"""

import contextlib
import functools
import inspect
import os
import pickle
import signal
import tempfile
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from msgspec import Struct

from stackmem.workspace.tree import remove_tree

NOBODY = 65534


class Person(Struct, frozen=True):
    name: str
    uid: int

    def runs(self, work: Callable[[], Any]) -> Any:
        """Run the work as this user and return its result; a failure is raised here with its original location."""
        return work() if self.uid == os.geteuid() else as_user(self.uid, work)


PEOPLE = [Person("root", 0), Person("nobody", NOBODY)] if os.geteuid() == 0 else [Person("user", os.geteuid())]


def as_user(uid: int, work: Callable[[], Any]) -> Any:
    """Run the work in a forked child that has become ``uid`` for good, and return its pickled result."""
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reader)
        with os.fdopen(writer, "wb") as pipe, contextlib.suppress(BaseException):
            pipe.write(pickle.dumps(_report(uid, work)))
        os._exit(0)  # skip pytest's cleanup, because this is a forked copy
    os.close(writer)
    try:
        with os.fdopen(reader, "rb") as pipe:
            answer = pipe.read()
    finally:  # also on pytest's timeout
        with contextlib.suppress(ProcessLookupError):
            os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
    if not answer:
        pytest.fail("the child ended without a report")
    result, failure = pickle.loads(answer)
    if failure:
        pytest.fail(f"as uid {uid}:\n{failure}", pytrace=False)
    return result


def _report(uid: int, work: Callable[[], Any]) -> tuple[Any, str]:
    try:
        os.setgroups([])
        os.setresgid(uid, uid, uid)
        os.setresuid(uid, uid, uid)
        return work(), ""
    except BaseException:  # noqa: BLE001 - an assertion, a skip, an exit: all go to the parent
        return None, traceback.format_exc()


def for_everyone(test: Callable[..., None]) -> Callable[..., None]:
    """Run the test's body as every user in turn; fixtures are created by the user who runs pytest."""

    @functools.wraps(test)
    def as_person(*args: Any, person: Person, **fixtures: Any) -> None:
        person.runs(lambda: test(*args, **fixtures))

    signature = inspect.signature(test)
    theirs = inspect.Parameter("person", inspect.Parameter.KEYWORD_ONLY)
    as_person.everyone = True  # type: ignore[attr-defined]  # for the table of cases
    as_person.__signature__ = signature.replace(parameters=[*signature.parameters.values(), theirs])
    return as_person


@pytest.fixture(params=PEOPLE, ids=lambda person: person.name)
def person(request: pytest.FixtureRequest) -> Person:
    return request.param


@pytest.fixture
def place(person: Person) -> Iterator[Path]:
    """Create an empty directory that belongs to the user, in one that everybody may traverse; removed afterwards."""
    path = Path(tempfile.mkdtemp(prefix="stackmem-test-"))
    path.chmod(0o755)
    os.chown(path, person.uid, -1)
    try:
        yield path
    finally:
        remove_tree(path)

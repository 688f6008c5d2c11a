"""Each effect is performed once, and its fact contains no secret."""

import math
from typing import get_args

import pytest

from stackmem.core.conversation.hook_facts import Hook
from stackmem.core.errors import WorkspaceError
from stackmem.core.facts import (
    ChecksReturned,
    ClockRead,
    ContextCompacted,
    ModelFailed,
    ModelReplied,
    SourcesDigested,
    ToolReturned,
    VerifyReturned,
)
from stackmem.core.log import Log
from stackmem.core.messages import View
from stackmem.core.person_facts import PersonDecided
from stackmem.core.program_facts import SourceLoaded, ToolAnswered
from stackmem.core.requests import (
    AskModel,
    AskPermission,
    AskPerson,
    AskUser,
    AskWords,
    Compact,
    DigestSources,
    Effect,
    InvokeTool,
    LoadSource,
    MergeFrames,
    Parallel,
    ReadClock,
    RunChecks,
    RunFrames,
    RunHook,
    SearchForRecall,
    UseOwnTool,
    UseTool,
    Verify,
    Wait,
    match_effect,
)
from stackmem.core.tools import ListFiles, ReadFile, RunCommand, WriteFile
from stackmem.run.perform import ProgramWorld, World, perform
from stackmem.workspace.outcome import ToolOutcome
from tests.build import SPENT, call, do, play, reply
from tests.run.people import Scripted

SECRET = "hunter22"


class Desk:
    """A workspace that records its requests and answers with a secret."""

    def __init__(self, *, exit_code: int | None = 0, reason: str = "", text: str = f"the key is {SECRET}") -> None:
        self.asked: list[tuple] = []
        self._outcome = ToolOutcome(text, failed=exit_code != 0, exit_code=exit_code, reason=reason)

    def _noted(self, *call: object) -> ToolOutcome:
        self.asked.append(call)
        return self._outcome

    def read_file(self, *given: object) -> ToolOutcome:
        return self._noted("read", *given)

    def write_file(self, *given: object) -> ToolOutcome:
        return self._noted("write", *given)

    def list_files(self, *given: object) -> ToolOutcome:
        return self._noted("list", *given)

    def run_command(self, *given: object) -> ToolOutcome:
        return self._noted("run", *given)

    def digest(self, path: str) -> str:
        return f"digest of {path}"


class Says:
    """A model that answers the same to everything."""

    def __init__(self, answer: ModelReplied | ModelFailed) -> None:
        self._answer = answer

    def reply(self, request: object) -> ModelReplied | ModelFailed:
        return self._answer


class Judge:
    def __init__(self, verdict: ChecksReturned | Exception) -> None:
        self._verdict = verdict

    def judge(self) -> ChecksReturned:
        if isinstance(self._verdict, Exception):
            raise self._verdict
        return self._verdict


def world(desk: Desk | None = None, **changes) -> World:
    given = {
        "model": Says(reply("hello")), "workspace": desk or Desk(), "checks": None, "sync": lambda: None,
        "scrub": lambda text: text.replace(SECRET, "[secret]"), "command_seconds": 12.0,
    }  # fmt: skip
    return World(**{**given, **changes})


@pytest.mark.parametrize(
    ("call", "asked"),
    [
        (ReadFile("a", 2, 3), ("read", "a", 2, 3, 99)),
        (WriteFile("a", "b"), ("write", "a", "b")),
        (ListFiles("a"), ("list", "a", 99)),
        (RunCommand("true"), ("run", "true", 12.0, 99)),
    ],
)
def test_a_tool_is_used_once_and_told_without_secrets(call, asked):
    desk = Desk()
    fact = perform(UseTool(call, 99, ("source.md",)), world(desk))
    assert desk.asked == [asked]
    assert fact == ToolReturned("the key is [secret]", False, 0, {"source.md": "digest of source.md"})


@pytest.mark.parametrize(
    ("code", "reason", "told"),
    [(0, "", "exit 0"), (3, "", "exit 3"), (None, "timeout", "timeout"), (None, "", "killed")],
)
def test_a_verdict_is_the_exit_code_or_why_there_is_none(code, reason, told):
    fact = perform(Verify("make test", ("s",)), world(Desk(exit_code=code, reason=reason)))
    assert fact == VerifyReturned(told, "the key is [secret]", {"s": "digest of s"})


@pytest.mark.parametrize(("limit", "given"), [(12.0, 12.0), (300.0, 30.0)])
def test_a_verify_command_has_thirty_seconds_or_the_commands_own_limit_where_that_is_less(limit, given):
    desk = Desk()
    perform(Verify("make", ()), world(desk, command_seconds=limit))
    assert desk.asked[0][2] == given


def test_of_a_verify_commands_output_the_last_ten_lines_are_kept():
    desk = Desk(text="\n".join(f"line {number}" for number in range(50)))
    fact = perform(Verify("make", ()), world(desk))
    assert fact.text.splitlines() == [f"line {number}" for number in range(40, 50)]
    assert len(perform(Verify("make", ()), world(Desk(text="x" * 9_999))).text) <= 1_000


def test_digests_and_the_clock_are_read_when_asked():
    assert perform(DigestSources(("a", "b")), world()) == SourcesDigested({"a": "digest of a", "b": "digest of b"})
    assert perform(ReadClock(), world(clock=lambda: 12.3456, started=10.0)) == ClockRead(2.346)
    assert perform(ReadClock(), world(clock=lambda: 1.0, started=10.0)) == ClockRead(0.0)
    assert math.isfinite(perform(ReadClock(), world()).elapsed_seconds)


def test_a_reply_is_kept_as_it_is_with_the_digest_of_what_it_answers():
    request = play().upcoming
    answer = reply(f"I saw {SECRET}")
    fact = perform(request, world(model=Says(answer)))
    assert fact.parts == answer.parts
    assert fact.prompt_digest == request.view.digest


def test_of_a_summary_the_texts_are_kept_without_secrets_and_nothing_else():
    ask = play(do("list_files")).upcoming
    effect = Compact(ask, "frame-0", 1)
    answer = reply("first,", call("list_files"), f"then {SECRET}", " ", stop="truncated")
    fact = perform(effect, world(model=Says(answer)))
    digest = ask.view.digest
    assert fact == ContextCompacted("frame-0", 1, "first,\nthen [secret]", SPENT, digest, "truncated")
    nothing = perform(effect, world(model=Says(reply(call("list_files")))))
    assert nothing.text == ""


def test_a_failure_to_summarise_is_the_failure_of_a_request():
    ask = play(do("list_files")).upcoming
    failure = ModelFailed("overloaded", f"busy with {SECRET}")
    fact = perform(Compact(ask, "frame-0", 1), world(model=Says(failure)))
    assert fact == ModelFailed("overloaded", "busy with [secret]", prompt_digest=ask.view.digest)


def test_a_providers_failure_message_is_scrubbed():
    request = play(do("list_files")).upcoming
    fact = perform(request, world(model=Says(ModelFailed("rejected", f"no such key: {SECRET}"))))
    assert (fact.detail, fact.prompt_digest) == ("no such key: [secret]", request.view.digest)


def test_a_verdict_is_scrubbed_also_where_there_is_none():
    told = perform(RunChecks(), world(checks=Judge(ChecksReturned({"reward": 1.0}, SECRET, SECRET))))
    assert told == ChecksReturned({"reward": 1.0}, "[secret]", "[secret]")
    for error in (WorkspaceError(f"no room for {SECRET}"), OSError(28, f"no room for {SECRET}")):
        told = perform(RunChecks(), world(checks=Judge(error)))
        assert told.error.startswith("the checks could not be run: ")
        assert told.error.endswith("no room for [secret]")
    assert perform(RunChecks(), world()).error == "the run has no checks"


class OwnTool:
    def answer(self, arguments: dict) -> ToolAnswered:
        return ToolAnswered(arguments)


ASK = AskModel(View("", (), Log()), 1, 0)
EACH = {
    type(effect): effect
    for effect in (
        ASK, Compact(ASK, "root", 1), AskWords(ASK), UseTool(RunCommand("ls"), 1_000), UseOwnTool("own", {}, 1_000),
        Verify("true"),
        SearchForRecall("a"), RunHook(Hook("before_tool", "true", "hooks.toml"), "{}"),
        DigestSources(("a",)), ReadClock(), RunChecks(), InvokeTool("own"), LoadSource("p"), AskUser("Who?"), Wait(0.0),
        AskPerson(), AskPermission("run_command", "ls"), Parallel(((0, InvokeTool("own")), (1, ASK))),
    )
}  # fmt: skip


PARALLEL_FRAMES = RunFrames, MergeFrames
"""Effects that ``world.parallel`` performs; see test_parallel.py."""


@pytest.mark.parametrize("kind", [kind for kind in get_args(Effect) if kind not in PARALLEL_FRAMES])
def test_every_performed_effect_has_an_answer(kind: type[Effect]) -> None:
    program = ProgramWorld(
        context=None,  # type: ignore[arg-type]  # no built-in tool is called
        load=lambda asked: SourceLoaded(asked.path, failed="none"),
        own_tools={"own": OwnTool()},
    )
    here = world(program=program, person=Scripted("Do.", answers=["Ann"], decisions=[PersonDecided(allow=True)]))
    assert match_effect(EACH[kind], perform(EACH[kind], here)) is not None


@pytest.mark.parametrize("effect", [RunFrames(("frame-1", "frame-2")), MergeFrames((), "", ())])
def test_parallel_frames_without_files_on_disk_are_an_error(effect: RunFrames | MergeFrames) -> None:
    with pytest.raises(WorkspaceError, match="parallel frames cannot run here"):
        perform(effect, world())


def test_each_answer_of_a_parallel_effect_is_given_as_it_arrives() -> None:
    program = ProgramWorld(
        context=None,  # type: ignore[arg-type]  # no built-in tool is called
        load=lambda asked: SourceLoaded(asked.path, failed="none"),
        own_tools={"own": OwnTool()},
    )
    here = world(program=program)
    for _ in range(2):
        both = Parallel(((0, InvokeTool("own", {"a": 1})), (1, InvokeTool("own", {"a": 2}))), most=1)
        assert [perform(both, here), perform(both, here)] == [ToolAnswered({"a": 1}), ToolAnswered({"a": 2}, branch=1)]

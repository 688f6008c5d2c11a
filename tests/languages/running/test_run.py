"""Complete runs of programs: in a sandbox, replayed, killed and resumed."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from stackmem.core.errors import Halted, UsageError
from stackmem.core.program_facts import Said, ToolAnswered
from stackmem.formats.export import export_run
from stackmem.languages.running.prepare import ProgramArguments, find_program, prepare_program
from stackmem.languages.running.run import run_program
from stackmem.review.kept.pack import pack, unpack
from stackmem.review.step_view import view_step
from stackmem.run.fork import ForkChanges, fork
from stackmem.run.opened import Person
from stackmem.run.programs.result import ProgramResult
from stackmem.run.replays.replay import replay_run
from stackmem.run.resume import resume
from stackmem.settings.tools.own_tools import TOOLS, register, tool
from stackmem.trace.open_run import Run
from stackmem.trace.program import keep_source
from tests.languages import tiny
from tests.stage import mounted


@pytest.fixture(autouse=True)
def language() -> Iterator[None]:
    tiny.install()
    kept = dict(TOOLS)
    yield
    tiny.remove()
    TOOLS.clear()
    TOOLS.update(kept)


class Desk:
    """A folder with a program and the settings to run it."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.folder = root / "here"
        self.folder.mkdir(exist_ok=True)
        self.flags = {"runs_dir": str(root / "runs"), "sandbox_dir": str(root / "work")}

    def write(self, text: str, name: str = "main.tiny") -> Path:
        path = self.folder / name
        path.write_text(text, encoding="utf-8")
        return path

    def script(self, *replies: dict[str, Any]) -> None:
        path = self.root / "script.yaml"
        path.write_text(json.dumps({"replies": list(replies)}), encoding="utf-8")
        self.flags["model"] = f"script:{path}"

    def run(self, text: str, answers: tuple[str, ...] = (), **more: Any) -> ProgramResult:
        asked = ProgramArguments(str(self.write(text)), **more)
        ready = prepare_program(asked, self.flags, dict(os.environ), self.folder)
        told = list(answers)
        return run_program(ready, dict(os.environ), Person(lambda _: told.pop(0) if told else None))


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    return Desk(tmp_path)


def folder_of(result: ProgramResult) -> Path:
    return Path(result.run.run_dir)


def test_commands_are_literal_and_their_two_outputs_stay_apart(desk: Desk) -> None:
    result = desk.run("shell printf 'a\\n\\n  b \\033[1m'; echo err >&2; exit 3")
    assert result.run.outcome == "halted"
    answer = next(r.event for r in Run(folder_of(result)).records() if isinstance(r.event, ToolAnswered))
    assert answer.value == {"stdout": "a\n\n  b \x1b[1m", "stderr": "err\n", "exit_code": 3}
    assert (answer.failed, answer.detail) == ("exit", "exit 3")


def test_a_file_that_is_written_is_read_whole_and_stands_in_the_patch(desk: Desk) -> None:
    result = desk.run("write sub/dir/new.txt two words\nread sub/dir/new.txt\nsay [$it]")
    assert result.said == ("[two words]",)
    assert result.run.changed == ("sub/dir/new.txt",)
    assert replay_run(folder_of(result)).outcome == "finished"


@pytest.mark.parametrize(
    ("line", "failed"),
    [
        ("read none.txt", "missing"),
        ("read ../../etc/passwd", "refused"),
        ("write .git/hooks/x y", "refused"),
        ("use shell {}", "bad_arguments"),
        ('use shell {"command": "ls", "cwd": "/"}', "bad_arguments"),
        ('use read_file {"path": 7}', "bad_arguments"),
        ("use nothing_like_it {}", "unknown_tool"),
        ("shell head -c 11000000 /dev/zero | tr '\\0' x", "too_large"),
    ],
)
def test_what_a_tool_cannot_do_is_an_answer_with_its_kind(desk: Desk, line: str, failed: str) -> None:
    result = desk.run(f"tolerate {line}")
    assert result.run.outcome == "finished"
    assert result.value[0] == failed


@mounted
def test_sources_are_read_beside_the_program_and_nowhere_else(desk: Desk) -> None:
    desk.write("beside", "lib.tiny")
    (desk.root / "secret.tiny").write_text("secret", encoding="utf-8")
    assert desk.run("load lib.tiny").value == "beside"
    assert "out of reach" in desk.run("load ../secret.tiny").value
    (desk.folder / "link.tiny").symlink_to(desk.root / "secret.tiny")
    assert "secret" not in desk.run("load link.tiny").value.split()
    assert (
        desk.run("shell echo made > made.tiny\nload /dev/../" + str(desk.folder)[1:] + "/made.tiny").value == "made\n"
    )


def test_a_run_is_replayed_from_the_sources_that_it_kept(desk: Desk) -> None:
    desk.write("before", "lib.tiny")
    result = desk.run("load lib.tiny\nsay $it")
    desk.write("after", "lib.tiny")
    desk.write("say other")
    assert replay_run(folder_of(result)).outcome == "finished"


def test_a_completion_and_a_frame_ask_the_model_and_can_be_looked_at(desk: Desk) -> None:
    desk.script(
        {"text": "a plain answer"},
        {"call": "run_command", "args": {"command": "wc -c .stackmem/in/frame-1/long"}},
        {"call": "pop_frame", "args": {"result": '{"n": 20001}'}},
    )
    result = desk.run("ask what?\nframe Count the long one.")
    assert result.value == {"n": 20001}
    run = Run(folder_of(result))
    assert "what?" in view_step(run, 1).prompt[-1].text
    assert view_step(run, 1).prompt_sent
    assert view_step(run, 2).prompt_sent
    assert replay_run(run.folder).prompts == 3


def test_a_program_that_needs_a_model_and_has_none_ends_resumable(desk: Desk) -> None:
    result = desk.run("ask what?")
    assert (result.run.outcome, result.run.exit_code) == ("model_error", 4)


def test_a_question_without_an_answer_ends_with_code_8_and_is_answered_on_resume(desk: Desk) -> None:
    result = desk.run("user Who?\nsay hi $it")
    assert (result.run.outcome, result.run.exit_code) == ("input_needed", 8)
    again = resume(folder_of(result), {}, dict(os.environ), person=Person(lambda question: f"{question} me"))
    assert again.program is not None
    assert again.program.said == ("hi Who? me",)
    assert replay_run(folder_of(result)).outcome == "finished"


def test_unknown_inputs_leave_nothing_behind(desk: Desk) -> None:
    with pytest.raises(UsageError, match="known: who"):
        desk.run("say x", inputs={"whom": "x"})
    assert not (desk.root / "runs").exists() or not list((desk.root / "runs").iterdir())


def test_a_python_function_is_a_tool_of_programs_and_of_agents(desk: Desk) -> None:
    @tool(idempotent=True)
    def twice(text: str) -> list[str]:
        """Say it twice."""
        return [text, text]

    desk.script(
        {"call": "twice", "args": {"text": "b"}},
        {"call": "twice", "args": {"other": "b"}},
        {"call": "pop_frame", "args": {"result": '{"n": 2}'}},
    )
    result = desk.run('use twice {"text": "a"}\nsay $it\nframe Use it.')
    assert result.said == ("['a', 'a']",)
    texts = [getattr(record.event, "text", "") for record in Run(folder_of(result)).records()]
    assert '["b", "b"]' in texts
    assert any("bad_arguments" in text for text in texts)
    assert Run(folder_of(result)).start.registered == ("twice",)
    TOOLS.clear()
    assert replay_run(folder_of(result)).outcome == "finished"


def test_a_tool_cannot_take_the_name_of_another(desk: Desk) -> None:
    tool(name="mine")(print)
    with pytest.raises(UsageError, match="already exists"):
        tool(name="mine")(print)
    with pytest.raises(UsageError, match="built in"):
        tool(name="shell")(print)
    register([])


NOBODY: Callable[[str], str | None] = {}.get

KILLED = """
import os, sys
sys.path.insert(0, {root!r})
from pathlib import Path
from stackmem.languages.running.prepare import ProgramArguments, prepare_program
from stackmem.run.opened import Person
from stackmem.languages.running.run import run_program
from tests.languages import tiny
tiny.install()
flags = {{"runs_dir": {runs!r}, "sandbox_dir": {work!r}}}
ready = prepare_program(ProgramArguments({program!r}), flags, dict(os.environ), Path({cwd!r}))
run_program(ready, dict(os.environ), Person(lambda question: None))
"""


def test_a_run_that_is_killed_goes_on_and_each_command_ran_once_from_its_view(desk: Desk) -> None:
    lines = "\n".join(f"shell echo {n} >> log.txt; cat log.txt" for n in range(4))
    text = f"{lines}\nshell echo 4 >> log.txt; sleep 2\nshell cat log.txt"
    program = desk.write(text)
    code = KILLED.format(
        root=str(Path(__file__).parents[3]), runs=desk.flags["runs_dir"], work=desk.flags["sandbox_dir"],
        program=str(program), cwd=str(desk.folder),
    )  # fmt: skip
    process = subprocess.Popen([sys.executable, "-c", code])
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline and "4\n" not in log_of(desk):
        time.sleep(0.02)
    process.send_signal(signal.SIGKILL)
    process.wait()
    run_dir = next((desk.root / "runs").iterdir())
    again = resume(run_dir, {"max_seconds": "60"}, dict(os.environ), person=Person(NOBODY))
    assert again.outcome == replay_run(run_dir).outcome == "finished"
    answers = [r.event for r in Run(run_dir).records() if isinstance(r.event, ToolAnswered)]
    assert [answer.value["stdout"] for answer in answers[:4]] == ["0\n", "0\n1\n", "0\n1\n2\n", "0\n1\n2\n3\n"]
    assert log_of(desk) == "0\n1\n2\n3\n4\n"


def log_of(desk: Desk) -> str:
    found = list((desk.root / "work").glob("*/*/log.txt"))
    return found[0].read_text(encoding="utf-8") if found else ""


def test_ten_thousand_steps_in_memory_are_small_in_the_trace(desk: Desk) -> None:
    result = desk.run("repeat 10000")
    size = (folder_of(result) / "trace.jsonl").stat().st_size
    assert result.value == 49_995_000
    assert size / 10_000 < 2_048
    assert not [record for record in Run(folder_of(result)).records() if isinstance(record.event, Said)]


def test_a_fork_goes_on_with_the_program_from_where_it_was_cut(desk: Desk) -> None:
    reply = {"call": "pop_frame", "args": {"result": '{"n": 1}'}}
    desk.script({"text": "first"}, reply)
    result = desk.run("ask what?\nsay $it\nframe Do it.\nsay done $it")
    desk.script({"text": "first"}, {"call": "pop_frame", "args": {"result": '{"n": 2}'}})
    forked = fork(folder_of(result), 1, ForkChanges(), dict(os.environ))
    assert forked.result.outcome == "finished"
    run = Run(Path(forked.result.run_dir))
    assert [r.event.text for r in run.records() if isinstance(r.event, Said)] == ["first", "done {'n': 2}"]
    assert replay_run(run.folder).outcome == "finished"
    with pytest.raises(UsageError, match="run it again"):
        fork(folder_of(result), 0, ForkChanges(), dict(os.environ))


@pytest.mark.parametrize("form", ["atif", "chrome", "csv", "mini", "otel", "sft"])
def test_a_programs_run_is_exported_like_any_other(desk: Desk, form: str) -> None:
    desk.script({"text": "first"}, {"call": "pop_frame", "args": {"result": '{"n": 1}'}})
    result = desk.run("enter a b\nask what?\nleave x\nframe Do it.")
    pieces: list[bytes] = []
    export_run(folder_of(result), form, pieces.append, out=None, endpoint=None, content=False)
    assert b"".join(pieces)


def test_an_archive_of_a_programs_run_has_its_sources_and_can_be_replayed(desk: Desk) -> None:
    desk.write("lib", "lib.tiny")
    result = desk.run("load lib.tiny\nsay $it")
    pack(folder_of(result), desk.root / "run.zip")
    into = desk.root / "elsewhere"
    into.mkdir()
    assert replay_run(unpack(desk.root / "run.zip", into)).outcome == "finished"


def test_own_tools_that_may_run_beside_others_do_and_their_answers_keep_the_order(desk: Desk) -> None:
    met = threading.Barrier(2, timeout=100)

    @tool(parallel=True)
    def meet(name: str) -> str:
        met.wait()
        return name

    result = desk.run('both use meet {"name": "a"} & use meet {"name": "b"}')
    assert result.value == ["a", "b"]
    assert replay_run(folder_of(result)).outcome == "finished"


def test_a_call_of_an_own_tool_that_may_have_been_made_is_made_again_only_when_told(desk: Desk) -> None:
    calls: list[str] = []

    @tool
    def send(text: str) -> str:
        calls.append(text)
        if len(calls) == 1:
            raise KeyboardInterrupt
        return "sent"

    result = desk.run('use send {"text": "hi"}')
    assert result.run.outcome == "interrupted"
    with pytest.raises(UsageError, match="pass --yes to repeat it"):
        resume(folder_of(result), {}, dict(os.environ))
    assert calls == ["hi"]
    again = resume(folder_of(result), {"yes": "true"}, dict(os.environ))
    assert (again.outcome, calls) == ("finished", ["hi", "hi"])
    assert replay_run(folder_of(result)).outcome == "finished"


def test_a_long_input_of_a_frame_is_no_change_of_the_run(desk: Desk) -> None:
    desk.script(
        {"call": "run_command", "args": {"command": "cat .stackmem/in/frame-1/long > kept.txt"}},
        {"call": "pop_frame", "args": {"result": '{"n": 1}'}},
    )
    result = desk.run("frame Count.")
    assert result.run.changed == ("kept.txt",)
    assert b".stackmem" not in (folder_of(result) / "changes.patch").read_bytes()


def test_secrets_stand_nowhere_in_the_runs_folder(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    secret = "sk-very-secret-value-123456"
    monkeypatch.setenv("MY_API_KEY", secret)

    @tool
    def leak() -> Any:
        return {"a": [secret, {secret: 1}]}

    desk.write(secret, "lib.tiny")
    text = f"use leak {{}}\nload lib.tiny\nshell echo {secret}\nwrite a {secret}\nread a\nuser {secret}?\nsay $who $it"
    result = desk.run(text, answers=(secret,), inputs={"who": secret})
    assert result.said == ("[secret MY_API_KEY] [secret MY_API_KEY]",)
    holding = [path for path in folder_of(result).rglob("*") if path.is_file() and secret.encode() in path.read_bytes()]
    assert not holding
    assert replay_run(folder_of(result)).outcome == "finished"


def test_half_a_character_ends_no_run_wherever_it_comes_from(desk: Desk) -> None:
    popped = {"call": "pop_frame", "args": {"result": '{"n": 2, "b": "\\udc00"}'}}
    desk.script({"text": '{"n": 1, "a": "\\ud800"}'}, popped)
    result = desk.run("ask_json what?\nsay $it\nframe Do it.", inputs={"who": "\ud800"})
    assert result.value == {"n": 2, "b": "�"}
    assert replay_run(folder_of(result)).outcome == "finished"
    with pytest.raises(UsageError, match="nested more than 200"):
        desk.run("say x", inputs={"who": json.loads("[" * 300 + "]" * 300)})


def test_a_source_is_kept_under_its_digest_with_nothing_beside_it(tmp_path: Path) -> None:
    digests = {keep_source(tmp_path, text) for text in ("one", "two", "one")}
    found = {path.name: path.read_text("utf-8") for path in (tmp_path / "sources").iterdir()}
    assert found.keys() == digests
    assert sorted(found.values()) == ["one", "two"]


@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("part.tool.apl", "cannot be run; check it with stackmem lint"),
        ("pipe.tiny", "is not a regular file"),
        ("none.tiny", "no program"),
    ],
)
def test_what_is_no_program_is_said_in_words(desk: Desk, name: str, told: str) -> None:
    desk.write("", "part.tool.apl")
    os.mkfifo(desk.folder / "pipe.tiny")
    with pytest.raises(UsageError, match=told):
        prepare_program(ProgramArguments(name), desk.flags, dict(os.environ), desk.folder)


def test_a_folders_program_may_have_any_ending_of_its_language_but_only_one_may_be_there(desk: Desk) -> None:
    desk.write("# Main\n", "main.playbook.md")
    assert find_program(".", None, desk.folder)[0].name == "main.playbook.md"
    desk.write("say x")
    with pytest.raises(UsageError, match="name the one"):
        find_program(".", None, desk.folder)
    with pytest.raises(UsageError, match="Module Entry Point Not Found"):
        find_program(".", "sexp", desk.folder)
    with pytest.raises(Halted, match="Module Entry Point Not Found"):
        find_program(".", "apl", desk.folder)

"""Check in a process of an edited copy of the package that each addition of docs/extending.md works."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import msgspec

import stackmem
from stackmem.cli.screen.progress import Progress
from stackmem.core import facts
from stackmem.core.pricing import Price
from stackmem.core.state import State
from stackmem.doors.chat.commands import IN_EDITORS, Look
from stackmem.formats.recordings import IMPORTERS, guess
from stackmem.formats.recordings.session import RecordingFile
from stackmem.lab.bench.intervals import Interval
from stackmem.lab.comparison.columns import columns
from stackmem.lab.comparison.figures import Line, Section, Wants, means
from stackmem.languages.language import Launch, language_of
from stackmem.languages.running.opening import open_language
from stackmem.memory import open_strategy
from stackmem.review.measure.metrics import METRICS
from stackmem.settings.options import OPTIONS


def main(package: str, place: str) -> None:
    """Solve a task with the new model, strategy and level under the new limit, and use the other parts."""
    assert Path(stackmem.__file__).parent == Path(package)
    task = Path(place, "task")
    more: dict[str, Any] = {"runs_dir": f"{place}/runs", "sandbox_dir": f"{place}/work", "fsync": "none"}
    solved = stackmem.solve(task, model="quiet/one", strategy="brief", isolation="plain", max_requests=9, **more)
    assert (solved.outcome, solved.model, solved.strategy) == ("solved", "quiet/one", "brief"), solved
    assert open_strategy("brief").name == "brief"
    limited = stackmem.solve(task, model="demo", max_requests=1, isolation="plain", **more)
    assert limited.ending == "limit:requests", limited
    assert "1 requests" in prompt_of(limited.run_dir)
    assert OPTIONS["max_requests"].flag == "--max-requests"
    check_the_metric()
    check_the_recording()
    check_the_event()
    check_the_chat_command()
    check_the_language()


def prompt_of(run_dir: str) -> str:
    """Return the first prompt of a run as text."""
    state = State()
    strategy = None
    for record in stackmem.open_run(run_dir).records():
        if isinstance(record.event, facts.ModelReplied):
            assert strategy is not None
            return str(strategy.render(state))
        state = stackmem.evolve(state, record.event)
        strategy = open_strategy(state.begun.strategy)
    raise AssertionError(run_dir)


def check_the_metric() -> None:
    assert "failed_requests" in METRICS
    assert "failed_requests" in means()
    line = Line("full", 1, 0, {"failed_requests": Interval(1.0, None, None, 1)}, {}, 1)
    section = Section("all", "demo", "", "", 0.0, (line,))
    shown = columns(section, Wants(Price(1.0, 1.0, 1.0, 1.0, 1.0, "a test"), ""))
    assert [column.title for column in shown] == ["failed"], shown


def check_the_recording() -> None:
    file = RecordingFile(b'{"diary": "Do it.", "entries": ["Done."]}', "diary.json")
    assert guess(file) == "diary"
    (session,) = IMPORTERS["diary"](file)
    assert (session.task, len(session.turns)) == ("Do it.", 1)


def check_the_event() -> None:
    remarked = facts.Remarked("well done")  # type: ignore[attr-defined]
    state = State()
    assert stackmem.evolve(state, remarked) is state
    assert msgspec.json.decode(msgspec.json.encode(remarked), type=facts.Event) == remarked
    assert Progress().lines(remarked, state) == ["   0  a remark -> well done"]


def check_the_chat_command() -> None:
    told: list[str] = []
    assert "steps" in IN_EDITORS
    assert Look(told.extend, lambda *lines: told.extend(lines), str)("/steps", "", State(), Path())
    assert told == ["0 replies"]


def check_the_language() -> None:
    assert language_of("main.echo") == "echo"
    program = open_language("echo").start(Launch("/main.echo", "one\ntwo"))
    assert [said.text for said in program] == ["one", "two"]


if __name__ == "__main__":
    main(*sys.argv[1:])

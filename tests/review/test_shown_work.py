"""Long work shows how far it is and the time to go; every command fits its terminal without torn words."""

import re
from types import SimpleNamespace

import pytest

from stackmem.cli.screen.text import fitted, spell_seconds
from stackmem.formats.commands import import_
from stackmem.lab.commands import evidence as evidence_command
from stackmem.lab.commands import report, whatif
from stackmem.review import shown_work as work
from stackmem.review.commands import replay, view
from stackmem.review.shown_work import line_of, shown_work
from stackmem.trace.long_work import counted, report_work, tracked, unwatched, watched_work
from tests.cli.terminal import Terminal
from tests.stage import Stage, command, pop

LONG = "python3 -c 'print(1)' && echo " + " ".join(f"word{number}" for number in range(40))
WIDTHS = (60, 80, 100, 120)


def test_work_is_reported_to_its_watcher_only():
    seen = []
    with watched_work(lambda *what: seen.append(what)):
        assert list(tracked("ab", "letters")) == ["a", "b"]
        assert list(counted(range(150), "facts"))[-1] == 149
        assert unwatched(lambda name: report_work(name, 1, 1) or name, "inner") == "inner"
    report_work("after", 1, 1)
    assert seen == [("letters", 0, 2), ("letters", 1, 2), ("letters", 2, 2), ("facts", 0, 0), ("facts", 100, 0)]


def test_a_line_has_the_total_and_the_time_to_go():
    assert line_of("recordings", 100, 400, 60.0) == "recordings: 100 of 400, 1 min 0 s, about 3 min 0 s to go"
    assert line_of("recordings", 400, 400, 60.0) == "recordings: 400 of 400, 1 min 0 s"
    assert line_of("facts", 1200, 0, 2.0) == "facts: 1,200, 2 s"
    assert [spell_seconds(at) for at in (0, 59.6, 3_661)] == ["0 s", "1 min 0 s", "1 h 1 min"]


def test_without_a_terminal_a_line_is_printed_now_and_then(monkeypatch, capsys):
    now = iter(range(0, 1_000, 6))
    monkeypatch.setattr(work, "time", SimpleNamespace(monotonic=lambda: next(now)))  # not for other threads
    with shown_work():
        for done in range(6):
            report_work("recordings", done, 6)
    printed = capsys.readouterr().err.splitlines()
    assert 2 <= len(printed) <= 4
    assert printed[-1].endswith("to go")


@pytest.mark.parametrize("module", [evidence_command, whatif, report, import_, replay, view])
def test_every_long_command_shows_its_work(module):
    assert module.shown_work is shown_work


@pytest.mark.parametrize("cells", [10, 20, 40])
def test_a_line_is_cut_between_words(cells):
    line = "  3    run_command pytest -q tests/one tests/two"
    cut = fitted(line, cells)
    assert len(cut) <= cells
    assert not cut.endswith("…") or cells < 12 or cut.endswith(" …")
    assert fitted("x" * 99, cells) == "x" * (cells - 1) + "…"


def lines_at(stage: Stage, width: int, *arguments: object, fresh: bool = False) -> tuple[str, list[str]]:
    """Return the raw output at a terminal of this width, and the lines that a user sees."""
    environ = {"TERM": "xterm-256color"}
    command, variables = stage.arguments(*arguments), stage.environ(environ)
    with Terminal(command, variables, stage.elsewhere, width, fresh=fresh) as terminal:
        terminal.end()
        raw, shown = terminal.raw.decode(), terminal.shown()
    return raw, [line for line in re.split(r"[\r\n]+", shown) if line.strip()]


def too_long(lines: list[str], width: int) -> list[str]:
    return [line for line in lines if len(line) > width]


def test_solve_runs_and_whatif_fit_the_terminal(stage: Stage):
    task = stage.task(
        command(LONG), command("sleep 1.6"), pop("Done: " + " ".join(["result"] * 30)), text=f"Do {LONG}."
    )
    for width in WIDTHS:
        raw, lines = lines_at(stage, width, "solve", task)
        assert too_long(lines, width) == []
        assert any(re.match(r"run_command sleep 1.6, 1 s", line) for line in lines)
        solved = next(line for line in lines if line.startswith("solved (popped) in 3 steps"))
        assert "\x1b[32msolved" in raw, solved
        for arguments in (("runs",), ("whatif", "last", "--strategies", "full,mask,stackheap,summary")):
            raw, lines = lines_at(stage, width, *arguments)
            assert too_long(lines, width) == [], arguments
        answers = [line for line in lines if "which was recorded" in line or line.startswith("No strategy would")]
        assert next(line for line in lines if " to go " not in line) == answers[0]
        bills = [float(found[1]) for line in lines if (found := re.search(r"\$[\d.]+ +([\d.]+)", line))]
        assert bills == sorted(bills)
        assert len(bills) >= 3


@pytest.mark.parametrize("width", [60, 120])
def test_a_bench_fits_the_terminal_and_ends_with_its_answer(stage: Stage, width):
    bench = (
        "bench", "env_trap", "--strategies", "full,stackheap,window:20", "--models", "sim/bounded-reader",
        "--trials", "1", "--horizon", "20", "--isolation", "memory", "--fsync", "none", "-o", "b",
    )  # fmt: skip
    _, lines = lines_at(stage, width, *bench, fresh=True)  # a fork cannot start the workers of a bench
    assert too_long([line for line in lines if not line.startswith("results: ")], width) == []
    assert any(line.startswith(("full ", "stackheap ", "window:20 ")) and "solved" in line for line in lines)

"""A program calls other models in addition to the run's own; the costs of all replies add up."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from msgspec.structs import replace

from stackmem.core.budgets import Limits
from stackmem.core.errors import UsageError
from stackmem.core.facts import ModelReplied
from stackmem.core.limits import spent_limit
from stackmem.core.log import Log
from stackmem.core.machine import fold
from stackmem.core.messages import Message, Text, Usage, View
from stackmem.core.pricing import Answerer, Price, cost_usd
from stackmem.core.requests import AskModel
from stackmem.languages.language import Launch, Reading
from stackmem.languages.running.prepare import ProgramArguments, prepare_program, with_outline
from stackmem.languages.running.run import run_program
from stackmem.models.registry import Model, Scripted, open_model
from stackmem.review.report.view import read_runs
from stackmem.run.fork import ForkChanges, fork
from stackmem.run.models import Models, open_other
from stackmem.run.opened import Person
from stackmem.run.replays.replay import replay_run
from stackmem.run.resume import resume
from stackmem.settings.settings import Settings, resolve
from stackmem.trace.open_run import Run
from stackmem.trace.record import Record
from stackmem.trace.steps import total_usd
from tests.build import PRICE, SPENT, started
from tests.languages.running.test_run import Desk, desk, folder_of, language  # noqa: F401 - fixtures
from tests.providers.chat_server import ChatServer
from tests.stage import command, pop, push

ASK = AskModel(View("", (), Log([Message("user", (Text("Say something."),))])), step=1, facts=0)
DEAR = Price(100.0, 200.0, 0.0, 0.0, 0.0, "a test")


def script(path: Path, *replies: object) -> Path:
    path.write_text(json.dumps({"replies": list(replies)}), encoding="utf-8")
    return path


def test_a_completion_and_a_frame_are_answered_by_the_models_they_name(desk: Desk) -> None:  # noqa: F811
    desk.script({"text": "own"})
    script(desk.folder / "one.yaml", {"text": "skipped"}, {"text": "of the first"})
    script(
        desk.folder / "two.yaml", *[{"text": "skipped"}] * 2, push(), command("true"), pop("deep"), pop("of a frame")
    )
    text = "ask a?\nsay $it\nask_by script:one.yaml b?\nsay $it\nframe_by script:two.yaml Work.\nsay $it"
    result = desk.run(text)
    assert result.said == ("own", "of the first", "of a frame")
    run = Run(folder_of(result))
    replies = [record.event for record in run.records() if isinstance(record.event, ModelReplied)]
    named = [Path(reply.answerer.model).name if reply.answerer else "" for reply in replies]
    assert named == ["", "one.yaml", "two.yaml", "two.yaml", "two.yaml", "two.yaml"]
    assert replay_run(folder_of(result)).outcome == "finished"


def test_a_model_that_cannot_be_opened_ends_the_run_resumable(desk: Desk) -> None:  # noqa: F811
    result = desk.run("ask_by nosuch/model b?")
    assert result.run.ending == "model_error"
    assert "no model 'nosuch/model'" in result.run.failure


def test_costs_add_up_over_models_with_different_prices() -> None:
    said = ModelReplied((Text("said"),), "end", SPENT)
    other = replace(said, answerer=Answerer("other", DEAR, 7_000))
    state = fold([started(price=PRICE), said, other])
    assert state.cost_usd == pytest.approx(cost_usd(SPENT, PRICE) + cost_usd(SPENT, DEAR))
    assert fold([started(), other]).cost_usd == pytest.approx(cost_usd(SPENT, DEAR))
    assert fold([started(price=PRICE), said, replace(said, answerer=Answerer("other"))]).cost_usd is None
    assert fold([started(price=PRICE), said, ModelReplied((), "end", Usage(), answerer=Answerer("x"))]).cost_usd
    records = [Record(number, 0.0, event) for number, event in enumerate((started(price=PRICE), said, other), 1)]
    assert total_usd(records) == pytest.approx(state.usd)


def test_the_window_of_a_frame_is_that_of_the_model_that_works_in_it() -> None:
    state = fold([started(), ModelReplied((Text("said"),), "end", SPENT, answerer=Answerer("other", DEAR, 7_000))])
    assert state.window_tokens == 7_000
    assert state.shown_bytes == int(7_000 / 8 * 2.5)


def test_a_limit_of_cost_holds_where_only_the_other_model_has_a_price() -> None:
    start = started(limits=Limits(usd=0.001))
    state = fold([start, ModelReplied((Text("said"),), "end", SPENT, answerer=Answerer("other", DEAR))])
    assert spent_limit(state) == "limit:usd"


def settings(tmp_path: Path) -> Settings:
    return resolve({}, {}, tmp_path).settings


def test_a_model_without_a_known_price_is_refused_where_a_limit_of_cost_is_to_hold(tmp_path: Path) -> None:
    environ = {"OPENAI_API_KEY": "k"}
    with pytest.raises(UsageError, match="5 USD cannot be enforced"):
        open_other("openai/x", settings(tmp_path), tmp_path, Limits(usd=5.0), environ)
    assert open_other("openai/x", settings(tmp_path), tmp_path, Limits(), environ).name == "openai/x"
    script(tmp_path / "s.yaml", {"text": "free"})
    assert open_other("script:s.yaml", settings(tmp_path), tmp_path, Limits(usd=5.0), {}).price is None


def test_each_model_is_opened_once_and_the_runs_own_is_not_opened_again(tmp_path: Path) -> None:
    opened: list[str] = []
    own = open_model(f"script:{script(tmp_path / 's.yaml', {'text': 'said'})}", {})

    def open_named(name: str) -> Model:
        opened.append(name)
        return Scripted(name, 7_000, own.script, DEAR)  # type: ignore[attr-defined]

    models = Models(own, open_named)
    for name in ("", own.name, "other", "other"):
        answer = models.reply(replace(ASK, model=name))
        assert isinstance(answer, ModelReplied)
        assert bool(answer.answerer) is (name == "other")
    assert opened == ["other"]


def test_a_run_that_ended_for_want_of_a_model_goes_on_with_one(desk: Desk) -> None:  # noqa: F811
    first = desk.run("say before\nask what?\nsay $it\nask more?\nsay $it")
    assert first.run.ending == "model_error"
    assert "--model NAME" in first.run.failure
    replies = script(desk.root / "late.yaml", {"text": "skipped"}, {"text": "said at last"})
    again = resume(folder_of(first), {"model": f"script:{replies}"}, dict(os.environ))
    assert again.program is not None
    assert again.program.said == ("said at last",)  # the script was exhausted at the next one
    assert again.result is not None
    assert again.result.model == f"script:{replies}"
    script(replies, *[{"text": "skipped"}] * 3, {"text": "and the rest"})
    last = resume(folder_of(first), {}, dict(os.environ))
    assert last.program is not None
    assert last.program.said == ("and the rest",)
    assert replay_run(folder_of(first)).outcome == "finished"


def test_a_run_that_has_a_model_is_not_given_another_one(desk: Desk) -> None:  # noqa: F811
    desk.script({"text": "the one reply there is"})
    first = desk.run("ask what?\nask more?")
    with pytest.raises(UsageError, match="omit --model, or switch models with stackmem fork"):
        resume(folder_of(first), {"model": "human"}, dict(os.environ))


def test_a_model_without_a_price_is_refused_on_resume_where_a_limit_of_cost_is_to_hold(desk: Desk) -> None:  # noqa: F811
    first = desk.run("ask what?")
    with ChatServer() as server, pytest.raises(UsageError, match="5 USD cannot be enforced"):
        resume(folder_of(first), {"model": "openai/x"}, dict(os.environ) | {"OPENAI_BASE_URL": server.url})


def test_a_language_that_says_which_models_it_asks_has_them_opened_before_the_run(desk: Desk) -> None:  # noqa: F811
    def models(launch: Launch) -> Reading:
        yield from ()
        return tuple(line.split()[1] for line in launch.text.splitlines() if line.startswith("ask_by"))

    asked = prepare_program(ProgramArguments(str(desk.write("ask_by nosuch/model b?"))), desk.flags, {}, desk.folder)
    ready = with_outline(replace(asked, language=replace(asked.language, models=models)))
    assert ready.request.others == ("nosuch/model",)
    with pytest.raises(UsageError, match="no model 'nosuch/model'"):
        run_program(ready, dict(os.environ), Person(lambda _: None))
    assert not [path for path in (desk.root / "runs").glob("*") if path.is_dir()]


def test_a_run_that_was_given_a_model_is_shown_with_it(desk: Desk) -> None:  # noqa: F811
    first = desk.run("ask what?\nsay $it")
    replies = script(desk.root / "late.yaml", {"text": "skipped"}, {"text": "said"})
    resume(folder_of(first), {"model": f"script:{replies}"}, dict(os.environ))
    page = read_runs((folder_of(first),)).runs[0]
    assert (page.model, page.unrendered, len(page.steps)) == (f"script:{replies}", "", 1)


def test_a_fork_of_a_run_that_was_given_a_model_has_it(desk: Desk) -> None:  # noqa: F811
    first = desk.run("ask what?\nask more?\nsay $it")
    replies = script(desk.root / "late.yaml", *({"text": text} for text in ("skipped", "a", "b")))
    resume(folder_of(first), {"model": f"script:{replies}"}, dict(os.environ))
    forked = fork(folder_of(first), 1, ForkChanges(), dict(os.environ))
    assert (forked.result.outcome, forked.result.model) == ("finished", f"script:{replies}")

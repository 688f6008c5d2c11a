"""The pages' data requests: rows, runs, benches, and commands shown before they run."""

import json
import shutil

import pytest
from starlette.testclient import TestClient

from stackmem.core.errors import UsageError
from stackmem.doors.ui.app import MAX_COMPARED, Studio
from stackmem.doors.ui.commands import command_of
from stackmem.doors.ui.places import Places
from tests.review.report import runs
from tests.review.report.bench_rows import row
from tests.stage import UNSOLVED, eventually, pop

HERE = "http://127.0.0.1:8765"
TOKEN = "token-of-the-test"


def opened(*folders):
    studio = Studio(Places(folders))
    studio.places.refresh()
    client = TestClient(studio.app(TOKEN, frozenset({"127.0.0.1:8765"})), base_url=f"{HERE}/{TOKEN}")
    client.headers["origin"] = HERE
    return studio, client


@pytest.fixture
def three(stage):
    solved, failed = stage.task(pop(), name="good"), stage.task(pop(), name="bad", test=UNSOLVED)
    for task in (solved, failed, solved):
        stage.solve(task)
    return stage.runs


def rows(client, query=""):
    answer = client.get(f"/rows?{query}")
    assert answer.status_code == 200, answer.text
    return answer.json()


def test_rows_are_searched_filtered_sorted_and_cut(three):
    _, client = opened(three)
    assert rows(client)["outcomes"] == {"solved": 2, "unsolved": 1}
    assert [row["task"] for row in rows(client, "q=BAD")["rows"]] == ["bad"]
    assert rows(client, "filter=outcome%3Dsolved&filter=steps%3E0")["matched"] == 2
    assert [row["task"] for row in rows(client, "sort=task")["rows"]] == ["bad", "good", "good"]
    found = rows(client, "limit=1")
    assert (len(found["rows"]), found["matched"]) == (1, 3)


@pytest.mark.parametrize("query", ["sort=colour", "filter=steps", "filter=steps>x", "filter=steps>"])
def test_an_incomplete_condition_is_reported_as_unclear(three, query):
    assert list(rows(opened(three)[1], query)) == ["unclear"]


@pytest.mark.parametrize("query", ["limit=0", "limit=x", "limit=999999"])
def test_invalid_queries_are_reported(three, query):
    answer = opened(three)[1].get(f"/rows?{query}")
    assert answer.status_code == 404
    assert answer.headers["content-type"].startswith("text/plain")


def test_sizes_and_requests_come_after_the_list(three):
    studio, client = opened(three)
    assert {row["disk_bytes"] for row in rows(client)["rows"]} == {None}
    version = studio.places.version
    studio.places.measure()
    assert studio.places.version > version
    found = rows(client, "q=do+it&sort=-disk_bytes&filter=disk_bytes%3E0")["rows"]
    assert [row["request"] for row in found] == ["Do it."] * 3
    assert found[0]["disk_bytes"] >= found[-1]["disk_bytes"] > 0
    version = studio.places.version
    studio.places.refresh()
    studio.places.measure()
    assert studio.places.version == version


def test_one_run_is_followed_and_several_are_compared(three):
    _, client = opened(three)
    ids = [row["id"] for row in rows(client)["rows"]]
    one = client.get("/run", params={"id": ids[0]}).text
    assert '<meta name="version" content="1">' in one
    several = client.get("/run", params={"id": ids}).text
    assert several.count('<meta name="run"') == 3
    assert client.get("/run", params={"id": [ids[0]] * (MAX_COMPARED + 1)}).status_code == 404


def test_a_bench_has_its_state_and_its_report_whose_links_lead_to_runs(tmp_path):
    trials = [row(seed=seed, strategy=strategy) for seed in (1, 2) for strategy in ("full", "stackheap")]
    folder = tmp_path / "bench"
    shutil.copytree(runs.empty(tmp_path / "made" / "run"), folder / trials[0]["run"])
    (folder / "ledger.jsonl").write_text("".join(json.dumps(trial) + "\n" for trial in trials))
    _, client = opened(tmp_path)
    (state,) = client.get("/benches").json()
    assert {name: state[name] for name in ("name", "place", "done", "errors", "running", "broken")} == {
        "name": "bench", "place": 1, "done": 4, "errors": 0, "running": False, "broken": "",
    }  # fmt: skip
    page = client.get("/bench/1/").text
    assert "Strategies side by side" in page
    assert f'href="./{trials[0]["run"]}"' in page
    led = client.get(f"/bench/1/{trials[0]['run']}")
    assert led.url.path.endswith("/run")
    assert led.status_code == 200
    assert client.get(f"/bench/1/{trials[1]['run']}").status_code == 404


def ask(client, **asked):
    return client.post("/command", content=json.dumps(asked), headers={"content-type": "application/json"})


def test_a_command_is_shown_and_nothing_happens(three):
    studio, client = opened(three)
    (one, *_) = rows(client)["rows"]
    shown = ask(client, action="rm", run=one["id"]).json()
    assert shown == {"command": f"stackmem runs rm {three / one['run']}"}
    assert studio.jobs == []
    assert (three / one["run"]).is_dir()


def test_a_command_runs_and_tells_what_it_printed(three, stage):
    studio, client = opened(three)
    (one, *_) = rows(client)["rows"]
    job = ask(client, action="rm", run=one["id"], start=True).json()["job"]
    eventually(lambda: client.get(f"/jobs/{job}").json()["exit_code"] is not None)
    told = client.get(f"/jobs/{job}").json()
    assert (told["exit_code"], told["lines"]) == (0, [f"removed {one['run']}"])
    assert not (three / one["run"]).exists()
    studio.places.refresh()
    assert rows(client)["total"] == 2
    assert client.get("/run", params={"id": one["id"]}).status_code == 404


@pytest.mark.parametrize(
    "asked",
    [
        {"action": "solve", "run": ""},
        {"action": "rm"},
        {"action": "fork", "values": {}},
        {"action": "fork", "values": {"at": "1", "set": "heap.x=@/etc/passwd"}},
        {"action": "export", "values": {"format": "csv", "out": "a\0b"}},
        {"action": "resume", "values": {"max-steps": "9" * 2_000}},
        {"action": "rm", "more": 1},
    ],
)
def test_no_other_command_can_be_asked_for(three, asked):
    studio, client = opened(three)
    run = rows(client)["rows"][0]["id"]
    given = {"run": run, **asked} if asked != {"action": "rm"} else asked
    assert ask(client, **given).status_code == 400
    assert studio.jobs == []


def test_a_value_is_never_taken_for_a_flag(tmp_path):
    words = command_of("fork", tmp_path, {"at": "3", "strategy": "--model=human", "model": "x --yes"})
    assert words == ["fork", str(tmp_path), "--at=3", "--strategy=--model=human", "--model=x --yes"]
    with pytest.raises(UsageError, match="unknown action"):
        command_of("trust", tmp_path, {})


def test_a_folder_that_holds_nothing_to_show_is_refused(three, tmp_path):
    for folder in (tmp_path / "gone", next(three.iterdir())):
        with pytest.raises(UsageError, match="folder"):
            Places([folder])

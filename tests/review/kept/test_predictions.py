"""SWE-bench predictions: from one run or a folder of them, as lines or as one object."""

import json

from tests.stage import Stage, call, pop


def wrote(text):
    return [call("write_file", path="a.txt", content=text), pop()]


def test_a_run_is_one_prediction_with_the_tasks_name_and_the_patch(stage: Stage):
    stage.solve(stage.task(*wrote("new\n"), name="waterworks__soundings-7", files={"a.txt": "old\n"}))
    ran = stage.call("export", "last", "--format", "swebench")
    assert ran.returncode == 0, ran.stderr
    line = json.loads(ran.stdout)
    assert list(line) == ["instance_id", "model_name_or_path", "model_patch"]
    assert (line["instance_id"], line["model_name_or_path"]) == ("waterworks__soundings-7", "stackmem/demo/adaptive")
    assert line["model_patch"].startswith("diff --git a/a.txt b/a.txt\n")
    assert "\n-old\n+new\n" in line["model_patch"]


def test_a_run_that_changed_nothing_has_an_empty_patch(stage: Stage):
    stage.solve(stage.task(pop(), name="idle"))
    assert json.loads(stage.call("export", "last", "--format", "swebench").stdout)["model_patch"] == ""


def test_a_folder_of_runs_gives_a_line_each_and_distinguishes_trials(stage: Stage):
    task = stage.task(*wrote("new\n"), files={"a.txt": "old\n"})
    for _ in range(2):
        stage.solve(task)
    stage.solve(task, strategy="full")
    out = stage.root / "preds.jsonl"
    ran = stage.call("export", stage.root, "--format", "swebench", "-o", out)
    assert ran.stdout == f"3 predictions written to {out}\n"
    names = sorted(json.loads(line)["model_name_or_path"] for line in out.read_text().splitlines())
    assert names == ["stackmem/demo/adaptive", "stackmem/demo/adaptive#2", "stackmem/demo/full"]


def test_a_json_file_is_an_object_by_instance_and_holds_one_run_of_each(stage: Stage):
    task = stage.task(*wrote("new\n"), files={"a.txt": "old\n"})
    stage.solve(task)
    out = stage.root / "preds.json"
    assert stage.call("export", stage.runs, "--format", "swebench", "-o", out).returncode == 0
    assert set(json.loads(out.read_text())) == {"small"}
    stage.solve(task)
    twice = stage.call("export", stage.runs, "--format", "swebench", "-o", out)
    assert twice.returncode == 2
    assert "several runs of small" in twice.stderr


def test_a_patch_that_json_cannot_encode_is_reported(stage: Stage):
    result = stage.solve(stage.task(*wrote("new\n"), files={"a.txt": "old\n"}))
    (stage.runs / result.run / "changes.patch").write_bytes(b"\xff")
    ran = stage.call("export", "last", "--format", "swebench")
    assert ran.returncode == 2
    assert "is not UTF-8" in ran.stderr

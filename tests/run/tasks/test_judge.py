"""A check's reward files follow the rules of Harbor's verifier."""

import os

import pytest

from stackmem.run.tasks.judge import MAX_REWARD_BYTES, Judgment, judge


def written(folder, **files):
    for name, text in files.items():
        (folder / name.replace("_", ".")).write_text(text, encoding="utf-8")
    return judge(folder)


@pytest.mark.parametrize(
    ("text", "reward", "solved"), [("1", 1.0, True), ("0\n", 0.0, False), (" 0.99 ", 0.99, False), ("2", 2.0, True)]
)
def test_a_reward_of_one_is_solved(tmp_path, text, reward, solved):
    verdict = written(tmp_path, reward_txt=text)
    assert (verdict.rewards, verdict.error, verdict.solved) == ({"reward": reward}, "", solved)


def test_json_is_read_before_text(tmp_path):
    assert written(tmp_path, reward_json='{"reward": 1}', reward_txt="0").solved


def test_a_broken_json_is_not_made_good_by_a_text(tmp_path):
    verdict = written(tmp_path, reward_json="{", reward_txt="1")
    assert "not JSON" in verdict.error
    assert not verdict.solved


@pytest.mark.parametrize(
    ("text", "solved"),
    [
        ('{"reward": 1, "style": 0}', True),
        ('{"reward": 0.5, "style": 1}', False),
        ('{"tests": 1, "style": 1.5}', True),
        ('{"tests": 1, "style": 0.9}', False),
    ],
)
def test_the_name_reward_decides_and_without_it_all_do(tmp_path, text, solved):
    assert written(tmp_path, reward_json=text).solved is solved


@pytest.mark.parametrize("text", ["", " \n", "nan", "inf", "-Infinity", "one", "1 1", "1e999"])
def test_a_reward_that_is_not_a_finite_number_is_an_error(tmp_path, text):
    verdict = written(tmp_path, reward_txt=text)
    assert verdict.error.startswith("reward.txt ")
    assert not verdict.solved


@pytest.mark.parametrize(
    "text",
    ["", "[]", "1", "null", "{}", '{"reward": "1"}', '{"reward": true}', '{"reward": null}', '{"reward": NaN}',
     '{"reward": {"a": 1}}', '{"reward": 1e999}', '{"reward": 1' + "0" * 400 + "}", '{"a": 1, "b": [1]}', "[" * 9_000],
)  # fmt: skip
def test_json_that_is_no_flat_object_of_finite_numbers_is_an_error(tmp_path, text):
    verdict = written(tmp_path, reward_json=text)
    assert verdict.error.startswith("reward.json")
    assert (verdict.rewards, verdict.solved) == ({}, False)


def test_no_file_is_an_error(tmp_path):
    assert "neither" in judge(tmp_path).error
    assert "neither" in judge(tmp_path / "nowhere").error


def test_a_link_is_not_followed(tmp_path):
    (tmp_path / "answer").write_text("1")
    (tmp_path / "reward.txt").symlink_to(tmp_path / "answer")
    assert "cannot be read" in judge(tmp_path).error


def test_a_pipe_does_not_hang(tmp_path):
    os.mkfifo(tmp_path / "reward.txt")
    assert "not a regular file" in judge(tmp_path).error


def test_a_folder_is_no_reward(tmp_path):
    (tmp_path / "reward.json").mkdir()
    assert "reward.json" in judge(tmp_path).error


def test_a_huge_file_is_not_read(tmp_path):
    with (tmp_path / "reward.txt").open("wb") as file:
        file.truncate(MAX_REWARD_BYTES + 1)
    assert "larger than" in judge(tmp_path).error


def test_undecodable_bytes_are_an_error(tmp_path):
    (tmp_path / "reward.txt").write_bytes(b"\xff")
    assert "not UTF-8" in judge(tmp_path).error


def test_no_rewards_are_not_solved():
    assert not Judgment().solved

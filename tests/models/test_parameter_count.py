"""A model's parameter count, from its server's entry or its name."""

import pytest

from stackmem.models.catalog import count_in_name
from stackmem.providers.served import count_in_entry

BILLION = 10**9


@pytest.mark.parametrize(
    ("entry", "count"),
    [
        ({"meta": {"n_params": 1_777_088_000, "n_ctx_train": 32_768}}, 1_777_088_000),
        ({"details": {"parameter_size": "7.6B"}}, 7_600_000_000),
        ({"details": {"parameter_size": "494.03M"}}, 494_030_000),
        ({"model_info": {"general.parameter_count": 8_030_261_248}}, 8_030_261_248),
        ({"details": {"parameter_size": ""}}, None),
        ({"meta": {"n_params": True}}, None),
        ({"meta": {"n_params": -3}}, None),
        ({"meta": {"n_params": float("nan")}}, None),
        ({"meta": {"n_params": float("inf")}}, None),
        ({"meta": {"n_params": 10**400}}, None),
        ({"meta": "x", "details": ["7B"]}, None),
        ({"parameter_size": "9" * 400 + "B"}, None),
        ({}, None),
    ],
)
def test_an_entry_of_a_server_says_it_in_one_of_several_places(entry, count):
    assert count_in_entry(entry) == count


@pytest.mark.parametrize(
    ("name", "count"),
    [
        ("qwen2.5-coder:1.5b", 1_500_000_000),
        ("Qwen/Qwen2.5-Coder-7B-Instruct", 7 * BILLION),
        ("llama-3.1-8b-instruct", 8 * BILLION),
        ("Mixtral-8x7B-v0.1", 56 * BILLION),
        ("qwen3-30b-a3b", 30 * BILLION),
        ("smollm2-360m", 360_000_000),
        ("qwen2.5-coder", None),
        ("gpt-4o", None),
        ("phi-4-mini", None),
        ("model-0b", None),
        ("a1b2c3", None),
        ("", None),
    ],
)
def test_a_name_says_it_by_a_number_before_b_or_m(name, count):
    assert count_in_name(name) == count

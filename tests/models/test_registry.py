"""Model names, and the message for an unknown name."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from rich.pretty import pretty_repr

from stackmem.core.errors import UsageError
from stackmem.models.endpoint import ANTHROPIC, endpoint
from stackmem.models.registry import MODELS, default_model, open_model, unready

KEY = {"ANTHROPIC_API_KEY": "sk-ant-1"}
SCRIPT = "replies:\n  - text: hello\n"


def test_a_claude_is_found_with_and_without_its_provider() -> None:
    for name in ("claude-sonnet-5-5", "anthropic/claude-sonnet-5-5"):
        model = open_model(name, KEY)
        assert (model.name, model.window_tokens) == ("anthropic/claude-sonnet-5-5", 1_000_000)
        assert model.price is not None


def test_the_name_of_a_model_opens_it_again(tmp_path: Path) -> None:
    script = tmp_path / "s.yaml"
    script.write_text(SCRIPT)
    for name in ("claude-opus-5-5", "openai/a/b:c", "gemini/m", f"script:{script}", "demo", "human"):
        environ = {**KEY, "OPENAI_API_KEY": "sk-2", "GEMINI_API_KEY": "k"}
        opened = open_model(name, environ, demo=script)
        assert open_model(opened.name, environ, demo=script).name == opened.name


@pytest.mark.parametrize(
    ("name", "window"), [("claude-unheard-of", 200_000), ("openai/qwen", 32_768), ("human", 200_000)]
)
def test_an_unknown_model_has_no_price_and_a_cautious_window_that_can_be_given(name: str, window: int) -> None:
    environ = {**KEY, "OPENAI_API_KEY": "sk-2"}
    assert open_model(name, environ).price is None
    assert open_model(name, environ).window_tokens == window
    assert open_model(name, environ, window_tokens=50_000).window_tokens == 50_000


@pytest.mark.parametrize(
    ("name", "variable"),
    [("claude-sonnet-5-5", "ANTHROPIC_API_KEY"), ("openai/x", "OPENAI_API_KEY"), ("gemini/x", "GEMINI_API_KEY")],
)
@pytest.mark.parametrize("key", ["", "  "])
def test_a_missing_key_is_named(name: str, variable: str, key: str) -> None:
    with pytest.raises(UsageError, match=f"^{variable} is not set; .*demo"):
        open_model(name, {variable: key})


@pytest.mark.parametrize("key", ["sk-ä", "sk-1\nsk-2", "sk 1", "sk-\x00"])
def test_a_key_that_no_header_can_carry_is_refused_without_being_shown(key: str) -> None:
    with pytest.raises(UsageError, match=r"^ANTHROPIC_API_KEY contains characters") as refused:
        open_model("claude-sonnet-5-5", {"ANTHROPIC_API_KEY": key})
    assert key not in str(refused.value)


def test_a_key_with_a_line_end_after_it_is_the_key() -> None:
    assert open_model("claude-sonnet-5-5", {"ANTHROPIC_API_KEY": "sk-ant-1\n"}).name


@pytest.mark.parametrize("url", ["localhost:8000", "ftp://x", "http://", "http://[::1", "http://a:b", "http://x\x1b"])
def test_an_address_that_is_none_is_refused(url: str) -> None:
    with pytest.raises(UsageError, match=r"write it like http://127\.0\.0\.1:8000"):
        open_model("openai/x", {"OPENAI_API_KEY": "k"}, base_url=url)
    with pytest.raises(UsageError, match=r"^ANTHROPIC_BASE_URL "):
        open_model("claude-sonnet-5-5", {**KEY, "ANTHROPIC_BASE_URL": url})


@pytest.mark.parametrize("url", ["http://127.0.0.1:1", "http://localhost:1/v1/", "http://[::1]:1"])
def test_a_server_on_this_machine_needs_no_key(url: str) -> None:
    assert open_model("anthropic/qwen", {"ANTHROPIC_BASE_URL": url}).name == "anthropic/qwen"
    assert open_model("openai/qwen", {}, base_url=url).name == "openai/qwen"


@pytest.mark.parametrize("url", ["http://127.0.0.1.evil.example", "http://localhost@evil.example", "http://10.0.0.1"])
def test_no_other_machine_passes_for_this_one(url: str) -> None:
    with pytest.raises(UsageError, match="OPENAI_API_KEY is not set"):
        open_model("openai/qwen", {}, base_url=url)


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("gpt-5", "valid forms are anthropic/NAME, openai/NAME, responses/NAME, gemini/NAME, llamacpp/NAME"),
        ("humon", "did you mean human?"),
        ("sonnet-5-5", "did you mean claude-sonnet-5-5"),
        ("", "valid forms are"),
        ("x" * 10_000, "valid forms are"),
    ],
)
def test_an_unknown_name_is_answered_with_the_kinds_and_what_is_near(name: str, says: str) -> None:
    with pytest.raises(UsageError) as refused:
        open_model(name, KEY)
    assert says in str(refused.value)
    assert len(str(refused.value)) < 400


@pytest.mark.parametrize("name", ["anthropic/", "openai/", "openai/ x", "anthropic/a\nb", "script:"])
def test_a_kind_without_a_name_is_refused(name: str) -> None:
    with pytest.raises(UsageError, match=r"is not a model name|needs a file"):
        open_model(name, {**KEY, "OPENAI_API_KEY": "k"})


def test_demo_needs_a_task_that_brings_one() -> None:
    with pytest.raises(UsageError, match=r"no demo\.yaml; choose a model"):
        open_model("demo", {})


@pytest.mark.parametrize(
    ("name", "way_out"),
    [("claude-sonnet-5-5", "set ANTHROPIC_BASE_URL"), ("human", "leave it out"), ("demo", "leave it out")],
)
def test_a_base_url_goes_only_with_openai_so_that_no_other_key_goes_there(name: str, way_out: str) -> None:
    says = f"a base URL works with openai/NAME, responses/NAME and gemini/NAME, not with {name}; {way_out}"
    with pytest.raises(UsageError, match=says):
        open_model(name, KEY, base_url="http://127.0.0.1:1")


def test_no_way_of_printing_an_endpoint_shows_its_key() -> None:
    found = endpoint(ANTHROPIC, {"ANTHROPIC_API_KEY": "sk-ant-secret"})
    assert found.key == "sk-ant-secret"
    for printed in (repr(found), str(found), f"{found}", pretty_repr(found)):
        assert "secret" not in printed
        assert "https://api.anthropic.com" in printed


def test_what_keeps_a_provider_s_models_from_being_asked_is_said_without_its_key() -> None:
    said = unready({"OPENAI_API_KEY": "sk-secret", "GEMINI_API_KEY": "two words"})
    assert said["openai/"] == ""
    assert said["anthropic/"].startswith("ANTHROPIC_API_KEY is not set")
    assert said["gemini/"] == "GEMINI_API_KEY contains characters that are not allowed in a key; copy the key again"


def test_the_default_is_claude_where_its_key_is_set_and_the_demo_otherwise() -> None:
    assert default_model(KEY) == "claude-sonnet-5-5"
    assert default_model({"ANTHROPIC_API_KEY": " "}) == default_model({}) == "demo"


def test_opening_every_kind_of_model_imports_no_sdk(tmp_path: Path) -> None:
    script = tmp_path / "s.yaml"
    script.write_text(SCRIPT)
    code = (
        "import sys; from pathlib import Path; from stackmem.models.registry import open_model\n"
        "for name in ('claude-sonnet-5-5', 'openai/x', 'gemini/x', 'human', 'demo'):\n"
        "    keys = dict.fromkeys(('ANTHROPIC_API_KEY', 'OPENAI_API_KEY', 'GEMINI_API_KEY'), 'k')\n"
        "    open_model(name, keys, demo=Path(sys.argv[1]))\n"
        "print(sorted({'anthropic', 'openai', 'google.genai', 'httpx2', 'tiktoken', 'pydantic'} & sys.modules.keys()))"
    )
    ran = subprocess.run([sys.executable, "-c", code, script], capture_output=True, text=True, check=True)
    assert ran.stdout.strip() == "[]"


@pytest.mark.parametrize("name", ["sim/bounded-reader", "sim/bounded-reader:flat", "sim/bounded-reader:oracle"])
def test_the_simulated_model_is_opened_again_by_the_name_it_records(name: str) -> None:
    model = open_model(name, {}, window_tokens=9_000)
    assert (model.name, model.window_tokens, model.price) == (name, 9_000, None)


@pytest.mark.parametrize("name", ["sim/", "sim/other", "sim/bounded-reader:nosuch"])
def test_a_simulated_model_that_there_is_not_is_refused_with_those_there_are(name: str) -> None:
    with pytest.raises(UsageError, match=r"the only one is|use some of|there is|there are"):
        open_model(name, {})


def test_every_registered_kind_is_in_the_contract_tests() -> None:
    local = {"llamacpp/", "ollama/", "lmstudio/", "vllm/"}
    ours = {"anthropic/", "openai/", "responses/", "gemini/", "script:", "demo", "sim/", "human"}
    assert set(MODELS) == ours | local

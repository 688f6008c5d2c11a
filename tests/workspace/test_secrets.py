"""Secrets are removed from text: the user's own values, and keys of a known shape."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stackmem.workspace.environment import build_environment, is_secret, refusal
from stackmem.workspace.secrets import _STARTS, Scrubber

VALUES = st.text("abcdefghijklmnopqrstuvwxyz0123456789", min_size=8, max_size=30)
KEY = "-----BEGIN RSA PRIVATE KEY-----\n" + ("QUJD" * 16 + "\n") * 5 + "QQ==\n-----END RSA PRIVATE KEY-----"
SHAPES = {
    "ANTHROPIC_KEY": "sk-ant-api03-" + "aB3-_" * 12,
    "OPENAI_KEY": "sk-proj-" + "aB3" * 12,
    "GITHUB_TOKEN": "ghp_" + "a1B" * 12,
    "GITLAB_TOKEN": "glpat-" + "a1B" * 7,
    "AWS_KEY": "AKIA" + "A1B2" * 4,
    "SLACK_TOKEN": "xoxb-123456789012-abcdef",
    "GOOGLE_KEY": "AIza" + "a1B2_" * 7,
    "STRIPE_KEY": "sk_live_" + "a1B2" * 6,
    "NPM_TOKEN": "npm_" + "a1B2" * 9,
    "PYPI_TOKEN": "pypi-" + "a1B2" * 15,
    "HUGGINGFACE_TOKEN": "hf_" + "a1B2" * 9,
    "PRIVATE_KEY": KEY,
}


@pytest.mark.parametrize(("name", "secret"), SHAPES.items())
def test_a_key_of_a_known_shape_is_replaced_by_its_name(name, secret):
    scrubber = Scrubber({})
    assert scrubber.scrub(f"before {secret} after") == f"before [secret {name}] after"
    assert scrubber.holds(f"x={secret}") == [name]
    assert scrubber.held_in(b"\xff\0" + f"x={secret}".encode())


@pytest.mark.parametrize(
    "block",
    [
        KEY,
        KEY.replace("\n", "\r\n"),
        KEY.replace("\n", "\\n"),
        KEY.replace("KEY-----\nQ", "KEY-----\nProc-Type: 4,ENCRYPTED\nDEK-Info: AES-256-CBC,00FF\n\nQ"),
        KEY.replace("RSA PRIVATE KEY", "OPENSSH PRIVATE KEY"),
        KEY.replace("RSA PRIVATE KEY", "PGP PRIVATE KEY BLOCK").replace("QQ==", "QQ==\n=ab12"),
        KEY[: KEY.index("QQ==")],
    ],
)
def test_a_private_key_is_replaced_whole_however_it_is_written(block):
    text = Scrubber({}).scrub(f"see:\n{block}\n\nand then some prose.")
    assert "QUJD" not in text
    assert text.startswith("see:\n[secret PRIVATE_KEY]")
    assert text.endswith("and then some prose.")


PIECES = st.sampled_from(
    [*SHAPES.values(), *(shape[:-9] for shape in SHAPES.values()), "sk-", 'hunter2-\u00e9"', "é", "\n"]
)


@given(st.lists(PIECES | st.text(max_size=5), max_size=6))
def test_a_file_holds_what_its_text_does(pieces):
    scrubber = Scrubber({"SHOP_KEY": 'hunter2-\u00e9"'})
    text = "".join(pieces)
    assert scrubber.held_in(text.encode()) == bool(scrubber.holds(text))


@given(st.lists(PIECES | st.text(max_size=5), max_size=6))
def test_what_is_passed_over_for_want_of_a_start_holds_nothing_by_the_whole_pattern(pieces):
    text = "".join(pieces)
    scrubber = Scrubber({"MY_TOKEN": "own value of mine"})
    assert bool(scrubber.holds(text)) == bool(scrubber._pattern.search(text))
    assert (scrubber.scrub(text) == text) == (scrubber._pattern.search(text) is None)


def test_words_that_end_like_the_start_of_a_key_are_none():
    prose = "class='task-list-item-checkbox-is-checked' data-disk-usage-of-all-volumes"
    assert Scrubber({}).scrub(prose) == prose
    assert not Scrubber({}).held_in(prose.encode())


def test_values_that_are_no_text_are_found_as_bytes():
    scrubber = Scrubber({"SHOP_KEY": "eight\udcff-bytes", "OTHER_KEY": "\ud800 is half of one"})
    assert scrubber.held_in(b"..eight\xff-bytes..")
    assert not scrubber.held_in(b"..eight-bytes..")


def test_a_large_file_is_looked_through_in_a_moment():
    for content in (b"task-disk-risk-" * 250_000, b"-----BEGIN " * 250_000, bytes(4_000_000)):
        assert not Scrubber({"SHOP_KEY": "hunter2-hunter2"}).held_in(content)


@given(st.lists(VALUES, max_size=6), st.lists(st.text(max_size=40), min_size=1, max_size=7))
def test_no_value_of_a_secret_name_is_left_in_any_text(values, pieces):
    scrubber = Scrubber({f"KEY_{index}": value for index, value in enumerate(values)})
    woven = "-".join(piece + value for piece, value in zip(pieces, [*values, *pieces], strict=False))
    text = scrubber.scrub(woven)
    assert not any(value in text for value in values)
    assert scrubber.holds(text) == []
    assert scrubber.scrub(text) == text


@given(st.text(max_size=2000))
def test_text_without_secrets_is_left_as_it_is(text):
    scrubber = Scrubber({"PATH": "/usr/bin:/bin", "API_KEY": "short", "HOME": "/home/ann", "EMPTY_TOKEN": " " * 20})
    assert (scrubber.scrub(text) == text) == (scrubber.holds(text) == [])


def test_of_two_values_that_begin_alike_the_longer_one_counts():
    scrubber = Scrubber({"A_TOKEN": "abcdefgh", "B_TOKEN": "abcdefghijkl"})
    assert scrubber.scrub("abcdefghijkl abcdefgh") == "[secret B_TOKEN] [secret A_TOKEN]"


def test_a_value_with_the_signs_of_patterns_is_taken_literally():
    assert Scrubber({"DB_PASS": "a.*(b|c)+[d]$"}).scrub("x a.*(b|c)+[d]$ aXXb") == "x [secret DB_PASS] aXXb"


@pytest.mark.parametrize(
    "piece",
    ["sk-", "sk-ant-", "ghp_", "xoxb-", "github_pat_", "AKIA", "-----BEGIN ", "-----BEGIN PRIVATE KEY-----", "\\n",
     "abc-", "-----BEGIN PRIVATE KEY-----\n\n\n", "-----BEGIN PRIVATE KEY-----AAAAAAAAAAAAAAA ", "Aa: b\n",
     "=", "A" * 15 + "\n"],
)  # fmt: skip
def test_time_is_linear_in_hostile_text(piece):
    scrubber = Scrubber({"API_KEY": "abc-abc-abc-abc-abd"})
    for start in ("", "-----BEGIN PRIVATE KEY-----\n"):
        text = start + piece * (1_000_000 // len(piece))
        scrubber.scrub(text)  # takes 0.0x s; a quadratic pattern would take hours


@pytest.mark.parametrize(
    "name",
    ["OPENAI_API_KEY", "aws_secret_access_key", "GH_TOKEN", "PGPASSWORD", "MY_PASSPHRASE",
     "GOOGLE_APPLICATION_CREDENTIALS", "SSH_AUTH_SOCK", "DBUS_SESSION_BUS_ADDRESS", "GIT_SSH_COMMAND"],
)  # fmt: skip
def test_names_of_secrets_are_known(name):
    assert is_secret(name)
    assert refusal(name)


@pytest.mark.parametrize(
    "name", ["LD_PRELOAD", "LD_LIBRARY_PATH", "PYTHONPATH", "PYTHONSTARTUP", "A=B", "", "1A", "A\0"]
)
def test_names_that_steer_or_are_none_cannot_be_granted(name):
    assert not is_secret(name)
    assert refusal(name)


def test_the_environment_is_built_from_nothing_and_the_deny_list_stands_over_grants():
    caller = {
        "SOURCE_DATE_EPOCH": "1",
        "API_KEY": "x",
        "LD_PRELOAD": "x",
        "OTHER": "x",
        "PATH": "/evil",
        "HOME": "/evil",
    }
    granted = ("SOURCE_DATE_EPOCH", "API_KEY", "LD_PRELOAD", "MISSING", "PATH", "HOME")
    built = build_environment(path=("/tools/bin",), home="/h", tmp="/t", granted=granted, caller=caller)
    assert built["SOURCE_DATE_EPOCH"] == "1"
    assert built["PATH"].startswith("/tools/bin:/usr/local/sbin:")
    assert (built["HOME"], built["TMPDIR"]) == ("/h", "/t")
    assert not {"API_KEY", "LD_PRELOAD", "OTHER", "MISSING"} & set(built)


def test_package_managers_do_not_try_again_without_a_network():
    made = [
        build_environment(
            path=(), home="/h", tmp="/t", granted=("PIP_RETRIES",), caller={"PIP_RETRIES": "3"}, offline=off
        )
        for off in (True, False)
    ]
    more = made[0].keys() - made[1].keys()
    assert {"npm_config_fetch_retries", "CARGO_NET_RETRY", "GOPROXY"} <= more
    assert made[0]["PIP_RETRIES"] == "3"


@pytest.mark.parametrize("filling", ["", "a-b ", "a_b ", "a-b_c " * 100])
def test_the_start_of_every_shape_is_seen_in_a_text_of_few_joints_and_of_many(filling: str):
    for start in _STARTS:
        assert Scrubber({}).may_hold(f"{filling}x{start}x{filling}"), start
    assert not Scrubber({}).may_hold(f"{filling}nothing of the kind{filling}")

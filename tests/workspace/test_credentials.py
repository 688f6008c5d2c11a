"""Credentials announced by a name are removed from text; ordinary text stays the same byte for byte."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stackmem.workspace.credentials import credentials, scrub_entry, scrub_named, scrub_value_of
from stackmem.workspace.secrets import Scrubber, scrub_value

SECRET = "s3cr3t-Value.42"


@pytest.mark.parametrize(
    ("before", "after", "kind"),
    [
        ("Cookie: session=", "; theme=dark", "COOKIE"),
        ("cookie: theme=dark; id=", "", "COOKIE"),
        ("Set-Cookie: sid=", "; Path=/; Expires=Wed, 21 Oct 2015 07:28:00 GMT; HttpOnly", "COOKIE"),
        ("< set-cookie: a=", "\r\n< x: y", "COOKIE"),
        ("X-Auth-Token: ", "", "HEADER"),
        ("X-Api-Key:", "\n", "HEADER"),
        ("API-KEY: ", "", "HEADER"),
        ("Ocp-Apim-Subscription-Key: ", "", "HEADER"),
        ("x-functions-key: ", "", "HEADER"),
        ("Private-Token: ", "", "HEADER"),
        ("JOB-TOKEN: ", "", "HEADER"),
        ("X-Vault-Token: ", "", "HEADER"),
        ("X-Amz-Security-Token: ", "", "HEADER"),
        ("Client-Secret: ", "", "HEADER"),
        ("> Authorization: Bearer ", "", "HEADER"),
        ("Proxy-Authorization: Basic ", "", "HEADER"),
        ("authorization: token ", "", "HEADER"),
        ("curl -H 'X-Api-Key: ", "' https://example.org", "HEADER"),
        ('{"X-Api-Key": "', '", "a": 1}', "HEADER"),
        ("{'Authorization': 'Bearer ", "'}", "HEADER"),
        ("headers['X-Api-Key'] = '", "'", "HEADER"),
        ('headers.set("X-Auth-Token", "', '")', "HEADER"),
        ('"X-Auth-Token" => "', '"', "HEADER"),
        (r"{\"x-api-key\": \"", r"\"}", "HEADER"),
        ("GET / HTTP/1.1\\r\\nX-Auth-Token: ", "\\r\\nHost: x", "HEADER"),
        ("https://example.org/a?key=", "&b=1", "PARAMETER"),
        ("https://example.org/a?b=1&access_token=", " ", "PARAMETER"),
        ("https://example.org/#id_token=", "", "PARAMETER"),
        ("/a?x=1&amp;sig=", '"', "PARAMETER"),
        ("/a?X-Amz-Signature=", "", "PARAMETER"),
        ("/a?api_key=", "", "PARAMETER"),
        ("/a?apikey=", "", "PARAMETER"),
        ("/a?token=", ")", "PARAMETER"),
        ("?to=https%3A%2F%2Fx%3Faccess_token%3D", "%26b", "PARAMETER"),
    ],
)
def test_the_value_goes_and_what_is_around_it_stays(before: str, after: str, kind: str) -> None:
    secret = SECRET if "%" not in after else "s3cr3tValue42"
    text = f"{before}{secret}{after}"
    if after.startswith("%"):  # an escaped quote is part of the value
        assert scrub_named(text) == f"{before}[secret {kind}]"
    else:
        assert scrub_named(text) == f"{before}[secret {kind}]{after}"
        assert scrub_named(f"{text}\n{text}") == "\n".join([f"{before}[secret {kind}]{after}"] * 2)
    assert Scrubber({}).holds(text) == [kind]
    assert Scrubber({}).may_hold(text)


@pytest.mark.parametrize(
    "text",
    [
        "Cookie: theme=dark; lang=en; consent=accepted",
        "Set-Cookie: lang=english; Path=/a1234567; Domain=host12345.example.org; Max-Age=31536000",
        "cookies are small: cookie2 is old, and a cookie: is eaten",
        'headers = {"X-Api-Key": api_key_2024, "Authorization": f"Bearer {token12345}"}',
        "headers = {'Authorization': 'Bearer ' + token12345}",
        "X-Api-Key: your-api-key-here",
        "X-Api-Key: ${API_KEY_2024}",
        "X-Api-Key: <key12345>",
        "X-Auth-Token: getToken2024()",
        "Authorization: see section12 of the handbook",
        "{Authorization: authHeader2}",
        "authorization: role-based, since 2024",
        "https://example.org/?key={key12345}&token=$TOKEN12345",
        "https://example.org/?key=name&sort=abc12345&page=12345678",
        "https://example.org/?keyword=abc12345&tokens=4096abcd&monkey=abc12345",
        "https://example.org/?key=%7Bapi_key%7D",
        "dict(key=abc12345, token=abc12345)",
        'for key, value in pairs: print(f"{key}={value}")',
        "sort_key=abc12345; max_token=abc12345",
        '"js-token": "^4.0.0-beta12", "tough-cookie": "^5.1.0-rc12", "cancel-token": "1.2.3-beta12"',
        "end-token: abc12345",
        "| key | token | cookie |",
        "primary-key: id12345678",
        "X-Cache-Key: abc12345xyz",
    ],
)
def test_code_placeholders_and_prose_stay(text: str) -> None:
    assert scrub_named(text) == text
    assert list(credentials(text)) == []


def test_the_value_of_a_header_in_an_object_is_known_by_its_name() -> None:
    headers = {"X-Auth-Token": SECRET, "Cookie": f"a={SECRET}; b=c", "Authorization": f"Bearer {SECRET}", "A": "b1"}
    given = {
        "headers": headers,
        "key": "item12345",
        "token": ["abc12345"],
        "X-Api-Key": 12345678,
    }
    told = json.loads(json.dumps(given).replace(f"a={SECRET}", "a=[secret COOKIE]").replace(SECRET, "[secret HEADER]"))
    assert scrub_value(given, Scrubber({}).scrub) == told
    assert Scrubber({}).holds(json.dumps(given)) == ["COOKIE", "HEADER"]


HAR = {
    "request": {
        "cookies": [{"name": "sid", "value": SECRET, "path": "/"}, {"name": "lang", "value": "en-US"}],
        "headers": [{"name": "X-Api-Key", "value": SECRET}, {"name": "Accept", "value": "text/html;v=b3abcdefg"}],
        "queryString": [{"name": "api_key", "value": SECRET}, {"name": "page", "value": "page12345"}],
    },
    "response": {"cookies": [{"name": "a b", "value": SECRET, "httpOnly": True}]},
    "entries": [{"name": "build", "value": "build1234"}],
}
HAR_KINDS = ["COOKIE", "HEADER", "PARAMETER", "COOKIE"]


def clean_har() -> str:
    """Return the archive with a mark in place of each credential, in text order."""
    text = json.dumps(HAR)
    for kind in HAR_KINDS:
        text = text.replace(SECRET, f"[secret {kind}]", 1)
    return text


@pytest.mark.parametrize("indent", [None, 4])
def test_an_http_archive_has_neither_cookies_nor_headers_nor_parameters(indent: int | None) -> None:
    assert json.loads(scrub_named(json.dumps(HAR, indent=indent))) == json.loads(clean_har())
    escaped = json.dumps({"output": json.dumps(HAR, indent=indent)})
    assert json.loads(json.loads(scrub_named(escaped))["output"]) == json.loads(clean_har())


def test_an_http_archive_that_is_a_value_is_scrubbed_like_its_text() -> None:
    assert scrub_value(HAR, Scrubber({}).scrub) == json.loads(clean_har())


def test_lists_of_cookies_without_end_take_linear_time() -> None:
    text = '"cookies": [' * 50_000 + '{"name": "a", "value": "' * 50_000 + "]" * 1_000
    assert scrub_named(text) == text


@given(st.text(max_size=60), st.text(max_size=60), st.booleans())
def test_the_value_of_an_entry_is_never_cut_or_mixed_up(name: str, value: str, cookie: bool) -> None:
    scrubbed = scrub_entry(name, value, cookie=cookie)
    assert scrubbed == value or "[secret " in scrubbed


@given(st.text(max_size=60), st.text(max_size=60))
def test_a_value_apart_from_its_name_is_never_cut_or_mixed_up(name: str, value: str) -> None:
    scrubbed = scrub_value_of(name, value)
    assert scrubbed == value or "[secret " in scrubbed


PIECES = [
    "X-Api-Key",
    "cookie",
    "?key=",
    "-token",
    ": ",
    "=",
    '"',
    "\\",
    "n",
    "abc12345",
    ";",
    "\u0130",
    "\u017f",
    " ",
    "&",
]


@given(st.lists(st.sampled_from([*PIECES, "basic "]), max_size=25))
def test_scrubbing_ends_and_is_done_once(pieces: list[str]) -> None:
    text = "".join(pieces)
    once = scrub_named(text)
    assert scrub_named(once) == once
    assert (once == text) == (list(credentials(text)) == [])


@pytest.mark.parametrize(
    "unit",
    ["x-token: ", "cookie: a=b;", "?key=", "-a-a-token", "x-token:x", "authorization: basic ", '"cookie":"'],
)
def test_the_time_is_linear_in_hostile_text(unit: str) -> None:
    """Quadratic time would take hours."""
    assert scrub_named(unit * (2_000_000 // len(unit)))

"""The server answers only a user who knows the address, from one of its own pages."""

import pytest
from starlette.testclient import TestClient

from stackmem.doors.ui.app import Studio
from stackmem.doors.ui.places import Places
from tests.stage import pop

HOST = "127.0.0.1:8765"
HERE = f"http://{HOST}"
TOKEN = "token-of-the-test"


@pytest.fixture
def client(stage):
    stage.solve(stage.task(pop()))
    studio = Studio(Places([stage.runs]))
    studio.places.refresh()
    return TestClient(studio.app(TOKEN, frozenset({HOST, "localhost:8765"})), base_url=HERE)


def get(client, path="/", **headers):
    return client.get(f"/{TOKEN}{path}", headers=headers)


def test_the_person_is_answered(client):
    answer = get(client)
    assert answer.status_code == 200
    assert "connect-src 'self'" in answer.text
    assert answer.headers["content-security-policy"] == "frame-ancestors 'none'"
    assert answer.headers["cache-control"] == "no-store"
    assert answer.headers["referrer-policy"] == "no-referrer"
    assert "access-control-allow-origin" not in answer.headers
    assert get(client, "/rows").json()["total"] == 1


@pytest.mark.parametrize(
    "host", ["attacker.example", "attacker.example:8765", "127.0.0.1:1", "127.0.0.1", "", "[::1]:8765"]
)
def test_a_name_that_was_bound_to_loopback_is_refused(client, host):
    answer = get(client, "/rows", host=host)
    assert answer.status_code == 421
    assert "runs" not in answer.text


@pytest.mark.parametrize(
    "path", ["/", "/rows", "/token-of-the-tes/", "/token-of-the-testt/", "//", "/%2e%2e/", f"//{TOKEN}/"]
)
def test_without_the_token_there_is_nothing(client, path):
    assert client.get(path).status_code == 401


@pytest.mark.parametrize(
    "headers",
    [
        {"origin": "http://attacker.example"},
        {"origin": "null"},
        {"origin": "http://127.0.0.1:1"},
        {"origin": "https://127.0.0.1:8765"},
        {"sec-fetch-site": "cross-site"},
        {"sec-fetch-site": "same-site"},
    ],
)
def test_another_origin_reads_nothing(client, headers):
    assert get(client, "/rows", **headers).status_code == 403


@pytest.mark.parametrize(
    "headers",
    [
        {"content-type": "application/json"},
        {"origin": HERE, "content-type": "text/plain"},
        {"origin": HERE},
        {"origin": "http://attacker.example", "content-type": "application/json"},
    ],
)
def test_only_a_page_of_the_server_changes_something(client, headers):
    asked = '{"action": "rm", "run": "0/x", "start": true}'
    assert client.post(f"/{TOKEN}/command", content=asked, headers=headers).status_code == 403


def test_no_other_method_is_answered(client):
    for method in ("PUT", "DELETE", "OPTIONS", "PATCH", "TRACE"):
        headers = {"origin": HERE, "content-type": "application/json"}
        assert client.request(method, f"/{TOKEN}/command", headers=headers).status_code == 403


@pytest.mark.parametrize(
    "path",
    [
        "/run?id=../x", "/run?id=0/..", "/run?id=0/../../etc", "/run?id=0//etc/passwd", "/run?id=9/x", "/run?id=-1/x",
        "/run?id=%00", "/run?id=0/%2e%2e%2f", "/run", "/run?id=0/", "/facts?id=../..", "/bench/0/",
        "/bench/%2e%2e%2f/", "/bench/0/runs/../../x", "/bench/9/", "/jobs/99999999999999999999", "/jobs/-1",
    ],
)  # fmt: skip
def test_a_path_leads_to_what_is_listed_and_nowhere_else(client, path):
    answer = get(client, path)
    assert answer.status_code in (400, 401, 404, 405)
    assert "root:" not in answer.text

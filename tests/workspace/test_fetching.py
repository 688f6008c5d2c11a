"""``web_fetch`` against a real server on loopback: the list, redirects, sizes, kinds, and a whole run."""

import gzip
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from stackmem import open_run, replay
from stackmem.core.facts import ToolReturned
from stackmem.workspace.egress import fetching
from stackmem.workspace.egress.fetching import MAX_BYTES, fetch_page
from stackmem.workspace.egress.html_text import page_text
from stackmem.workspace.egress.network_list import NetworkList, read_hosts
from tests.stage import Stage, call, mounted

PAGE = """<!doctype html><html><head><title>The  rules</title><style>p{}</style><script>steal()</script>
<body><h1>Rules</h1><p>Round <b>once</b>, see <a href="/more?a=1">more</a> or <a href="javascript:x()">less</a>.
<ul><li>one<li>two</ul><pre>a  =  1
b</pre><table><tr><th>x<th>y<tr><td>1<td>2</table></html>"""
TEXT = """# Rules

Round once, see [more](http://docs.example/more?a=1) or less.

- one
- two

```
a  =  1
b
```

| x | y
| 1 | 2"""


class Handler(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        port = self.server.server_address[1]
        status, kind, body, more = 200, "text/html; charset=utf-8", PAGE.encode(), {}
        match self.path:
            case "/away":
                status, more = 302, {"Location": "http://evil.example/"}
            case "/inside":
                status, more = 302, {"Location": f"http://127.0.0.1:{port}/"}
            case "/round":
                status, more = 301, {"Location": "/round"}
            case "/once":
                status, more = 307, {"Location": "/plain"}
            case "/plain":
                kind, body = "text/plain", "grüße\x1b[2J".encode()
            case "/packed":
                body, more = gzip.compress(body), {"Content-Encoding": "gzip"}
            case "/bomb":
                body, more = gzip.compress(b"x" * (MAX_BYTES + 1)), {"Content-Encoding": "gzip"}
            case "/large":
                body = b"x" * (MAX_BYTES + 1)
            case "/image":
                kind, body = "image/png", b"\x89PNG"
            case "/missing":
                status, body = 404, b"<p>no such page"
            case "/slow":
                threading.Event().wait(3)
        self.send_response(status)
        for name, value in {"Content-Type": kind, "Content-Length": str(len(body)), **more}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Print nothing."""


@pytest.fixture
def port() -> Iterator[int]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.handle_error = lambda *_: None  # type: ignore[method-assign] # a client may leave early
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield server.server_address[1]
    server.shutdown()
    server.server_close()


@pytest.fixture
def listed(port: int) -> NetworkList:
    return NetworkList(hosts=read_hosts((f"http://docs.example=127.0.0.1:{port}",)))


def test_a_page_of_a_listed_host_is_text_and_its_request_is_recorded(listed: NetworkList):
    outcome = fetch_page("http://docs.example/page", listed, 50_000)
    assert (outcome.failed, outcome.text.split("\n\n", 1)[1]) == (False, TEXT)
    assert outcome.text.startswith("[http://docs.example/page: status 200, text/html, ")
    assert "\nTitle: The rules\n" in outcome.text
    assert [(each.host, each.port, each.method, each.allowed) for each in outcome.requests] == [
        ("docs.example", 80, "GET", True)
    ]


@pytest.mark.parametrize(
    ("path", "failed", "says"),
    [
        ("http://docs.example/once", False, "/once -> http://docs.example/plain: status 200"),
        ("http://docs.example/plain", False, "grüße\\x1b[2J"),
        ("http://docs.example/packed", False, "# Rules"),
        ("http://docs.example/missing", True, "no such page"),
        ("http://docs.example/away", True, "evil.example:80 is not on the list of hosts"),
        ("http://docs.example/inside", True, "127.0.0.1"),
        ("http://docs.example/round", True, "more than 5 redirects"),
        ("http://docs.example/large", True, "larger than"),
        ("http://docs.example/bomb", True, "larger than 4 MiB when unpacked"),
        ("http://docs.example/image", True, "it is image/png, of 4 bytes; download it with run_command"),
        ("http://other.example/", True, "is not on the list of hosts of this run"),
        ("https://docs.example/", True, "is not on the list of hosts of this run; that host is allowed as http://"),
        ("http://user:word@docs.example/", True, "it has a login"),
        ("http://docs.example/ä", True, "unusual characters"),
        ("file:///etc/passwd", True, "does not begin with http://"),
        ("http://[", True, "is not an address"),
    ],
)
def test_redirects_kinds_and_refusals(listed: NetworkList, path: str, failed: bool, says: str):
    outcome = fetch_page(path, listed, 50_000)
    assert outcome.failed == failed
    assert says in outcome.text


def test_a_host_that_leads_to_a_private_address_is_refused(port: int):
    network = NetworkList(hosts=read_hosts((f"http://docs.example:{port}",)), resolve=lambda *_: ["127.0.0.1"])
    outcome = fetch_page(f"http://docs.example:{port}/", network, 50_000)
    assert "leads to an address that is private" in outcome.text


def test_an_answer_that_takes_too_long_is_given_up(listed: NetworkList, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(fetching, "SECONDS", 0.5)
    assert "no complete answer within" in fetch_page("http://docs.example/slow", listed, 50_000).text


def test_without_a_list_it_says_what_is_missing():
    assert fetch_page("http://docs.example/", None, 50_000).text == "web_fetch works only with --network list"


@pytest.mark.parametrize(
    "html", ["<" * 100_000, "<a href='http://[x'>y", "</p></a></pre>", "<head>never closed<body>x"]
)
def test_broken_pages_become_text(html: str):
    page_text(html, "http://docs.example/")


@mounted
def test_a_run_offers_it_only_with_a_list_and_replays_without_the_network(stage: Stage, port: int):
    folder = stage.root / "mine"
    folder.mkdir()
    script = stage.script(call("web_fetch", url="http://docs.example/page"), {"text": "Read."})
    given = ["chat", folder, "-p", "Read it", "--model", script]
    allow = f"http://docs.example=127.0.0.1:{port}"
    ended = stage.run(*given, "--network", "list", "--allow", allow)
    assert ended.returncode == 0, ended.stderr
    (run,) = (path for path in stage.runs.iterdir() if path.is_dir() and not path.name.startswith("."))
    (returned,) = (each.event for each in open_run(run).records() if isinstance(each.event, ToolReturned))
    assert "# Rules" in returned.text
    assert [each.host for each in returned.requests] == ["docs.example"]
    assert replay(run).prompts
    tools = [tool.name for tool in open_run(run).state.begun.tools]
    assert "web_fetch" in tools
    stage.run(*given, "--network", "none", env={"STACKMEM_RUNS_DIR": str(stage.root / "others")})
    (other,) = (path for path in (stage.root / "others").iterdir() if path.is_dir() and not path.name.startswith("."))
    assert "web_fetch" not in [tool.name for tool in open_run(other).state.begun.tools]

"""Requests that the proxy passes on or refuses, and their log entries, as a hostile command writes them."""

import datetime as dt
import ipaddress
import socket
import ssl
import struct
import threading
from contextlib import suppress
from pathlib import Path

import pytest

from stackmem.workspace.egress.request_log import MAX_ROWS, OpenRequest, RequestLog, refusals
from tests.workspace.listed import OK, network, proxied, rest_of, serving
from tests.workspace.sandboxes import soon


def row(log, **about):
    """Return the only log row with this text."""
    rows = [each for each in log.requests() if all(getattr(each, name) == value for name, value in about.items())]
    assert len(rows) == 1, log.requests()
    return rows[0]


def test_a_request_to_a_listed_host_is_passed_on_and_counted():
    with serving() as host, proxied(network(f"http://web.test=127.0.0.1:{host.port}")) as proxy:
        answer = proxy.get("http://web.test/path?query=1", "User-Agent: x")
        sent = host.seen[0]
    assert answer.startswith(b"HTTP/1.1 200 OK\r\n")
    assert answer.endswith(b"\r\n\r\nhello")
    assert sent.startswith(b"GET /path?query=1 HTTP/1.1\r\nHost: web.test\r\n")
    entered = row(proxy.log, host="web.test", port=80, method="GET", allowed=True, why="")
    assert entered.sent_bytes == len(sent)
    assert entered.received_bytes == len(answer)


def test_connection_and_proxy_headers_are_not_forwarded():
    with serving() as host, proxied(network(f"http://web.test=127.0.0.1:{host.port}")) as proxy:
        proxy.get("http://web.test/", "Proxy-Authorization: Basic x", "Connection: x-own, content-length", "X-Own: 1",
                  "Upgrade: h2c", "TE: trailers", "Keep-Alive: 5", "X-Kept: 1")  # fmt: skip
        lines = {line.split(b":")[0].lower() for line in host.seen[0].split(b"\r\n")[1:] if line}
    assert lines == {b"host", b"x-kept", b"connection"}


def test_a_credential_is_put_in_over_what_the_command_says():
    headers = {"web.test": (("Authorization", "Bearer ours"),)}
    with serving() as host, proxied(network(f"http://web.test=127.0.0.1:{host.port}", headers=headers)) as proxy:
        proxy.get("http://web.test/", "authorization: Bearer theirs")
        sent = host.seen[0]
    assert b"Authorization: Bearer ours\r\n" in sent
    assert b"theirs" not in sent
    assert "ours" not in str(proxy.log.requests())


def test_a_body_is_passed_on_with_a_length_or_in_chunks():
    listed = "http://web.test=127.0.0.1:{},POST"
    with serving() as host, proxied(network(listed.format(host.port))) as proxy:
        head = b"POST http://web.test/ HTTP/1.1\r\nHost: x\r\n"
        whole = proxy.ask(head + b"Content-Length: 4\r\n\r\nbody")
        chunked = proxy.ask(head + b"Transfer-Encoding: chunked\r\n\r\n4;e=1\r\nbody\r\n0\r\nX-Trailer: 1\r\n\r\n")
        expecting = proxy.ask(head + b"Expect: 100-continue\r\nContent-Length: 4\r\n\r\nbody")
        sent = host.seen
    assert [each.endswith(b"hello") for each in (whole, chunked, expecting)] == [True] * 3
    assert sent[0].endswith(b"\r\n\r\nbody")
    assert sent[2].endswith(b"\r\n\r\nbody")
    assert sent[1].endswith(b"\r\n\r\n4\r\nbody\r\n0\r\n\r\n")  # no extension or trailer of the command


@pytest.mark.parametrize(
    ("request_line", "status", "says"),
    [
        ("GET http://other.test/", 403, "other.test:80 is not on the list"),
        ("GET http://web.test:8080/", 403, "web.test:8080 is not on the list"),
        ("GET http://127.0.0.1:{port}/", 403, "is not on the list"),
        ("GET http://localhost:{port}/", 403, "is not on the list"),
        ("GET http://[::1]:{port}/", 403, "is not on the list"),
        ("GET http://2130706433:{port}/", 400, "names no host and port"),
        ("GET http://0x7f.1:{port}/", 400, "names no host and port"),
        ("GET http://web.test@127.0.0.1:{port}/", 400, "names no host and port"),
        ("GET http://web.test%2e.evil.test/", 400, "names no host and port"),
        ("GET http://web.test:99999/", 400, "names no host and port"),
        ("GET http://web.test\\@evil.test/", 400, "names no host and port"),
        ("GET http://web.test/#x", 400, "names no whole address"),
        ("GET ftp://web.test/", 400, "names no whole address"),
        ("GET https://web.test/", 403, "web.test:443 is not on the list"),
        ("POST http://web.test/", 403, "may not be asked with POST"),
        ("OPTIONS *", 400, "names no whole address"),
        ("CONNECT web.test:80", 403, "web.test:80 is not on the list"),
        ("CONNECT tunnel.test:22", 403, "that host is allowed as tunnel.test:443"),
        ("CONNECT tunnel.test", 400, "names no host and port"),
        ("CONNECT http://tunnel.test:443/", 400, "names no host and port"),
        ("CONNECT 127.0.0.1:{port}", 403, "is not on the list"),
        ("CONNECT 127.1:{port}", 400, "names no host and port"),
        ("CONNECT [::ffff:127.0.0.1]:{port}", 403, "is not on the list"),
        ("GET http://web.test/ HTTP/1.1\r\nX: a\x00b", 400, "is none of HTTP"),
        ("GET http://web.test/ \x01", 400, "is none of HTTP"),
        ("\x16\x03\x01\x02\x00\x01", 400, "is none of HTTP"),
    ],
)
def test_unlisted_hosts_and_invalid_requests_are_not_forwarded(request_line, status, says):
    with serving() as host:
        line = request_line.format(port=host.port)
        line = line if " HTTP/" in line else f"{line} HTTP/1.1"
        listed = network(f"http://web.test=127.0.0.1:{host.port}", f"tunnel.test=127.0.0.1:{host.port}")
        with proxied(listed) as proxy:
            answer = proxy.ask(f"{line}\r\nHost: web.test\r\n\r\n".encode("latin-1"))
        assert host.seen == []
    assert answer.startswith(f"HTTP/1.1 {status} stackmem: ".encode())
    assert says in answer.decode()
    (entered,) = proxy.log.requests()
    assert not entered.allowed
    assert entered.sent_bytes == 0
    assert says in refusals((entered,))[0]


@pytest.mark.parametrize(
    ("named", "says"),
    [
        ("other.test", "other.test:80 is not on the list"),
        ("web.test:8080", "web.test:8080 is not on the list"),
        ("web.test@other.test", "names no host and port"),
        ("web.test/x", "web.test:80 may not"),
        ("", "names no host and port"),
    ],
)
def test_a_client_that_takes_the_proxy_for_the_host_is_judged_by_the_host_that_it_names(named, says):
    with serving() as host:
        listed = network(f"http://127.0.0.1:3128=127.0.0.1:{host.port}", f"http://web.test=127.0.0.1:{host.port},PUT")
        with proxied(listed) as proxy:
            assert proxy.ask(b"GET /v1?x=//y HTTP/1.1\r\nHost: 127.0.0.1:3128\r\n\r\n").endswith(b"hello")
            assert host.seen[0].startswith(b"GET /v1?x=//y HTTP/1.1\r\nHost: 127.0.0.1:3128\r\n")
            refused = proxy.ask(f"POST / HTTP/1.1\r\nHost: {named}\r\n\r\n".encode())
            assert len(host.seen) == 1
    assert says in refused.decode()


SMUGGLED = [
    "Content-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\nGET",
    "Transfer-Encoding: chunked\r\nContent-Length: 4\r\n\r\n0\r\n\r\nGET",
    "Content-Length: 4\r\nContent-Length: 5\r\n\r\nbody!",
    "Content-Length: +4\r\n\r\nbody",
    "Content-Length: 4, 5\r\n\r\nbody!",
    "Content-Length: -1\r\n\r\n",
    "Content-Length: 99999999999999999999999\r\n\r\n",
    "Transfer-Encoding: xchunked\r\n\r\n0\r\n\r\n",
    "Transfer-Encoding: chunked, identity\r\n\r\n0\r\n\r\n",
    "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    "Transfer-Encoding : chunked\r\n\r\n0\r\n\r\n",
    "Host: web.test\r\n\r\n",
    "X: a\rContent-Length: 4\r\n\r\nbody",
]


@pytest.mark.parametrize("rest", SMUGGLED)
def test_ambiguous_requests_are_not_forwarded(rest):
    with serving() as host, proxied(network(f"http://web.test=127.0.0.1:{host.port},POST")) as proxy:
        answer = proxy.ask(f"POST http://web.test/ HTTP/1.1\r\nHost: web.test\r\n{rest}".encode())
        assert b"".join(host.seen) == b""
    assert answer.split(b" ")[1] in (b"400", b"501", b"408")


def test_a_broken_chunk_ends_the_request_and_what_follows_it_is_no_second_one():
    with serving() as host, proxied(network(f"http://web.test=127.0.0.1:{host.port},POST")) as proxy:
        head = b"POST http://web.test/ HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n"
        proxy.ask(head + b"4\r\nbodyGET /second HTTP/1.1\r\n\r\n")
        pipelined = proxy.ask(
            b"GET http://web.test/first HTTP/1.1\r\nHost: x\r\n\r\n"
            b"GET http://web.test/second HTTP/1.1\r\nHost: x\r\n\r\n"
        )
        sent = b"".join(host.seen)
    assert pipelined.count(b"HTTP/1.1 200") == 1
    assert b"second" not in sent


def test_a_redirect_is_followed_by_the_command_and_checked_again():
    to = b"HTTP/1.1 302 Found\r\nLocation: http://evil.test/\r\nContent-Length: 0\r\n\r\n"
    with serving(to) as host, proxied(network(f"http://web.test=127.0.0.1:{host.port}")) as proxy:
        assert b"Location: http://evil.test/" in proxy.get("http://web.test/").replace(b"location", b"Location")
        assert proxy.get("http://evil.test/").startswith(b"HTTP/1.1 403 ")


@pytest.mark.parametrize("address", ["127.0.0.1", "10.0.0.1", "169.254.169.254", "::1", "fd00::1", "::ffff:127.0.0.1"])
@pytest.mark.parametrize("line", ["CONNECT name.test:443", "GET http://name.test/"])
def test_a_listed_name_that_leads_to_a_private_address_is_refused(line, address):
    listed = network("name.test", "http://name.test", resolve=lambda *_: [address])
    with proxied(listed) as proxy:
        answer = proxy.ask(f"{line} HTTP/1.1\r\nHost: x\r\n\r\n".encode())
    assert answer.startswith(b"HTTP/1.1 403 ")
    assert b"private or this machine's own" in answer
    assert address.encode() not in answer
    assert not row(proxy.log, host="name.test").allowed


def test_a_name_is_looked_up_once_for_a_connection_and_never_for_a_host_that_is_not_listed():
    asked = []

    def resolve(host, port):
        asked.append(host)
        return ["127.0.0.1"]

    with proxied(network("*.name.test", resolve=resolve)) as proxy:
        proxy.ask(b"CONNECT a.name.test:443 HTTP/1.1\r\nHost: x\r\n\r\n")
        proxy.ask(b"CONNECT secret.evil.test:443 HTTP/1.1\r\nHost: x\r\n\r\n")
    assert asked == ["a.name.test"]


@pytest.mark.parametrize("failure", [OSError("none"), UnicodeError("label too long")])
def test_a_failing_resolver_does_not_bypass_the_list(failure):
    def resolve(host, port):
        raise failure

    with proxied(network("name.test", resolve=resolve)) as proxy:
        proxy.ask(b"CONNECT name.test:443 HTTP/1.1\r\nHost: x\r\n\r\n")
    assert row(proxy.log, host="name.test").why == "is allowed, but no address of it was found"


def test_a_resolver_that_never_answers_is_not_waited_for():
    never = threading.Event()
    listed = network("name.test", resolve=lambda *_: [str(never.wait(100))], connect_seconds=0.05)
    with proxied(listed) as proxy:
        answer = proxy.ask(b"CONNECT name.test:443 HTTP/1.1\r\nHost: x\r\n\r\n")
    never.set()
    assert answer.startswith(b"HTTP/1.1 502 ")


def test_a_host_that_refuses_the_connection_is_told_apart_from_one_that_is_not_listed():
    with socket.socket() as nobody:
        nobody.bind(("127.0.0.1", 0))
        with proxied(network(f"name.test=127.0.0.1:{nobody.getsockname()[1]}")) as proxy:
            answer = proxy.ask(b"CONNECT name.test:443 HTTP/1.1\r\nHost: x\r\n\r\n")
    assert answer.startswith(b"HTTP/1.1 502 ")
    assert b"is allowed, but it cannot be connected to" in answer
    assert row(proxy.log, host="name.test").allowed


@pytest.mark.parametrize(
    "said",
    [b"SSH-2.0-x\r\n", b"", b"HTTP/1.1 200 OK\r\nX: " + b"x" * 100_000, b"HTTP/1.1 101 Switching\r\n\r\n",
     b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nx"],
)  # fmt: skip
def test_a_host_that_does_not_answer_in_http_is_answered_for(said):
    with serving(said) as host, proxied(network(f"http://web.test=127.0.0.1:{host.port}")) as proxy:
        answer = proxy.get("http://web.test/")
    assert answer.startswith(b"HTTP/1.1 502 stackmem: web.test:80 ")


def test_an_answer_that_breaks_off_is_not_ended_as_if_it_were_whole():
    said = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n"
    with serving(said) as host, proxied(network(f"http://web.test=127.0.0.1:{host.port}")) as proxy:
        answer = proxy.get("http://web.test/")
    assert not answer.endswith(b"0\r\n\r\n")
    assert row(proxy.log, host="web.test").why == "the connection broke"


def test_a_huge_head_is_refused_before_it_has_come():
    with proxied(network("name.test")) as proxy:
        answer = proxy.ask(b"CONNECT name.test:443 HTTP/1.1\r\n" + b"X: y\r\n" * 100_000)
        line = proxy.ask(b"GET http://name.test/" + b"x" * 1_000_000)
    assert answer.startswith(b"HTTP/1.1 431 ")
    assert line.startswith(b"HTTP/1.1 431 ")


def test_a_client_that_never_ends_its_request_is_not_waited_for():
    with proxied(network("name.test", head_seconds=0.05)) as proxy, proxy.connect() as slow, proxy.connect() as mute:
        slow.sendall(b"CONNECT name.test:443 HTTP/1.1\r\nX")
        assert rest_of(slow).startswith(b"HTTP/1.1 408 ")
        assert rest_of(mute).startswith(b"HTTP/1.1 408 ")
    assert row(proxy.log, why="did not come whole in time").count == 2


def echo(connection):
    while piece := connection.recv(65536):
        connection.sendall(piece)
    connection.sendall(b" end")


def tunnel(proxy, early=b"", port=8443):
    connection = proxy.connect()
    connection.sendall(f"CONNECT name.test:{port} HTTP/1.1\r\nHost: x\r\n\r\n".encode() + early)
    answer = b""
    while not answer.endswith(b"\r\n\r\n"):
        answer += connection.recv(1)
    assert answer.startswith(b"HTTP/1.1 200 ")
    return connection


def test_a_tunnel_passes_bytes_both_ways_and_each_end_may_end_first():
    with serving(echo) as host, proxied(network(f"name.test:8443=127.0.0.1:{host.port}")) as proxy:
        connection = tunnel(proxy, early=b"\x00early ")
        connection.sendall(b"late")
        connection.shutdown(socket.SHUT_WR)
        assert rest_of(connection) == b"\x00early late end"
        connection.close()
    entered = row(proxy.log, host="name.test", method="CONNECT", why="")
    assert (entered.sent_bytes, entered.received_bytes) == (11, 15)


def test_a_tunnel_ended_by_a_reset_is_not_a_failure():
    with serving(echo) as host, proxied(network(f"name.test:8443=127.0.0.1:{host.port}")) as proxy:
        connection = tunnel(proxy, early=b"x" * 100_000)
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        connection.close()  # by a reset
        assert soon(lambda: proxy.log.requests())
    assert row(proxy.log, host="name.test").why == ""


def greeting(name, least=ssl.TLSVersion.TLSv1_2):
    """Return a TLS client's first message."""
    context = ssl.create_default_context()
    context.check_hostname = name is not None
    context.minimum_version = least
    outgoing = ssl.MemoryBIO()
    client = context.wrap_bio(ssl.MemoryBIO(), outgoing, server_hostname=name)
    with pytest.raises(ssl.SSLWantReadError):
        client.do_handshake()
    return outgoing.read()


@pytest.mark.parametrize("least", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
def test_a_tunnel_whose_tls_names_its_host_is_passed_on_as_it_came(least):
    sent = greeting("Name.test", least)
    with serving(echo) as host, proxied(network(f"name.test=127.0.0.1:{host.port}")) as proxy:
        connection = tunnel(proxy, early=sent[:3], port=443)
        connection.sendall(sent[3:100])
        connection.sendall(sent[100:] + b"more")
        connection.shutdown(socket.SHUT_WR)
        assert rest_of(connection) == sent + b"more end"
        connection.close()
    assert row(proxy.log, host="name.test", why="").sent_bytes == len(sent) + 4


@pytest.mark.parametrize(
    ("sent", "says"),
    [
        (greeting("evil.test"), "named another host by TLS in its tunnel"),
        (greeting("name.test.evil.test"), "named another host by TLS in its tunnel"),
        (greeting(None), "named another host by TLS in its tunnel"),
        (b"\x16\x03\x01\x00\x05hello", "named another host by TLS in its tunnel"),
        (b"\x16\x03\x01\xff\xff" + b"x" * 100_000, "named another host by TLS in its tunnel"),
        (b"GET / HTTP/1.1\r\nHost: evil.test\r\n\r\n", "got something other than TLS in its tunnel"),
        (b"SSH-2.0-x\r\n", "got something other than TLS in its tunnel"),
    ],
)
def test_a_tunnel_that_is_for_another_host_at_the_same_address_carries_nothing(sent, says):
    seen = []

    def keep(connection):
        while piece := connection.recv(65536):
            seen.append(piece)

    with serving(keep) as host, proxied(network(f"name.test=127.0.0.1:{host.port}")) as proxy:
        connection = tunnel(proxy, port=443)
        with suppress(OSError):
            connection.sendall(sent)
        assert rest_of(connection) == b""
        connection.close()
    assert seen == []
    entered = row(proxy.log, host="name.test", why=says)
    assert (entered.allowed, entered.sent_bytes) == (False, 0)


def test_on_another_port_tls_must_name_its_host_and_the_host_may_speak_first():
    def greets(connection):
        connection.sendall(b"220 name.test\r\n")
        echo(connection)

    with serving(greets) as host, proxied(network(f"name.test:8443=127.0.0.1:{host.port}")) as proxy:
        plain = tunnel(proxy)
        assert plain.recv(100) == b"220 name.test\r\n"
        plain.sendall(b"QUIT")
        assert plain.recv(100) == b"QUIT"
        plain.close()
        other = tunnel(proxy)
        other.sendall(greeting("evil.test"))
        assert rest_of(other) in (b"", b"220 name.test\r\n")
        other.close()
    assert not row(proxy.log, why="named another host by TLS in its tunnel").allowed


def test_a_tunnel_in_which_nothing_moves_is_ended():
    entry = "name.test:8443=127.0.0.1:{}"
    with serving(echo) as host, proxied(network(entry.format(host.port), idle_seconds=0.05)) as proxy:
        idle = tunnel(proxy)
        assert rest_of(idle) == b""
        idle.close()
    assert row(proxy.log, host="name.test").why == "nothing moved for too long"


def test_a_command_that_has_sent_its_share_sends_no_more():
    with serving(echo) as host:
        listed = network(f"name.test:8443=127.0.0.1:{host.port}", up_bytes=100_000)
        with proxied(listed) as proxy:
            with tunnel(proxy) as connection:
                connection.sendall(b"x" * 100_001)
                assert len(rest_of(connection)) <= 100_001
            answer = proxy.ask(b"CONNECT name.test:8443 HTTP/1.1\r\nHost: x\r\n\r\n")
    assert b"403" in answer
    assert b"has sent more than" in answer
    rows = proxy.log.requests()
    assert any(each.allowed and "has sent more than" in each.why for each in rows)


def test_a_host_that_sends_without_end_is_cut_off():
    def flood(connection):
        connection.recv(65536)
        connection.sendall(b"HTTP/1.1 200 OK\r\n\r\n")
        while True:
            connection.sendall(b"x" * 65536)

    entry = "http://web.test=127.0.0.1:{}"
    with serving(flood) as host, proxied(network(entry.format(host.port), down_bytes=1_000_000)) as proxy:
        answer = proxy.get("http://web.test/")
    assert answer.count(b"HTTP/1.1") == 1  # no second response in the first one's body
    assert len(answer) < 1_300_000
    assert "has received more than" in row(proxy.log, host="web.test").why


def test_the_log_stays_small_whatever_is_asked():
    log = RequestLog()
    for number in range(10 * MAX_ROWS):
        log.enter(OpenRequest(host=f"h{number}.test", port=443, method="CONNECT", why="is not on the list", spoke=True))
    rows = log.requests()
    assert len(rows) == MAX_ROWS + 1
    assert sum(each.count for each in rows) == 10 * MAX_ROWS
    assert len(refusals(rows)) == 4


@pytest.fixture(scope="module")
def authority(tmp_path_factory) -> tuple[Path, ssl.SSLContext]:
    """Create a self-signed certificate for web.test, and a server context with it."""
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec

    folder = tmp_path_factory.mktemp("tls")
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "web.test")])
    now = dt.datetime.now(dt.UTC)
    alternatives = [x509.DNSName("web.test"), x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]
    certificate = (
        x509.CertificateBuilder().subject_name(name).issuer_name(name).public_key(key.public_key()).serial_number(1)
        .not_valid_before(now - dt.timedelta(days=1)).not_valid_after(now + dt.timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName(alternatives), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True).sign(key, hashes.SHA256())
    )  # fmt: skip
    pem = serialization.Encoding.PEM
    private = key.private_bytes(pem, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    (folder / "both.pem").write_bytes(private + certificate.public_bytes(pem))
    (folder / "trusted.pem").write_bytes(certificate.public_bytes(pem))
    server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    server.load_cert_chain(folder / "both.pem")
    return folder / "trusted.pem", server


def test_the_proxy_speaks_tls_outside_with_the_key_that_commands_never_see(authority, monkeypatch):
    trusted, tls = authority
    monkeypatch.setenv("SSL_CERT_FILE", str(trusted))
    headers = {"web.test": (("Authorization", "Bearer ours"),)}
    with serving(OK, tls) as host:
        with proxied(network(f"https://web.test=127.0.0.1:{host.port}", headers=headers)) as proxy:
            answers = [
                proxy.get(f"{each}/x") for each in ("http://web.test", "http://web.test:443", "https://web.test")
            ]
        sent = host.seen
    assert all(answer.endswith(b"hello") for answer in answers)
    assert all(each.startswith(b"GET /x HTTP/1.1\r\nHost: web.test\r\nAuthorization: Bearer ours\r\n") for each in sent)
    assert row(proxy.log, host="web.test", port=80).count == 1


@pytest.mark.parametrize("case", ["not trusted", "another name"])
def test_a_host_that_cannot_prove_who_it_is_gets_no_request(authority, monkeypatch, case):
    trusted, tls = authority
    name = "web.test" if case == "not trusted" else "other.test"
    if case == "another name":
        monkeypatch.setenv("SSL_CERT_FILE", str(trusted))
    with serving(OK, tls) as host, proxied(network(f"https://{name}=127.0.0.1:{host.port}")) as proxy:
        answer = proxy.get(f"http://{name}/")
        assert host.seen == []
    assert b"its certificate is not to be trusted" in answer

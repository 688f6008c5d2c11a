import contextlib
import socket
import subprocess
import sys

import pytest

from tests.network import NetworkRefused, is_loopback


@pytest.mark.parametrize("host", ["192.0.2.1", "2001:db8::1"])
def test_a_connection_that_leaves_the_machine_is_refused(host, refused_connections):
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.socket(family) as sock, pytest.raises(NetworkRefused):
        sock.connect((host, 80))
    refused_connections.clear()


def test_a_datagram_that_leaves_the_machine_is_refused(refused_connections):
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock, pytest.raises(NetworkRefused):
        sock.sendto(b"x", ("192.0.2.1", 53))
    refused_connections.clear()


def test_a_name_is_not_looked_up(refused_connections):
    with pytest.raises(NetworkRefused):
        socket.getaddrinfo("example.org", 443)
    refused_connections.clear()


def test_a_refusal_that_the_code_swallows_is_remembered(refused_connections):
    with contextlib.suppress(NetworkRefused):
        socket.gethostbyname("example.org")
    assert refused_connections == ["socket.gethostbyname 'example.org'"]
    refused_connections.clear()


def test_loopback_is_open():
    with socket.create_server(("127.0.0.1", 0)) as server, socket.create_connection(server.getsockname()) as client:
        accepted, _ = server.accept()
        with accepted:
            client.sendall(b"here")
            assert accepted.recv(4) == b"here"


@pytest.mark.parametrize(
    "host", ["127.0.0.1", "127.8.8.8", "::1", "::ffff:127.0.0.1", "localhost", b"localhost", None, ""]
)
def test_loopback_is_known_by_every_spelling(host):
    assert is_loopback(host)


@pytest.mark.parametrize("host", ["localhost.example.org", "127.0.0.1.example.org", "10.0.0.1", "::ffff:10.0.0.1", 7])
def test_addresses_that_resemble_loopback_are_refused(host):
    assert not is_loopback(host)


def test_a_child_process_finds_its_proxy_dead():
    code = "import urllib.request as u; u.urlopen('http://example.org', timeout=5)"
    child = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert "Connection refused" in child.stderr


def test_tiktoken_cannot_download_its_ranks(refused_connections, home):
    import tiktoken.load

    with pytest.raises(NetworkRefused):
        tiktoken.load.read_file_cached("https://example.org/o200k_base.tiktoken")
    assert refused_connections
    refused_connections.clear()
    assert not (home / "no-download").exists()


def test_the_callers_keys_and_settings_are_gone():
    code = "import os; print([n for n in os.environ if n.startswith(('ANTHROPIC_', 'OPENAI_', 'STACKMEM_'))])"
    child = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    left = [name for name in eval(child.stdout) if name not in ("STACKMEM_CAMPAIGN", "STACKMEM_EXPECT_LEVEL")]
    assert left == []

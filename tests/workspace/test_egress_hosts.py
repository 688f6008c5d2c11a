"""The meaning of a list entry, the hosts it covers, and the addresses that a name may resolve to."""

import ipaddress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stackmem.core.errors import UsageError
from stackmem.workspace.egress.addresses import is_public, public_ones
from stackmem.workspace.egress.hosts import (
    entry_for,
    entry_for_request,
    host_name,
    read_allowed,
    read_authority,
    why_refused,
)
from stackmem.workspace.egress.network_list import read_credentials, read_hosts


@pytest.mark.parametrize(
    ("text", "spelled"),
    [
        ("index.test", "index.test:443"),
        ("Index.TEST.:8443", "index.test:8443"),
        ("*.files.test", "*.files.test:443"),
        ("http://cache.test", "http://cache.test:80"),
        ("http://cache.test:8080,POST,PUT", "http://cache.test:8080,POST,PUT"),
        ("http://cache.test,GET,POST,POST", "http://cache.test:80,POST"),
        ("https://api.test/", "https://api.test:443"),
        ("index.test=10.1.2.3", "index.test:443=10.1.2.3:443"),
        ("index.test:443=[fd00::1]:8443", "index.test:443=[fd00::1]:8443"),
        ("http://cache.test=127.0.0.1:8000,POST", "http://cache.test:80=127.0.0.1:8000,POST"),
        ("10.1.2.3:8080", "10.1.2.3:8080=10.1.2.3:8080"),
        ("[::1]:8080", "[::1]:8080=[::1]:8080"),
    ],
)
def test_an_entry_is_spelled_so_that_it_can_be_given_again(text, spelled):
    assert read_allowed(text).spelled == spelled
    assert read_allowed(spelled) == read_allowed(text)


@pytest.mark.parametrize(
    "text",
    ["", " ", "*", "*.", "a b", "a..b", "host:0", "host:65536", "host:x", "ftp://host", "http://user@host", "host/path",
     "http://host/path", "host,POST", "http://host,post", "http://host,CONNECT", "host=name.test", "host=1.2.3.4:0",
     "127.1:80", "0x7f.0.0.1", "2130706433", "0177.0.0.1", "*.0.0.1", "hôte.test", "-a.test", "a-.test", "::1",
     "1.2.3.4.5", f"{'a' * 64}.test", f"{'a.' * 130}test", "host\n.test", "[::1", "[host]"],
)  # fmt: skip
def test_invalid_entries_are_refused_in_one_sentence(text):
    with pytest.raises(UsageError, match="--allow") as refused:
        read_allowed(text)
    assert "\n" not in str(refused.value)


HOSTS = read_hosts(
    ("index.test", "*.files.test", "http://cache.test", "https://api.test", "https://odd.test:8443", "10.1.2.3:80")
)


@pytest.mark.parametrize(
    ("host", "port", "covered"),
    [("index.test", 443, True), ("index.test", 80, False), ("a.files.test", 443, True), ("a.b.files.test", 443, True),
     ("files.test", 443, False), ("evilfiles.test", 443, False), (".files.test", 443, False),
     ("index.test.evil.test", 443, False), ("cache.test", 443, False), ("10.1.2.3", 80, True), ("10.1.2.4", 80, False)],
)  # fmt: skip
def test_a_tunnel_leads_to_listed_hosts_and_ports_alone(host, port, covered):
    assert (entry_for(HOSTS, "tunnel", host, port) is not None) is covered


@pytest.mark.parametrize(
    ("scheme", "host", "port", "way"),
    [("http", "cache.test", 80, "http"), ("https", "cache.test", 443, None), ("http", "api.test", 80, "https"),
     ("http", "api.test", 443, "https"), ("https", "api.test", 443, "https"), ("http", "api.test", 8080, None),
     ("http", "odd.test", 80, None), ("http", "odd.test", 8443, "https"), ("http", "index.test", 80, None)],
)  # fmt: skip
def test_a_request_that_is_seen_goes_the_way_that_its_entry_says(scheme, host, port, way):
    found = entry_for_request(HOSTS, scheme, host, port)
    assert (found.way if found else None) == way


def test_a_listed_host_requested_differently_is_refused_with_its_entry():
    assert why_refused(HOSTS, "api.test").endswith("that host is allowed as https://api.test:443")
    assert ";" not in why_refused(HOSTS, "other.test")
    assert "=" not in why_refused(HOSTS, "10.1.2.3")


@pytest.mark.parametrize(
    "text",
    ["127.1", "0x7f.1", "0x7f000001", "2130706433", "0177.0.0.1", "127.0.0.1.", "017700000001", "::1", "[127.0.0.1",
     "localhost:", "127。0。0。1", "１２７.0.0.1", "a_b.c d", "a\x00b", "%31%32%37.0.0.1", "[::1%25lo]"],
)  # fmt: skip
def test_other_spellings_of_an_address_are_no_host(text):
    assert host_name(text) == ""


@given(st.text(max_size=300))
def test_whatever_a_request_names_is_a_host_that_stays_itself_or_none(text):
    host, port, spelled = read_authority(text)
    assert host == "" or host_name(f"[{host}]" if ":" in host else host) == host
    assert 0 <= port < 65536
    assert spelled in text


@pytest.mark.parametrize(
    "text",
    ["127.0.0.1", "127.255.255.254", "0.0.0.0", "10.0.0.1", "172.16.0.1", "192.168.1.1", "169.254.169.254",
     "100.64.0.1", "100.100.100.200", "192.0.0.192", "198.18.0.1", "203.0.113.1", "224.0.0.1", "240.0.0.1",
     "255.255.255.255", "168.63.129.16", "::", "::1", "::127.0.0.1", "::ffff:127.0.0.1", "::ffff:8.8.8.8",
     "64:ff9b::7f00:1", "64:ff9b::808:808", "64:ff9b:1::1", "2002:7f00:1::", "2001:0:1::1", "fe80::1", "fe80::1%eth0",
     "fec0::1", "fc00::1", "fd00:ec2::254", "ff02::1", "2001:db8::1", "100::1"],
)  # fmt: skip
def test_private_local_and_service_addresses_are_never_public(text):
    assert not is_public(ipaddress.ip_address(text))


@pytest.mark.parametrize("text", ["1.1.1.1", "93.184.216.34", "2606:4700:4700::1111"])
def test_addresses_of_the_internet_are_public(text):
    assert is_public(ipaddress.ip_address(text))


def test_of_the_addresses_of_a_name_only_public_ones_are_tried():
    assert public_ones(["10.0.0.1", "1.1.1.1", "127.0.0.1", "no address"]) == ["1.1.1.1"]


def test_a_credential_goes_where_it_is_seen_and_encrypted(tmp_path):
    (tmp_path / "key").write_text("from a file\n")
    hosts = read_hosts(("https://api.test", "http://near.test=127.0.0.1:1", "tunnel.test"))
    given = ("api.test:Authorization=$AUTH", "API.test:X-Key=@key", "near.test:X-Key=$AUTH")
    read = read_credentials(given, hosts, {"AUTH": "Bearer x"}, tmp_path)
    assert read["api.test"] == (("Authorization", "Bearer x"), ("X-Key", "from a file"))
    assert read["near.test"] == (("X-Key", "Bearer x"),)


@pytest.mark.parametrize(
    ("text", "says"),
    [("api.test:X-Key=literal", "write HOST:NAME"), ("api.test:Host=$AUTH", "write HOST:NAME"),
     ("api.test:Content-Length=$AUTH", "write HOST:NAME"), ("tunnel.test:X-Key=$AUTH", "https://tunnel.test"),
     ("other.test:X-Key=$AUTH", "https://other.test"), ("plain.test:X-Key=$AUTH", "https://plain.test"),
     ("both.test:X-Key=$AUTH", "remove http://both.test"), ("api.test:X-Key=$UNSET", "has no value"),
     ("api.test:X-Key=$LINES", "printable ASCII"), ("api.test:X-Key=@gone", "cannot be read"), ("", "write HOST:NAME")],
)  # fmt: skip
def test_a_credential_that_would_leak_or_is_none_is_refused(text, says, tmp_path):
    hosts = read_hosts(
        ("https://api.test", "tunnel.test", "http://plain.test", "https://both.test", "http://both.test")
    )
    environ = {"AUTH": "hush", "LINES": "a\r\nb: c"}
    with pytest.raises(UsageError, match=says) as refused:
        read_credentials((text,), hosts, environ, tmp_path)
    assert "hush" not in str(refused.value)
    assert "literal" not in str(refused.value)

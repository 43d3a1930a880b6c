"""One grammar of ``host:port``, and one form of what it names."""

from __future__ import annotations

import pytest

from aqueduct_core.errors import InvalidOption
from aqueduct_core.primitives.host_port import HostPort, canonical, is_loopback, parse_url


@pytest.mark.parametrize(
    ("text", "host", "port"),
    [
        ("0.0.0.0:4433", "0.0.0.0", 4433),
        ("[::1]:0", "::1", 0),
        ("host.example:65535", "host.example", 65535),
    ],
)
def test_a_text_and_its_value(text: str, host: str, port: int) -> None:
    assert HostPort.parse(text) == (host, port)
    assert str(HostPort(host, port)) == text


@pytest.mark.parametrize(
    "text",
    ["", ":1", "host", "host:", "host:65536", "::1:1", "a b:1", "h:x", "h:-1", "u@h:1", "h:٣"],
)
def test_other_text_is_none(text: str) -> None:
    with pytest.raises(ValueError, match="host:port"):
        HostPort.parse(text)
    assert canonical(text) == text


def test_who_dials_needs_a_port_and_who_listens_no_host() -> None:
    with pytest.raises(ValueError, match="from 1 to 65535"):
        HostPort.parse("host:0", 1)
    assert HostPort.parse(":4433", any_host=True) == ("", 4433)


def test_an_address_has_one_form_however_it_is_written() -> None:
    """What is kept under it is found again."""
    for written, form in (
        ("LocalHost.:04433", "localhost:4433"),
        ("[0:0::01]:1", "[::1]:1"),
        ("[FE80::A%Eth0]:1", "[fe80::a%Eth0]:1"),
    ):
        assert str(HostPort.parse(written)) == canonical(written) == form


def test_what_only_this_machine_reaches() -> None:
    loopback = ["127.0.0.1", "127.9.9.9", "::1", "::1%lo", "::ffff:127.0.0.1"]
    assert all(is_loopback(host) for host in loopback)
    assert not any(is_loopback(h) for h in ["192.0.2.1", "::", "localhost", "fe80::1%eth0", ""])
    assert HostPort.parse("LOCALHOST:1").loopback
    assert not HostPort.parse("0.0.0.0:1").loopback


@pytest.mark.parametrize(
    ("url", "host", "port"),
    [
        ("aqueduct://localhost:4433", "localhost", 4433),
        ("aqueduct://127.0.0.1:1/", "127.0.0.1", 1),
        ("aqueduct://[::1]:4433", "::1", 4433),
    ],
)
def test_urls(url: str, host: str, port: int) -> None:
    assert parse_url(url, "aqueduct") == (host, port)


@pytest.mark.parametrize(
    "url",
    [
        "localhost:4433",
        "http://localhost:4433",
        "aqueduct://:4433",
        "aqueduct://localhost",
        "aqueduct://localhost:0",
        "aqueduct://localhost:99999",
        "aqueduct://localhost:4433/path",
        "aqueduct://localhost:4433?x=1",
    ],
)
def test_urls_that_are_refused(url: str) -> None:
    with pytest.raises(InvalidOption, match=r"AQUEDUCT_INVALID_OPTION.BAD_VALUE.*aqueduct://"):
        parse_url(url, "aqueduct")


def test_a_password_in_a_url_is_not_repeated() -> None:
    with pytest.raises(InvalidOption) as caught:
        parse_url("aqueduct://user:hunter2@localhost:4433", "aqueduct")
    assert "hunter2" not in str(caught.value)

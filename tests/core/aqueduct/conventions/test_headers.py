"""Header conventions: what is built parses back, and what breaks its form is refused."""

from __future__ import annotations

import pytest

from aqueduct_core.aqueduct.conventions import headers as conventions
from aqueduct_core.aqueduct.conventions.headers import BadHeader
from aqueduct_core.engine.message_batch import Headers


def test_connection_headers_and_back() -> None:
    headers = conventions.connection_headers(
        token="s3cret", producer="p-1", sequence_start=0, extra=((b"x", b"\xff"),)
    )
    assert headers == (
        (b"authorization", b"Bearer s3cret"),
        (b"producer", b"p-1"),
        (b"sequence-start", b"0"),
        (b"x", b"\xff"),
    )
    claims = conventions.read_connection(headers)
    assert (claims.token, claims.producer, claims.sequence_start) == ("s3cret", "p-1", 0)
    assert "s3cret" not in repr(claims)
    assert conventions.without_secrets(headers) == headers[1:]


def test_channel_headers_and_back() -> None:
    headers = conventions.channel_headers(name="größe", sequence_start=2**62 - 1)
    claims = conventions.read_channel(headers)
    assert (claims.name, claims.sequence_start) == ("größe", 2**62 - 1)


def test_a_run_says_who_it_is_and_where_it_begins() -> None:
    headers = conventions.connection_headers(producer="p", run="r1")
    assert headers == ((b"producer", b"p"), (b"producer-run", b"r1"))
    assert conventions.read_connection(headers).run == "r1"
    headers = conventions.channel_headers(name="c", sequence_start=7, run_start=5, stood_at=6)
    assert headers[-2:] == ((b"run-start", b"5"), (b"stood-at", b"6"))
    assert conventions.read_channel(headers) == conventions.ChannelClaims("c", 7, 5, 6)
    asked = conventions.position_of("größe")
    assert asked == (b"position-of", "größe".encode())
    assert conventions.read_position_of((asked,)) == "größe"
    assert conventions.read_position_of(()) is None
    with pytest.raises(BadHeader, match="position-of"):
        conventions.read_position_of((asked, asked))
    with pytest.raises(BadHeader, match="position-of"):
        conventions.position_of("")


def test_a_peer_that_does_not_know_them_loses_nothing() -> None:
    assert conventions.read_connection(((b"other", b"1"),)) == conventions.ConnectionClaims()
    assert conventions.read_channel(()) == conventions.ChannelClaims()


@pytest.mark.parametrize(
    "headers",
    [
        ((b"authorization", b"Basic eA=="),),
        ((b"authorization", b"Bearer \xff"),),
        ((b"producer", b""),),
        ((b"producer", b"x" * 65),),
        ((b"producer", b"\xff"),),
        ((b"producer", b"a\0b"),),
        ((b"producer", b"a"), (b"producer", b"b")),
        ((b"producer-run", b""),),
        ((b"producer-run", b"x" * 65),),
        ((b"sequence-start", b""),),
        ((b"sequence-start", b"-1"),),
        ((b"sequence-start", b"1 "),),
        ((b"sequence-start", "٣".encode()),),
        ((b"sequence-start", b"9" * 19),),
        ((b"sequence-start", b"9" * 20),),
        ((b"sequence-start", b"0" * 20),),
        ((b"sequence-start", b"%d" % 2**62),),
    ],
)
def test_values_that_break_their_form(headers: Headers) -> None:
    with pytest.raises(BadHeader) as caught:
        conventions.read_connection(headers)
    assert headers[0][0].decode() in str(caught.value)


@pytest.mark.parametrize("token", ["", "a b", "a\nb", "ä"])
def test_tokens_that_fit_no_header(token: str) -> None:
    with pytest.raises(BadHeader, match="authorization: the token"):
        conventions.connection_headers(token=token)


def test_identities_and_names_are_bounded() -> None:
    headers = conventions.connection_headers(producer="p" * 64, run="r" * 64)
    claims = conventions.read_connection(headers)
    assert (claims.producer, claims.run) == ("p" * 64, "r" * 64)
    with pytest.raises(BadHeader, match="producer has 65 bytes; 1 to 64"):
        conventions.connection_headers(producer="x" * 65)
    with pytest.raises(BadHeader, match="producer-run has 0 bytes; 1 to 64"):
        conventions.connection_headers(run="")
    with pytest.raises(BadHeader, match="name has 257 bytes; 1 to 256"):
        conventions.channel_headers(name="x" * 257)
    with pytest.raises(BadHeader, match="name holds a NUL"):
        conventions.channel_headers(name="a\0b")
    with pytest.raises(BadHeader, match="2\\^62"):
        conventions.channel_headers(sequence_start=2**62)

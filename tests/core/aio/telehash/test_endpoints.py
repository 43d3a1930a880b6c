"""Where lines go, and who is who on them."""

from __future__ import annotations

import pytest

from aqueduct_core.aio.telehash.endpoints import LINK, Hashnames, LineEndpoint
from aqueduct_core.errors import InvalidOption
from tests.support.rules import rule

LOW, HIGH = "00" * 32, "f0" * 32


@pytest.mark.parametrize(
    ("url", "listens", "carrier", "where"),
    [
        ("telehash://host:4433", False, "telehash", ("host", 4433)),
        ("udp://[::1]:7/", False, "udp", ("::1", 7)),
        ("udp://:0", True, "udp", ("", 0)),
        ("telehash://[::]:4433", True, "telehash", ("::", 4433)),
        ("127.0.0.1:0", True, "telehash", ("127.0.0.1", 0)),
    ],
)
def test_an_endpoint_names_its_carrier(
    url: str, listens: bool, carrier: str, where: tuple[str, int]
) -> None:
    assert LineEndpoint.parse(url, listens=listens) == (carrier, where)


def test_it_is_shown_as_it_is_written() -> None:
    for url in ("udp://[::1]:7", "telehash://host:4433"):
        assert str(LineEndpoint.parse(url)) == url


@pytest.mark.parametrize("listens", [False, True])
@pytest.mark.parametrize("url", ["quicr://host:1", "telehash://host", "udp://host:65536", "://x:1"])
def test_what_is_none_is_refused(url: str, listens: bool) -> None:
    with pytest.raises(InvalidOption, match=r"telehash://|udp://"):
        LineEndpoint.parse(url, listens=listens)


@rule("P-1")
def test_there_are_no_streams() -> None:
    assert (LINK.max_streams_uni, LINK.max_streams_bidi) == (0, 0)
    assert LINK.max_datagram_frame_size > 1_200


@rule("P-3")
@pytest.mark.parametrize(
    ("ours", "theirs"),
    [
        ((None, None), (None, None)),
        ((LOW, HIGH), (HIGH, LOW)),
        ((HIGH, LOW), (LOW, HIGH)),
        ((LOW, None), (None, LOW)),  # what the server shows is the other name
        ((HIGH, None), (None, HIGH)),
    ],
)
def test_both_sides_come_to_opposite_answers(
    ours: tuple[str | None, str | None], theirs: tuple[str | None, str | None]
) -> None:
    shown = ":".join(["7F"] * 32)
    dials = Hashnames.parse(*ours).odd(None, shown, dialled=True)
    listens = Hashnames.parse(*theirs).odd(shown, None, dialled=False)
    assert dials is not listens
    if ours[0] is None:
        assert dials
    else:
        assert dials is (ours[0] == HIGH)

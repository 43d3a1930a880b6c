"""What a peer must not do: it costs its own connection, with a reason that names it."""

from __future__ import annotations

import pytest

from aqueduct_core.engine.close_codes import CloseOrigin
from aqueduct_core.engine.inputs import LinkLost
from aqueduct_core.quicr.config import QuicrConfig
from aqueduct_core.quicr.events import EndReason, TransactionEnded
from aqueduct_core.quicr.faults import INTERNAL_ERROR
from tests.core.quicr.ends import media, queue_of
from tests.core.quicr.raw import Raw, message, url
from tests.support.rules import rule

REQUEST = message("01" + url("m"))
REQUEST_DATAGRAM = message("02" + url("m") + "05")
POST = message("06" + url("m") + "01")
SUBSCRIBE = message("09" + url("m"))
ACCEPT = message("0700")
FIN = message("030001")


def fragment(group: int, number: int, offset: int = 0, last: bool = True, data: str = "aa") -> str:
    size = len(data) // 2
    return message(f"05{group:02x}{number:02x}{2 * offset + last:02x}00{size:02x}{data}")


def datagram(
    stream: int, group: int, number: int, offset: int = 0, last: bool = True, data: str = "aa"
) -> str:
    previous = "00" if not number and not offset else ""
    return f"{stream:02x}{group:02x}{number:02x}{2 * offset + last:02x}0000{previous}{data}"


AT_A_SERVER = {
    "an unknown type": (["0b"], "a message of type 11: types are 1, 2, 3, 5"),
    "REQUEST_REPAIR": (["0400000000"], r"type 4 \(REQUEST_REPAIR\)"),
    "a length beyond the fields": (["01" + url("m") + "00"], "REQUEST_STREAM has 1 bytes behind"),
    "a length inside the fields": (
        ["0109" + "6d"],
        "REQUEST_STREAM says 9 bytes of URL",
    ),
    "no bytes": ([""], "a message of no bytes"),
    "ids of 8 bytes": (
        ["06" + url("m") + "00", "08" + "c000000040000000" + "00"],
        "START_POINT has group 1073741824: 1073741823 is the highest",
    ),
    "POST with other capabilities": (["06" + url("m") + "04"], "POST has datagram_capable 4"),
    "a stream that begins with ACCEPT": (["0700"], "stream 0 begins with ACCEPT"),
    "a stream that begins with FRAGMENT": (["05000001000100"], "stream 0 begins with FRAGMENT"),
    "a second request": (
        ["01" + url("m"), "01" + url("n")],
        "REQUEST on stream 0, where nothing may follow",
    ),
    "a post behind a request": (["01" + url("m"), "06" + url("n") + "00"], "POST on stream 0"),
    "a second subscription": (["09" + url("m"), "09" + url("n")], "SUBSCRIBE on stream 0, where"),
    "a fragment before ACCEPT": (
        ["06" + url("m") + "00", "0500000100" + "01aa"],
        "FRAGMENT on stream 0, where nothing was accepted yet",
    ),
    "datagrams without any": (["02" + url("m") + "05"], ""),
    "a URL that is too long": (["01" + "6001" + "6d" * 0x2001], "a URL of 8193 bytes: 1024"),
}


@pytest.mark.parametrize("case", AT_A_SERVER)
@rule("Q-2", "Q-4", "Q-5", "Q-17")
def test_bad_messages_at_a_server(case: str) -> None:
    messages, reason = AT_A_SERVER[case]
    if not reason:
        raw = Raw(max_datagram=255)
        reason = "REQUEST_DATAGRAM of a peer that takes no datagrams of 256 bytes"
    else:
        raw = Raw()
    for each in messages:
        assert raw.closed is None
        raw.stream(0, message(each))
    refused(raw, reason)


def refused(raw: Raw, reason: str) -> None:
    """The connection was closed for it, by QUIC's INTERNAL_ERROR, and nothing comes behind that."""
    assert raw.closed is not None
    assert (raw.closed.code, raw.closed.origin) == (INTERNAL_ERROR, CloseOrigin.TRANSPORT)
    with pytest.raises(AssertionError, match=reason):
        raise AssertionError(raw.closed.reason)
    lost = raw.events[-1]
    assert isinstance(lost, LinkLost)
    assert (lost.code, lost.by_peer) == (INTERNAL_ERROR, False)
    assert raw.engine.closed == lost
    assert raw.stream(4, REQUEST) == []
    assert raw.engine.wake_at is None


def accepting(*, datagram: bool = False, config: QuicrConfig | None = None) -> Raw:
    """A server that has taken a POST on stream 0."""
    raw = Raw(config=config)
    raw.stream(0, POST)
    raw.engine.accept(0, datagram=datagram, now=0)
    raw.turn()
    return raw


ON_A_STREAM = {
    "a gap between objects": ([fragment(0, 0), fragment(0, 2)], r"byte 0 of object \(0, 2\) comes"),
    "a gap inside an object": (
        [fragment(0, 0, 0, False, "aabb"), fragment(0, 0, 3)],
        r"byte 3 of object \(0, 0\) comes where byte 2 of object \(0, 0\) is next",
    ),
    "an object that is not complete": (
        [fragment(0, 0, 0, False), fragment(0, 1)],
        r"object \(0, 1\) comes where byte 1 of",
    ),
    "a gap between groups": ([fragment(0, 0), fragment(2, 0)], r"or object \(1, 0\) is next"),
    "a group inside an object": ([fragment(0, 0, 0, False), fragment(1, 0)], r"object \(1, 0\)"),
    "a first fragment that begins nowhere": ([fragment(0, 0, 5)], r"byte 5 of object \(0, 0\)"),
    "an object again": ([fragment(0, 0), fragment(0, 0)], r"object \(0, 0\) comes where"),
    "an object beyond FIN": (
        [fragment(0, 0), FIN, fragment(0, 1)],
        r"object \(0, 1\) comes behind the final point \(0, 1\)",
    ),
    "FIN beyond the last object": (
        [fragment(0, 0), message("030005")],
        r"FIN \(0, 5\) comes",
    ),
    "FIN inside an object": (
        [fragment(0, 0, 0, False), message("030001")],
        r"FIN \(0, 1\) comes where the stream",
    ),
    "two FINs": ([fragment(0, 0), FIN, FIN], r"FIN \(0, 1\) comes behind the final point"),
    "START_POINT behind a fragment": (
        [fragment(0, 0), message("080100")],
        r"START_POINT \(1, 0\) comes behind fragments",
    ),
    "two start points": (
        [message("080100"), message("080200")],
        r"START_POINT \(2, 0\) comes behind the start point \(1, 0\)",
    ),
    "NOTIFY": ([message("0a" + url("m"))], "NOTIFY on stream 0, where only START_POINT"),
    "ACCEPT from who posts": ([ACCEPT], "ACCEPT on stream 0, where only START_POINT"),
    "a wrong 16-bit length": (["0007" + "0500000100" + "02aaaa"], "FRAGMENT says 2 bytes of data"),
}


@pytest.mark.parametrize("together", [False, True], ids=["one by one", "at once"])
@pytest.mark.parametrize("case", ON_A_STREAM)
@rule("Q-4", "Q-5", "Q-11", "Q-15")
def test_bad_media_on_a_stream(case: str, together: bool) -> None:
    messages, reason = ON_A_STREAM[case]
    raw = accepting()
    if together:
        raw.stream(0, "".join(messages))
    else:
        for each in messages:
            assert raw.closed is None
            raw.stream(0, each)
    refused(raw, reason)


IN_DATAGRAMS = {
    "an unknown stream id": ([datagram(1, 0, 0)], "a datagram of stream id 1, which was not given"),
    "an object beyond FIN": ([FIN, datagram(0, 0, 1)], r"object \(0, 1\) lies behind the final"),
    "a group beyond FIN": ([FIN, datagram(0, 1, 0)], r"object \(1, 0\) lies behind the final"),
    "a header that is cut": (["00000001"], "4 bytes ends inside its header"),
    "ids of 8 bytes": (
        ["00" + "c000000040000000" + "01010000"],
        r"a datagram of \(1073741824, 1\): groups",
    ),
    "a fragment on the stream": ([fragment(0, 0)], "where the media comes as datagrams"),
}


@pytest.mark.parametrize("case", IN_DATAGRAMS)
@rule("Q-4", "Q-5", "Q-9", "Q-10")
def test_bad_media_in_datagrams(case: str) -> None:
    parts, reason = IN_DATAGRAMS[case]
    raw = accepting(datagram=True)
    for part in parts:
        assert raw.closed is None
        if part == FIN or "stream" in case.split()[-1]:
            raw.stream(0, part)
        else:
            raw.datagram(part)
    refused(raw, reason)


AT_A_CLIENT = {
    "ACCEPT with 2": (["post"], message("0702"), "ACCEPT has use_datagram 2: 1 is the highest"),
    "ACCEPT twice": (["post"], ACCEPT + ACCEPT, "ACCEPT on stream 0, where only one ACCEPT may"),
    "ACCEPT of a request": (["request"], ACCEPT, "ACCEPT on stream 0, where only START_POINT"),
    "datagrams that were not offered": (
        ["post"],
        message("070105"),
        "ACCEPT asks for datagrams, which were not offered",
    ),
    "FRAGMENT to who posts": (["post"], fragment(0, 0), "FRAGMENT on stream 0, where only one"),
    "FRAGMENT to who subscribes": (["subscribe"], fragment(0, 0), "where only NOTIFY may come"),
}


@pytest.mark.parametrize("case", AT_A_CLIENT)
@rule("Q-4", "Q-5", "Q-17")
def test_bad_messages_at_a_client(case: str) -> None:
    [kind], text, reason = AT_A_CLIENT[case]
    raw = Raw(client=True)
    engine = raw.engine
    if kind == "post":
        engine.post(b"m", queue_of(media(1)), datagram=False, now=0)
    elif kind == "request":
        engine.request(b"m", datagram=False, now=0)
    else:
        engine.subscribe(b"m", 0)
    raw.turn()
    raw.stream(0, text)
    refused(raw, reason)


@pytest.mark.parametrize("stream", [1, 2, 3, 5])
@rule("Q-1", "Q-5")
def test_a_server_opens_no_streams(stream: int) -> None:
    raw = Raw(client=True)
    raw.stream(stream, REQUEST)
    refused(raw, f"stream {stream} of the server: only a client opens streams")


@rule("Q-1", "Q-5")
def test_streams_of_one_direction_are_for_nothing() -> None:
    raw = Raw()
    raw.stream(2, REQUEST)
    refused(raw, "stream 2 of the client: only a client opens streams, and all of them have two")


@pytest.mark.parametrize("cut", range(1, len(REQUEST) // 2))
@rule("Q-4")
def test_a_stream_that_ends_inside_of_a_message(cut: int) -> None:
    raw = Raw()
    raw.stream(0, REQUEST[: 2 * cut], end=True)
    refused(raw, "stream 0 ends (inside of|without) a message")


@rule("Q-4")
def test_a_stream_that_ends_without_a_message() -> None:
    raw = Raw()
    raw.stream(0, "", end=True)
    refused(raw, "stream 0 ends without a message")


@rule("Q-5")
def test_too_many_transactions() -> None:
    raw = Raw(config=QuicrConfig(max_transactions=3))
    for number in range(3):
        raw.stream(4 * number, REQUEST if number else "00")
    assert raw.closed is None
    raw.stream(12, REQUEST)
    refused(raw, "more than 3 streams are open")


@rule("Q-10")
def test_two_transfers_with_one_datagram_id() -> None:
    raw = Raw()
    raw.stream(0, REQUEST_DATAGRAM)
    raw.stream(4, REQUEST_DATAGRAM)
    refused(raw, "datagram stream id 5 is in use")


@rule("Q-10")
def test_an_id_may_be_used_again_when_its_transfer_is_over() -> None:
    raw = Raw()
    raw.stream(0, REQUEST_DATAGRAM, end=True)
    raw.stream(4, REQUEST_DATAGRAM)
    assert raw.closed is None


@rule("Q-5")
def test_what_is_open_is_lost_with_the_connection() -> None:
    raw = accepting()
    raw.stream(4, SUBSCRIBE)
    raw.stream(8, REQUEST)
    raw.stream(8, REQUEST)
    ended = [event for event in raw.events if isinstance(event, TransactionEnded)]
    assert ended == [TransactionEnded(stream, EndReason.LOST) for stream in (0, 4, 8)]


@rule("Q-4")
def test_an_unfinished_fault_costs_nothing_but_its_bytes() -> None:
    raw = Raw()
    before = raw.engine.footprint.size
    raw.stream(0, "ffff" + "05" + "00" * 60_000)
    assert raw.closed is None
    assert 60_000 < raw.engine.footprint.size - before < 70_000

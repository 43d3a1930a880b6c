"""What goes over the wire, byte by byte as the prototype sends it, and its quirks."""

from __future__ import annotations

import pytest

from aqueduct_core.engine.actions import Admit
from aqueduct_core.engine.inputs import (
    DatagramFate,
    DatagramOutcome,
    LinkReady,
    StreamBytes,
    StreamReset,
    StreamStopped,
)
from aqueduct_core.quicr.config import QuicrConfig
from aqueduct_core.quicr.engine import QuicrEngine
from aqueduct_core.quicr.events import (
    EndReason,
    FinalPoint,
    Fragments,
    Notified,
    PostAccepted,
    Posted,
    Requested,
    SentOut,
    StartPoint,
    Subscribed,
    TransactionEnded,
)
from aqueduct_core.quicr.media.fragment import Fragment
from aqueduct_core.quicr.media.position import Position
from aqueduct_core.quicr.media.reception import Reception
from tests.core.quicr.ends import media, queue_of
from tests.core.quicr.raw import Raw, message, url
from tests.support.rules import rule

FIN_0_2 = message("030002")
OBJECTS = {Position(0, 0): (0x82, b"abc"), Position(0, 1): (0x81, b"de")}


def request(raw: Raw, *, datagram: bool = False) -> int:
    stream = raw.engine.request(b"m", datagram=datagram, now=raw.now)
    raw.turn()
    return stream


@rule("Q-1", "Q-10")
def test_what_a_client_says_first() -> None:
    raw = Raw(client=True)
    engine = raw.engine
    engine.request(b"pymedia", datagram=False, now=0)
    engine.request(b"pymedia", datagram=True, now=0)
    engine.post(b"r_s", queue_of(OBJECTS), datagram=False, now=0)
    engine.post(b"r_d", queue_of(OBJECTS), datagram=True, now=0)
    engine.subscribe(b"py", 0)
    engine.subscribe(b"", 0)
    raw.turn()
    assert {stream: data.hex() for stream, data in raw.out.items()} == {
        0: "0009010770796d65646961",
        4: "000a020770796d6564696100",
        8: "00060603725f7300",
        12: "00060603725f6401",
        16: "000409027079",
        20: "00020900",
    }


@rule("Q-1", "Q-3", "Q-22")
def test_what_a_server_makes_of_it_however_it_is_cut() -> None:
    texts = {
        "0009010770796d65646961": Requested(0, b"pymedia", False),
        "000a020770796d6564696100": Requested(0, b"pymedia", True),
        "00060603725f7300": Posted(0, b"r_s", False),
        "00060603725f6403": Posted(0, b"r_d", True),
        "000409027079": Subscribed(0, b"py"),
        "00020900": Subscribed(0, b""),
    }
    for text, event in texts.items():
        for cut in range(0, len(text), 2):
            raw = Raw()
            first = raw.stream(0, text[:cut]) if cut else []
            assert [*first, *raw.stream(0, text[cut:])] == [event]


@rule("Q-5")
def test_who_has_said_something_is_no_stranger() -> None:
    engine = QuicrEngine(client=False)
    engine.handle(LinkReady(1_150), 0)
    engine.handle(StreamBytes(0, bytes.fromhex("00020900")[:2], False), 0)
    assert engine.actions() == []
    engine.handle(StreamBytes(0, bytes.fromhex("00020900")[2:], False), 0)
    assert engine.actions()[0] == Admit()


@rule("Q-8", "Q-19")
def test_a_media_on_a_stream() -> None:
    raw = Raw()
    raw.stream(0, message("01" + url("m")))
    raw.engine.serve(0, queue_of(OBJECTS), 0)
    events = raw.turn()
    assert raw.out[0].hex() == (
        message("0500000182" + "03" + b"abc".hex())
        + message("0500010181" + "02" + b"de".hex())
        + FIN_0_2
    )
    assert raw.ends == {0}
    assert events == [SentOut(0)]
    assert raw.stream(0, "", end=True) == [TransactionEnded(0, EndReason.COMPLETE)]


@rule("Q-9", "Q-13", "Q-31")
def test_a_media_in_datagrams() -> None:
    raw = Raw()
    objects = OBJECTS | {Position(1, 0): (0x82, b"f")}
    raw.stream(0, message("02" + url("m") + "07"))
    raw.engine.serve(0, queue_of(objects), 0)
    raw.turn()
    assert [data.hex() for _, data in raw.datagrams] == [
        "07000001008200" + b"abc".hex(),
        "070001010081" + b"de".hex(),
        "07010001008202" + b"f".hex(),
    ]
    assert raw.out == {}


def acked(raw: Raw, *indexes: int, fate: DatagramFate = DatagramFate.ACKED) -> list[object]:
    return raw.handle(*(DatagramOutcome(raw.datagrams[i][0], fate) for i in indexes))


@rule("K-2", "Q-9")
def test_the_final_point_waits_for_every_datagram() -> None:
    raw = Raw()
    raw.stream(0, message("02" + url("m") + "07"))
    raw.engine.serve(0, queue_of(OBJECTS), 0)
    raw.turn()
    assert acked(raw, 1) == []
    assert acked(raw, 0, fate=DatagramFate.LOST) == []
    assert len(raw.datagrams) == 3
    assert raw.out == {}
    assert acked(raw, 2) == [SentOut(0)]
    assert raw.out == {0: bytes.fromhex(FIN_0_2)}
    assert raw.ends == set()  # behind datagrams the receiver ends first
    assert raw.stream(0, "", end=True) == [TransactionEnded(0, EndReason.COMPLETE)]
    assert raw.ends == {0}


@rule("Q-31", "Q-32", "K-3")
def test_what_is_lost_is_sent_again_with_how_long_it_has_waited() -> None:
    raw = Raw()
    raw.stream(0, message("02" + url("m") + "07"))
    raw.engine.serve(0, queue_of(OBJECTS), 0)
    raw.turn()
    raw.now = 0.0424
    acked(raw, 0, fate=DatagramFate.LOST)
    assert raw.datagrams[2][1].hex() == "070000012a8200" + b"abc".hex()
    raw.now = 0.067
    acked(raw, 2, fate=DatagramFate.LOST)
    assert raw.datagrams[3][1].hex() == "0700000140438200" + b"abc".hex()


@rule("Q-31")
def test_a_queue_delay_adds_to_the_one_that_came() -> None:
    raw = Raw()
    queue = queue_of(OBJECTS)
    first = queue._waiting[0]
    queue._waiting[0] = first._replace(fragment=first.fragment._replace(queue_delay=100))
    raw.stream(0, message("02" + url("m") + "07"))
    raw.engine.serve(0, queue, 0)
    raw.turn()
    assert raw.datagrams[0][1].hex() == "070000014064" + "8200" + b"abc".hex()
    raw.now = 0.5
    acked(raw, 0, fate=DatagramFate.LOST)
    assert raw.datagrams[2][1].hex() == "070000014258" + "8200" + b"abc".hex()


@rule("Q-32")
def test_a_repeat_is_cut_where_the_path_carries_less_than_before() -> None:
    raw = Raw(max_datagram=1_406)
    payload = bytes(range(256)) * 5
    raw.stream(0, message("02" + url("m") + "00"))
    raw.engine.serve(0, queue_of({Position(0, 0): (0x81, payload)}), 0)
    raw.turn()
    assert len(raw.datagrams) == 1
    raw.handle(LinkReady(600, datagram_outcomes=True))
    acked(raw, 0, fate=DatagramFate.REFUSED)
    pieces = [data for _, data in raw.datagrams[1:]]
    assert len(pieces) == 3
    assert all(len(data) <= 600 for data in pieces)
    reader = Raw(client=True)
    request(reader, datagram=True)
    events = [event for data in pieces for event in reader.datagram(data.hex())]
    fragments = [fragment for event in events for fragment in event.fragments]
    assert [fragment.previous for fragment in fragments] == [0, None, None]
    assert [fragment.last for fragment in fragments] == [False, False, True]
    assert b"".join(fragment.data for fragment in fragments) == payload
    assert acked(raw, 1, 2) == []
    assert acked(raw, 3) == [SentOut(0)]


@rule("Q-33")
def test_a_link_that_tells_nothing_has_each_datagram_twice() -> None:
    raw = Raw(config=QuicrConfig(repeat_after=0.2))
    raw.handle(LinkReady(1_150))
    raw.stream(0, message("02" + url("m") + "00"))
    raw.engine.serve(0, queue_of(OBJECTS), 0)
    raw.turn()
    assert raw.engine.wake_at == pytest.approx(0.2)
    raw.now = 0.2
    assert raw.turn() == []
    assert [data[-2:] for _, data in raw.datagrams] == [b"bc", b"de"] * 2
    assert raw.out == {}
    raw.now = 0.4
    assert raw.turn() == [SentOut(0)]
    assert raw.out == {0: bytes.fromhex(FIN_0_2)}
    assert raw.engine.wake_at is None


@rule("Q-17", "Q-18")
def test_a_post() -> None:
    raw = Raw(client=True)
    raw.engine.post(b"m", queue_of(OBJECTS), datagram=True, now=0)
    raw.turn()
    said = raw.out[0]
    assert said.hex() == message("06" + url("m") + "01")
    assert raw.stream(0, message("0700")) == [PostAccepted(0, False), SentOut(0)]
    assert raw.out[0][len(said) :].hex().endswith(FIN_0_2)
    assert raw.ends == {0}
    assert raw.stream(0, "", end=True) == [TransactionEnded(0, EndReason.COMPLETE)]


@rule("Q-17")
def test_an_answer_to_a_post() -> None:
    for capable, datagram, answer in (
        ("00", True, "0700"),
        ("01", False, "0700"),
        ("01", True, "070100"),
        ("03", True, "070100"),
    ):
        raw = Raw()
        raw.stream(0, message("06" + url("m") + capable))
        raw.engine.accept(0, datagram=datagram, now=0)
        raw.engine.accept(0, datagram=datagram, now=0)
        raw.turn()
        assert raw.out == {0: bytes.fromhex(message(answer))}


@rule("Q-8", "Q-30")
def test_a_stream_that_ends_without_fin() -> None:
    raw = Raw(client=True)
    request(raw)
    assert raw.stream(0, message("050000010001aa"), end=True) == [
        Fragments(0, [Fragment(0, 0, 0, b"\xaa", True)], 9),
        FinalPoint(0, Position(0, 1), sure=False),
    ]
    raw.engine.confirm(0, 0)
    assert raw.turn() == [TransactionEnded(0, EndReason.COMPLETE)]


BROKE_OFF = {
    # (0, 0) whole, (0, 1) begun; of datagrams (0, 2) whole, too, and one more of it behind FIN
    "stream": [message("050000010001aa"), message("050001000001bb")],
    "datagrams": ["00000001000000aa", "000001000000bb", "000002010000cc"],
}


@rule("Q-30")
@pytest.mark.parametrize("mode", BROKE_OFF)
def test_the_prototype_ends_what_broke_off_before_parts_that_it_has_passed_on(mode: str) -> None:
    """Its final point lies behind the last object that it has whole. What has come behind that is
    missing then, and told; the connection goes on."""
    raw = Raw(client=True)
    datagram = mode == "datagrams"
    request(raw, datagram=datagram)
    reception = Reception()
    comes = raw.datagram if datagram else lambda text: raw.stream(0, text)
    for text in BROKE_OFF[mode]:
        for event in comes(text):
            reception.handle(event.fragments, 0.0)
    final = Position(0, 3 if datagram else 2)
    assert raw.stream(0, message("030001"), end=not datagram) == [FinalPoint(0, final)]
    reception.finish(final, 0.0)
    if datagram:
        assert raw.datagram("000005000000dd") == []
    reception.tick(1.0)
    assert [each.position for each in reception.take()] == [(0, 0), *([(0, 2)] * datagram)]
    assert [gap.missing for gap in reception.gaps()] == [((0, 1), (0, 2))]
    assert reception.complete
    raw.engine.confirm(0, 0)
    raw.turn()
    if datagram:
        raw.stream(0, "", end=True)
    assert raw.events[-1] == TransactionEnded(0, EndReason.COMPLETE)
    assert raw.closed is None


@pytest.mark.parametrize("text", ["", message("050000000001aa")], ids=["empty", "cut"])
@rule("Q-6", "Q-30")
def test_a_stream_that_ends_where_no_media_does(text: str) -> None:
    raw = Raw(client=True)
    request(raw)
    assert raw.stream(0, text, end=True)[-1] == TransactionEnded(
        0, EndReason.CANCELLED, by_peer=True
    )
    assert raw.ends == {0}


@rule("Q-9", "K-2")
def test_datagrams_may_come_behind_the_final_point() -> None:
    raw = Raw(client=True)
    request(raw, datagram=True)
    assert raw.stream(0, FIN_0_2) == [FinalPoint(0, Position(0, 2))]
    late = raw.datagram("000001010000aa")
    assert late == [Fragments(0, [Fragment(0, 1, 0, b"\xaa", True)], 0)]
    raw.engine.confirm(0, 0)
    raw.turn()
    assert raw.ends == {0}
    assert raw.stream(0, "", end=True) == [TransactionEnded(0, EndReason.COMPLETE)]
    assert raw.datagram("000001010000aa") == []  # of a transfer that is over
    assert raw.closed is None


@rule("Q-15")
def test_a_start_point_may_come_last() -> None:
    raw = Raw(client=True)
    request(raw, datagram=True)
    raw.datagram("000007010000aa")
    raw.stream(0, message("030008"))
    assert raw.stream(0, message("080007")) == [StartPoint(0, Position(0, 7))]
    assert raw.stream(0, message("080007")) == []


@rule("K-4")
def test_group_sizes_of_the_prototype_that_are_none() -> None:
    raw = Raw(client=True)
    request(raw, datagram=True)
    [event] = raw.datagram("00000001008200"[:-2] + "ff" * 8 + "aa")
    assert event.fragments[0].previous is None


@rule("K-6", "Q-36")
def test_holes_come_as_objects_without_data() -> None:
    raw = Raw(client=True)
    request(raw)
    [event] = raw.stream(0, message("050000010001aa") + "00060500" + "0101ff00")
    assert [fragment.is_hole for fragment in event.fragments] == [False, True]
    assert raw.closed is None


@rule("K-9", "Q-25")
def test_notifications_may_come_twice() -> None:
    raw = Raw(client=True)
    raw.engine.subscribe(b"m", 0)
    raw.turn()
    assert raw.stream(0, message("0a" + url("mm")) * 2) == [Notified(0, b"mm")] * 2


@pytest.mark.parametrize("input", [StreamReset(0, 1), StreamStopped(0, 1)])
@rule("Q-6")
def test_a_peer_that_resets_a_stream_has_ended_the_transaction(
    input: StreamReset | StreamStopped,
) -> None:
    gone = TransactionEnded(0, EndReason.CANCELLED, by_peer=True)
    serving = Raw()
    serving.stream(0, message("01" + url("m")))
    serving.engine.serve(0, queue_of(OBJECTS, finished=False), 0)
    serving.turn()
    assert serving.handle(input) == [gone]
    reading = Raw(client=True)
    request(reading)
    reading.stream(0, "0003")
    assert reading.handle(input) == [gone]
    subscribed = Raw()
    subscribed.stream(0, message("09" + url("m")))
    assert subscribed.handle(input) == [gone]
    subscribing = Raw(client=True)
    subscribing.engine.subscribe(b"m", 0)
    subscribing.turn()
    assert subscribing.handle(input) == [gone]
    reset = isinstance(input, StreamReset)
    for raw in (serving, reading, subscribed, subscribing):
        assert (0 in raw.ends) is reset  # else QUIC ends it
        assert (raw.engine.footprint.size == 0) is reset
    opening = Raw()
    opening.stream(0, "0003")
    assert opening.handle(input) == []
    for raw in (serving, reading, subscribed, subscribing, opening):
        assert raw.closed is None
        assert raw.handle(StreamReset(400, 1)) == []


@rule("Q-4", "Q-3")
def test_credit_goes_back_for_every_byte_of_a_stream() -> None:
    raw = Raw(client=True)
    request(raw)
    parts = [
        message("080100"),
        message("050100010003aabbcc"),
        message("050101000002aabb"),
        message("050101050001aa"),
        message("030102"),
    ]
    text = "".join(parts)
    sizes = [event.size for event in raw.stream(0, text) if isinstance(event, Fragments)]
    assert raw.consumed + sum(sizes) == len(text) // 2
    raw.engine.consumed(0, sum(sizes), 0)
    raw.turn()
    assert raw.consumed == len(text) // 2
    assert raw.engine.footprint.size < 5_000


def test_a_transfer_that_is_over_leaves_nothing() -> None:
    raw = Raw()
    for stream in range(0, 400, 4):
        raw.stream(stream, message("02" + url("m") + f"{0x4000 + stream:04x}"))
        raw.engine.serve(stream, queue_of(media(3)), 0)
        raw.turn()
        raw.stream(stream, "", end=True)
    assert raw.engine.footprint.size == 0
    assert raw.engine.wake_at is None

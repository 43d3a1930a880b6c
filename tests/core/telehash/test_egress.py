"""What goes to the link, in which order, and how much."""

from __future__ import annotations

from aqueduct_core.engine.actions import SendDatagram
from aqueduct_core.engine.inputs import DatagramFate, DatagramOutcome
from aqueduct_core.telehash.egress import MAX_URGENT, PacketEgress


class Source:
    """A channel with so many packets of 100 bytes, and an ack."""

    def __init__(self, number: int, packets: int, size: int = 100) -> None:
        self.number = number
        self.packets = packets
        self.size = size
        self.acks = 1

    def next_size(self) -> int | None:
        return self.size if self.packets else None

    def next_packet(self, now: float, limit: int) -> bytes:
        self.packets -= 1
        self.acks = 0
        return bytes((self.number,)) * 100

    def ack_packet(self, now: float, limit: int) -> bytes | None:
        acks, self.acks = self.acks, 0
        return b"ack%d" % self.number if acks else None


def made(room: int | None = None, limit: int = 1_000) -> PacketEgress:
    egress = PacketEgress(limit, 1 << 20)
    egress.ready = True
    if room is not None:
        egress.on_room(room)
    return egress


def out(egress: PacketEgress) -> list[bytes]:
    actions = egress.actions(0.0)
    assert all(isinstance(action, SendDatagram) for action in actions)
    return [action.data for action in actions if isinstance(action, SendDatagram)]


def test_failures_go_first_then_acks_then_channels_in_turn() -> None:
    egress = made()
    one, two = Source(1, 3), Source(2, 2)
    egress.want(one)
    egress.want(two)
    egress.want_ack(Source(3, 0))
    egress.urgent(b"err")
    assert [data[:4] for data in out(egress)] == [
        b"err", b"ack3", b"\1" * 4, b"\2" * 4, b"\1" * 4, b"\2" * 4, b"\1" * 4,
    ]  # fmt: skip
    assert out(egress) == []


def test_an_ack_goes_with_content_where_there_is_some() -> None:
    egress = made()
    source = Source(1, 1)
    egress.want(source)
    egress.want_ack(source)
    assert out(egress) == [b"\1" * 100]
    assert source.acks == 0


def test_no_more_is_in_the_link_than_its_room() -> None:
    egress = made(room=350, limit=100)
    source = Source(1, 10)
    egress.want(source)
    tokens = [action.token for action in egress.actions(0.0) if isinstance(action, SendDatagram)]
    assert len(tokens) == 3
    assert out(egress) == []
    egress.on_outcome(DatagramOutcome(tokens[1], DatagramFate.LEFT))
    assert len(out(egress)) == 2
    egress.on_outcome(DatagramOutcome(tokens[2], DatagramFate.REFUSED))
    assert len(out(egress)) == 1


def test_a_single_packet_goes_however_small_the_room() -> None:
    egress = made(room=10)
    egress.want(Source(1, 3))
    assert len(out(egress)) == 1


def test_nothing_goes_before_the_link_is_ready() -> None:
    egress = PacketEgress(1_000, 1 << 20)
    egress.want(Source(1, 1))
    assert out(egress) == []
    egress.ready = True
    assert len(out(egress)) == 1


def test_a_packet_that_does_not_fit_any_more_is_told_of() -> None:
    egress = made()
    egress.on_limit(99)
    egress.want(Source(1, 1))
    egress.want(Source(2, 1, size=50))
    assert len(out(egress)) == 1
    assert egress.oversized == [1]


def test_a_limit_of_the_path_is_no_reason_for_more_than_was_configured() -> None:
    egress = made()
    egress.on_limit(60_000)
    assert egress.limit == 1_000


def test_answers_are_bounded_and_counted() -> None:
    egress = made(room=1)
    egress.want(Source(1, 1))
    out(egress)
    for _ in range(2 * MAX_URGENT):
        egress.urgent(b"xx")
    assert egress.urgent_bytes == 2 * MAX_URGENT
    egress.clear()
    assert egress.urgent_bytes == 0

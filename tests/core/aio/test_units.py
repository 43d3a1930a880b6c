"""The small parts below the asyncio API: ledger, kept messages, back-off, headers."""

from __future__ import annotations

import pickle

import pytest

from aqueduct_core.aio import outcomes
from aqueduct_core.aio.deliveries import Deliveries
from aqueduct_core.aio.headers import as_headers
from aqueduct_core.aio.message import rest_of, run_of
from aqueduct_core.aio.resend_buffer import ResendBuffer
from aqueduct_core.engine.close_codes import CloseOrigin
from aqueduct_core.errors import ChannelEnded, SinkFailed
from aqueduct_core.primitives.backoff import Backoff


class TestLedger:
    def test_both_spaces_count_apart(self) -> None:
        ledger = Deliveries()
        assert [ledger.sent(True, 0), ledger.sent(False, 0), ledger.sent(True, 1)] == [0, 0, 1]
        mark = ledger.mark()
        ledger.sent(True, 2, 3)
        assert ledger.settle(True, 0, 2, True) == (0, 2)
        assert not ledger.reached(mark)
        ledger.settle(False, 0, 1, False)
        assert ledger.reached(mark)
        counts = ledger.statistics()
        assert (counts.sent, counts.acked, counts.nacked, counts.pending) == (6, 2, 1, 3)
        assert (counts.reliable_sent, counts.reliable_acked) == (5, 2)

    def test_acks_in_any_order_reach_a_mark_only_without_holes(self) -> None:
        ledger = Deliveries()
        ledger.sent(True, 0, 10)
        mark = ledger.mark()
        for first, stop in ((5, 10), (0, 2), (3, 5)):
            ledger.settle(True, first, stop, True)
            assert not ledger.reached(mark)
        ledger.settle(True, 2, 3, True)
        assert ledger.reached(mark)
        assert ledger.open == 0

    def test_a_rewind_takes_acks_back_and_numbers_go_on(self) -> None:
        ledger = Deliveries()
        ledger.sent(True, None, 5)
        ledger.settle(True, 0, 5, True)
        ledger.reliable.rewind(2)
        assert ledger.statistics().acked == 3
        assert ledger.sent(True, 0) == 3
        assert ledger.sent(True, 1) == 4
        assert ledger.settle(True, 0, 2, True) == (3, 5)
        assert ledger.statistics().acked == 5

    def test_the_rest_is_nacked_at_a_close(self) -> None:
        ledger = Deliveries()
        ledger.sent(True, 0, 4)
        ledger.settle(True, 1, 2, True)
        assert ledger.nack_rest() == 3
        assert ledger.statistics().nacked == 3

    def test_a_rerouted_datagram_changes_its_space(self) -> None:
        ledger = Deliveries()
        ledger.sent(False, 0)
        ledger.sent(False, 1)
        ledger.rerouted(1, 0)
        assert ledger.sent(False, 1) == 1
        assert (ledger.unreliable.next, ledger.reliable.next) == (2, 1)


class TestUnacked:
    def test_acks_free_the_front_and_a_rewind_brings_the_rest_back(self) -> None:
        unacked = ResendBuffer()
        for i in range(6):
            unacked.add(b"%d" % i, ())
        assert [kept.number for kept in unacked.take(1 << 20)] == [0, 1, 2, 3, 4, 5]
        assert unacked.ack(2, 4) == 0
        assert unacked.low == 0
        assert unacked.ack(0, 2) == 4 * 65
        assert (unacked.low, len(unacked)) == (4, 2)
        assert unacked.rewind() == 2
        unacked.add(b"6", ())
        assert [kept.number for kept in unacked.take(1 << 20)] == [4, 5, 6]
        assert list(unacked.acked) == [(0, 4)]

    def test_portions_are_of_one_kind_and_bounded(self) -> None:
        unacked = ResendBuffer()
        header = ((b"k", b"v"),)
        for headers in ((), (), header, header, ()):
            unacked.add(b"x" * 100, headers)
        sizes = []
        while portion := unacked.take(1 << 20):
            sizes.append(len(portion))
        assert sizes == [2, 2, 1]
        unacked.rewind()
        assert len(unacked.take(1)) == 1


class TestBackoff:
    def test_waits_double_up_to_the_limit_and_start_anew(self) -> None:
        backoff = Backoff(0.1, 1.0, chance=lambda: 1.0)
        assert [round(backoff.next(), 3) for _ in range(6)] == [0.1, 0.2, 0.4, 0.8, 1.0, 1.0]
        backoff.reset()
        assert backoff.next() == pytest.approx(0.1)

    def test_jitter_takes_away_half_at_most(self) -> None:
        assert Backoff(1.0, 8.0, chance=lambda: 0.0).next() == 0.5


class TestHeaders:
    def test_forms(self) -> None:
        assert as_headers({"a": "1", "b": b"\xff"}) == ((b"a", b"1"), (b"b", b"\xff"))
        assert as_headers([("a", "1"), (b"a", "2")]) == ((b"a", b"1"), (b"a", b"2"))
        assert as_headers(()) == ()

    @pytest.mark.parametrize("key", ["", "ä", b"\xff"])
    def test_keys_are_ascii_and_not_empty(self, key: str | bytes) -> None:
        with pytest.raises(ValueError, match="ASCII"):
            as_headers([(key, "v")])

    def test_values_are_text_or_bytes(self) -> None:
        with pytest.raises(TypeError, match="int"):
            as_headers({"a": 1})  # type: ignore[dict-item]


def test_the_rest_of_a_run_keeps_numbers_payloads_and_headers() -> None:
    run = run_of([b"a", b"", b"ccc"], 7, True, 60, {0: ((b"k", b"0"),), 2: ((b"k", b"2"),)})
    rest = rest_of(run, 1, 40)
    got = [(m.number, m.payload, m.headers) for m in rest.messages()]
    assert got == [(8, b"", ()), (9, b"ccc", ((b"k", b"2"),))]
    assert rest.size == 40


@pytest.mark.parametrize(
    "outcome",
    [
        outcomes.Finished("channel 8"),
        outcomes.Cancelled("channel 8 'cpu'"),
        outcomes.ReceiverClosed("channel 8", 3),
        outcomes.LostInTransit("channel 8"),
        outcomes.ConnectionLost("channel 8", 256, "token", by_peer=True),
        outcomes.ConnectionLost("channel 8", 3, "x", by_peer=True, origin=CloseOrigin.TRANSPORT),
        outcomes.ConnectionLost("channel 8", origin=CloseOrigin.STATELESS_RESET),
    ],
)
def test_outcomes_survive_a_pickle_and_name_the_channel(outcome: outcomes.Outcome) -> None:
    again = pickle.loads(pickle.dumps(outcome))
    assert type(again) is type(outcome)
    assert str(again) == str(outcome)
    assert again.channel in str(again)
    if not isinstance(outcome, outcomes.Finished):
        assert isinstance(outcome, ChannelEnded | SinkFailed)
        assert str(outcome).startswith("[AQUEDUCT_")

"""500 seeds and each that failed once; ``make simulate`` runs 20,000."""

from __future__ import annotations

import pytest

from aqueduct_core.telehash.channel import Channel
from aqueduct_core.telehash.receiving import ReceivingHalf
from aqueduct_core.telehash.wire.channel_packets import ChannelPacket
from tests.support.rules import rule
from tests.telehash_simulation.campaign import kept_seeds, run_line_seeds
from tests.telehash_simulation.scenario import scenario
from tests.telehash_simulation.world import run_line_seed

SEEDS, AT_ONCE = 500, 25


@rule("P-5", "P-7", "T-4", "T-5", "T-6", "T-9", "T-10", "T-13", "T-15", "T-17", "T-18", "T-19")
@pytest.mark.parametrize("first", range(0, SEEDS, AT_ONCE))
def test_what_comes_is_what_was_sent_in_order_and_once(first: int) -> None:
    """Whatever the path loses, doubles and reorders, however slow who takes it is, with lines that
    end at any time, and with peers that are not ours."""
    totals = run_line_seeds(first, AT_ONCE)
    assert not totals.failures
    assert totals.packets > 10 * AT_ONCE
    assert totals.closed > AT_ONCE


@pytest.mark.parametrize("seed", kept_seeds())
def test_a_seed_that_failed_once_holds(seed: int) -> None:
    assert run_line_seed(seed).packets >= 0


def test_the_same_seed_is_the_same_run() -> None:
    assert scenario(3) == scenario(3)
    assert run_line_seed(3) == run_line_seed(3)


def test_a_packet_that_is_given_twice_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    give = ReceivingHalf._give

    def twice(half: ReceivingHalf, packet: ChannelPacket) -> None:
        give(half, packet)
        if packet.seq == 3:
            give(half, packet)

    monkeypatch.setattr(ReceivingHalf, "_give", twice)
    assert len(run_line_seeds(0, 30).failures) > 5


def test_a_packet_that_goes_again_too_soon_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("aqueduct_core.telehash.sending.RESEND_INTERVAL", 0.1)
    failures = run_line_seeds(0, 50).failures
    assert any("T13" in reason for _, reason in failures)


def test_an_ack_above_what_was_processed_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Channel, "_ack_stop", lambda channel: channel.receiving.next_seq)
    failures = run_line_seeds(0, 50).failures
    assert any("above what was processed" in reason for _, reason in failures)

"""What is asked of every attack. Nothing here depends on how fast or how busy the machine is:
memory and CPU are those of the intake's process, and time has a bound that only a stop exceeds."""

from __future__ import annotations

from pathlib import Path

from tests.hostile.attacks import ATTACKS, Stage
from tests.hostile.measuring import Cost, in_a_site, quantile

MB = 1_000_000

KEPT = {Stage.STRANGER: 3.0, Stage.CONNECTED: 3.0, Stage.ADMITTED: 10.0, Stage.FLIGHT: 3.0}
"""Bytes kept for a byte sent."""
NOISE = 10 * MB
"""Beside that: what the allocator has taken for the good producer and its rows meanwhile, and for
queues that were full for a moment, and has not given back. Measured with no attack: up to 4 MB.
Attacks send 3 MB where they can, so one for each byte of which twenty are kept is found."""
HALF_OPEN = 16 * MB
"""And what the connections take that are not admitted: 128 of a network, at 90 KB."""
OBJECTS = 512 * MB
"""And, where a few bytes open an object of one to three KB (a stream, a channel, the stream of ours
that answers for it), what peers may make an intake hold in all."""
HELD = {
    # Each half-open connection may have 32 streams, at 1.8 KB.
    "streams_left_open": 16 * MB,
    # Connections, at 70 KB each.
    "a_thousand_connections": 200 * MB,
    # Of 3,000 connections 512 may stay, at 50 to 80 KB each; the others do until somebody looks,
    # and an allocator keeps some of what they had.
    **dict.fromkeys(("flight_connections_left", "flight_handshakes_left"), 192 * MB),
    **dict.fromkeys(
        (
            "attachments_backwards", "attachments_in_breadth", "attachments_in_depth",
            "channels_made_and_finished", "channels_of_the_server", "unknown_channels",
            "streams_left_open_after_admission",
        ),
        OBJECTS,
    ),
}  # fmt: skip
"""What an attack may hold whatever it sends, since not bytes but numbers bound it."""

DATAGRAM = 20.0
"""CPU of a datagram of an attack, or of as many bytes as a full one has where it has more, in full
datagrams of a good producer. The dearest that are measured take 6: they hold two hundred frames,
which honest ones do not."""
HANDSHAKE = 120.0
"""The same where each few datagrams bring about a handshake, which costs a signature and some
thousand calls; measured: 40. How many there are at a time is bounded by a share of the time."""
SEQUENCES = 400.0
"""The same where each holds a hundred streams with a frame of Aqueduct: two or three honest
datagrams' worth for a channel that is made, answered and ended; measured: 135."""
CPU = {
    **dict.fromkeys(
        (
            "first_streams_without_version", "many_headers", "handshakes", "silent_handshakes",
            "skipped_streams", "streams_left_open", "acks_of_no_message", "lengths_without_end",
            "valid_initials", "replayed_first_flights", "replayed_tokens", "handshakes_left",
            "crypto_with_holes", "coalesced_initials", "handshakes_byte_by_byte",
            "flight_connections_left", "flight_handshakes_left",
        ),
        HANDSHAKE,
    ),
    **dict.fromkeys(
        (
            "attachments_backwards", "attachments_in_breadth", "attachments_in_depth",
            "channels_made_and_finished", "channels_of_the_server", "declarations",
            "datagram_floods", "empty_sequences", "holes_in_numbers", "unknown_channels",
            "streams_left_open_after_admission", "tiny_messages_unordered",
        ),
        SEQUENCES,
    ),
}  # fmt: skip

MEDIAN = 5.0
"""Seconds in which half of the good producer's messages have their acks. It takes 0.02 on a quiet
machine and 0.2 on one that runs three times what it can; an attack that stops the producer takes as
long as it lasts. What p99 is beside an attack, ``make bench`` measures on a quiet machine."""


def of_stage(stage: Stage) -> list[str]:
    """The attacks of that stage, without the one that has a test of its own."""
    return [
        name
        for name, (its, _) in ATTACKS.items()
        if its is stage and name != "a_thousand_connections"
    ]


def broken_by(name: str, directory: Path) -> list[str]:
    """Which bounds the attack breaks, against an intake at default limits."""
    return broken(in_a_site(name, directory, most=3 * MB, seconds=3.0))


def broken(cost: Cost) -> list[str]:
    """Which bounds it breaks, each with its numbers."""
    print(cost)
    median = quantile(cost.beside, 0.5)
    allowed = KEPT[cost.stage] * cost.sent + NOISE + HALF_OPEN + HELD.get(cost.name, 0)
    ratio = min(cost.packet_ratio, cost.byte_ratio)
    dearest = CPU.get(cost.name, DATAGRAM)
    holds = {
        "nothing was sent": cost.datagrams > 0,
        f"{cost.good_acked} acked of {cost.good_sent}": cost.good_acked == cost.good_sent,
        f"{cost.good_nacked} nacked": cost.good_nacked == 0,
        f"half of the acks took {median} s and more, not {MEDIAN}": median < MEDIAN,
        f"{cost.kept} bytes kept, not {allowed}": cost.kept <= allowed,
        f"a datagram cost {ratio} good ones, not {dearest}": ratio <= dearest,
    }
    return [bound for bound, it_holds in holds.items() if not it_holds]

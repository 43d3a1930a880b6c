"""The resend buffer against a model that remembers everything."""

from __future__ import annotations

import random

from aqueduct_core.aio.resend_buffer import ResendBuffer


def test_kept_messages_and_holes_against_a_model() -> None:
    for seed in range(200):
        chance = random.Random(seed)
        unacked = ResendBuffer(chance.randrange(3) * 10)
        sent: list[int] = []
        acked: set[int] = set()
        number = unacked.start
        given: list[int] = []
        kept = 0
        for _ in range(60):
            action = chance.random()
            if action < 0.4:
                kept += unacked.add(bytes(chance.randrange(50)), ()).size
                sent.append(number)
                number += 1
            elif action < 0.5:
                number += chance.randrange(5)
                unacked.skip(number)
            elif action < 0.7:
                taken = [each.number for each in unacked.take(chance.choice([1, 200, 10_000]))]
                assert taken == list(range(taken[0], taken[0] + len(taken))) if taken else True
                given += taken
            elif action < 0.9 and given:
                first = chance.choice(given)
                stop = first + 1
                while stop in given and chance.random() < 0.7:
                    stop += 1
                kept -= unacked.ack(first, stop)
                acked.update(range(first, stop))
            elif action > 0.97:
                unacked.rewind()
                given.clear()
            assert unacked.sent == len(sent)
            open_numbers = [n for n in sent if n not in acked]
            assert unacked.low == (min(open_numbers) if open_numbers else number)
            assert kept == sum(each.size for each in (*unacked._given, *unacked._waiting))
            waiting = [each.number for each in unacked._waiting]
            assert unacked.upcoming == (waiting[0] if waiting else number)
            assert waiting == sorted(waiting)


def test_what_was_acked_out_of_order_keeps_its_number_when_it_goes_out_again() -> None:
    """Two lost connections: 0 is acked on the second one before 1, acked on the first, is sent."""
    unacked = ResendBuffer()
    for number in range(3):
        unacked.add(b"%d" % number * 100, ())
    unacked.take(10_000)
    unacked.ack(1, 2)
    unacked.rewind()
    assert [each.number for each in unacked.take(1)] == [0]
    unacked.ack(0, 1)
    assert unacked.low == 2
    unacked.rewind()
    assert unacked.upcoming == 1
    assert [each.number for each in unacked.take(10_000)] == [1, 2]
    assert unacked.ack(1, 3) == 2 * (100 + 64)
    assert len(unacked) == 0

"""What the channels of a connection take is what those take that are there."""

from __future__ import annotations

import gc
import tracemalloc

from hypothesis import given
from hypothesis import strategies as st

from aqueduct_core.intake.aqueduct.open_channels import OpenChannels, SessionChannel
from aqueduct_core.intake.aqueduct.rows import AqueductSource
from aqueduct_core.intake.storage.batches import ChannelTally, RepeatCount


def channel(number: int, header: int = 0) -> SessionChannel:
    headers = ((b"key", bytes(header)),) if header else ()
    name = f"0/{number}"
    source = AqueductSource(name, "p", "cafe", number, 0, channel_headers=headers)
    return SessionChannel(source, False, name, ChannelTally(repeats=RepeatCount()))


STEPS = st.lists(st.tuples(st.booleans(), st.integers(0, 9), st.integers(0, 500)), max_size=60)


@given(STEPS)
def test_memory_is_the_sum_of_those_that_are_there(steps: list[tuple[bool, int, int]]) -> None:
    channels = OpenChannels()
    sizes: dict[int, int] = {}
    for begins, number, header in steps:
        if begins and number not in channels:
            alone = OpenChannels()
            channels[number] = alone[number] = channel(number, header)
            sizes[number] = alone.memory
        elif not begins:
            assert (channels.end(number) is None) is (number not in sizes)
            sizes.pop(number, None)
        assert channels.memory == sum(sizes.values())
    channels.clear()
    assert (channels.memory, len(channels)) == (0, 0)


def test_it_is_what_they_take_about() -> None:
    channels = OpenChannels()
    gc.collect()
    tracemalloc.start()
    for number in range(500):
        channels[number] = channel(number, 300)
    measured = tracemalloc.get_traced_memory()[0]
    tracemalloc.stop()
    assert measured / 2 <= channels.memory <= measured * 2

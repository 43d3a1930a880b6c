"""Many channels on one connection: what a channel and a message cost, and what they hold.

``python -m tests.bench.channels``: 10,000 channels open at once, and 100,000 opened and closed in
turn, both engines in this process with nothing between them. Cost and memory are to stay the same
from the first part to the last.
"""

from __future__ import annotations

import gc
import sys
import time
import tracemalloc
from collections.abc import Callable
from functools import partial

from aqueduct_core.aqueduct.engine import Attach
from aqueduct_core.engine.message_batch import MessageBatch
from tests.simulation.rest import tables
from tests.support.shuttle import Shuttle

OPEN = 10_000
IN_TURN = 100_000
PARTS = 5
MESSAGES = 10_000
REPEATS = 3
FLAT = 2.0
"""The last part may cost this many times the first: caches grow cold, and machines are shared."""


def state(pair: Shuttle) -> int:
    return sum(sum(tables(engine).values()) for engine in (pair.client, pair.server))


def seconds(act: Callable[[], None]) -> float:
    gc.collect()
    began = time.perf_counter()
    act()
    return time.perf_counter() - began


def open_channels(pair: Shuttle, count: int) -> list[int]:
    opened = []
    for i in range(count):
        opened += pair.client.send(0, b"", now=pair.now, attach=[Attach(True)]).attached
        if i % 100 == 99:
            pair.wait(0.05)
    return opened


def use(pair: Shuttle, channels: list[int], messages: int) -> None:
    """Messages on all channels in turn, 100 in a burst."""
    for i in range(messages):
        pair.client.send(channels[i % len(channels)], b"m" * 100, now=pair.now)
        if i % 100 == 99:
            read(pair)
            pair.now += 0.001
    pair.wait(0.1)


def read(pair: Shuttle) -> None:
    _, events = pair.turn()
    for item in events:
        if isinstance(item, MessageBatch):
            pair.server.consumed(item.channel, item.size, pair.now)


def in_turn(pair: Shuttle, count: int) -> None:
    for i in range(count):
        (channel,) = pair.client.send(0, b"", now=pair.now, attach=[Attach(True)]).attached
        pair.client.send(channel, b"m" * 100, now=pair.now)
        pair.client.finish(channel, pair.now)
        read(pair)
        if i % 100 == 99:
            pair.wait(0.05)
    pair.wait(1.2)


def many_open() -> bool:
    """Rows of the first table; whether a message costs the same however many are open."""
    print(f"{'channels open':>15} {'us to open':>11} {'us a message':>13} {'KiB a channel':>14}")
    pair = Shuttle()
    channels: list[int] = []
    costs = []
    opened = OPEN // PARTS
    for _ in range(PARTS):
        tracemalloc.start()
        open_began = time.perf_counter()
        channels += open_channels(pair, opened)
        took = time.perf_counter() - open_began
        held = tracemalloc.get_traced_memory()[0]
        tracemalloc.stop()
        used = channels[:: len(channels) // opened]  # as many as are open in the first part
        costs.append(min(seconds(partial(use, pair, used, MESSAGES)) for _ in range(REPEATS)))
        each = costs[-1] / MESSAGES
        print(f"{len(channels):>15,} {took / opened * 1e6:>11.0f} {each * 1e6:>13.1f}"
              f" {held / opened / 1024:>14.1f}")  # fmt: skip
    return costs[-1] < FLAT * costs[0]


def many_in_turn() -> bool:
    """Rows of the second table; whether a channel costs and leaves the same, first and last."""
    print(f"{'channels so far':>15} {'us a channel':>13} {'entries held':>13} {'objects held':>13}")
    pair = Shuttle()
    in_turn(pair, 1000)
    costs, states, objects = [], [], []
    part = IN_TURN // PARTS
    for number in range(1, PARTS + 1):
        costs.append(seconds(lambda: in_turn(pair, part)))
        states.append(state(pair))
        gc.collect()
        objects.append(len(gc.get_objects()))
        print(f"{number * part:>15,} {costs[-1] / part * 1e6:>13.0f} {states[-1]:>13}"
              f" {objects[-1]:>13,}")  # fmt: skip
    return costs[-1] < FLAT * costs[0] and states[-1] == states[0] and objects[-1] < objects[0] + 50


def main() -> int:
    return 0 if many_open() & many_in_turn() else 1


if __name__ == "__main__":
    sys.exit(main())

"""Many channels on one connection: what a channel and a message cost, and what they hold.

``python -m tests.bench.channels``: 10,000 channels open at once, and 100,000 opened and closed in
turn, both engines in this process with nothing between them. Cost and memory are to stay the same
from the first part to the last.
"""

from __future__ import annotations

import gc
import time
import tracemalloc
from collections.abc import Callable
from functools import partial

from aqueduct_core.aqueduct.engine import Attach
from aqueduct_core.engine.message_batch import MessageBatch
from tests.bench.measuring import Bench, Effort
from tests.bench.sheet import Sheet
from tests.simulation.rest import tables
from tests.support.shuttle import Shuttle

OPEN = 10_000
IN_TURN = 100_000
PARTS = 5
MESSAGES = 10_000
REPEATS = 3


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


def many_open(sheet: Sheet) -> None:
    """What a message costs the more channels are open, and what they hold."""
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
        title = f"{len(channels):,} open"
        sheet.add(f"{title}: to open one", "µs", [took / opened * 1e6])
        sheet.add(f"{title}: a message", "µs", [costs[-1] / MESSAGES * 1e6])
        sheet.add(f"{title}: each holds", "KiB", [held / opened / 1024])
    sheet.add("a message, the last over the first", "x", [costs[-1] / costs[0]], "channels-open")


def many_in_turn(sheet: Sheet) -> None:
    """What a channel costs, and leaves, the more there have been."""
    pair = Shuttle()
    in_turn(pair, 1000)
    costs, states, objects = [], [], []
    part = IN_TURN // PARTS
    for number in range(1, PARTS + 1):
        costs.append(seconds(lambda: in_turn(pair, part)))
        states.append(state(pair))
        gc.collect()
        objects.append(len(gc.get_objects()))
        sheet.add(f"{number * part:,} in turn: a channel", "µs", [costs[-1] / part * 1e6])
    sheet.add("a channel, the last over the first", "x", [costs[-1] / costs[0]], "channels-turn")
    sheet.add("entries left over", "", [states[-1] - states[0]], "left-over")
    sheet.add("objects left over", "", [objects[-1] - objects[0]], "objects-left-over")


def compare(effort: Effort, sheet: Sheet) -> None:
    """Once: what is compared are the parts of one life."""
    sheet.calibrate()
    many_open(sheet)
    many_in_turn(sheet)


BENCH = Bench("channels", "10,000 channels open, 100,000 in turn: flat cost and memory", compare)

if __name__ == "__main__":
    BENCH.run()

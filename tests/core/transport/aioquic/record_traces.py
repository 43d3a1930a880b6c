"""Stream and CRYPTO frames as receivers of real connections got them, kept as small files.

``python -m tests.core.transport.aioquic.record_traces`` makes ``traces/*.txt`` anew: our client and
server talk over a network that loses, delays and reorders (``Wire``), and each frame that reaches a
receiving half is a line: the half (``s`` of a stream, ``c`` of a CRYPTO stream, and its number
in the order in which they appear), the offset, the length, and ``fin`` or ``reset`` where it is.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple
from unittest.mock import patch

from aioquic.quic.packet import QuicStreamFrame

from aqueduct_core.transport.aioquic.streams import CryptoReceiver, StreamReceiver
from tests.core.transport.wire import Wire

TRACES = Path(__file__).parent / "traces"
CODE = 7
"""Of every reset."""


class Frame(NamedTuple):
    half: str
    offset: int
    size: int
    kind: str = ""
    """``fin``, ``reset`` (the offset is the final size then) or nothing."""

    def __str__(self) -> str:
        return f"{self.half} {self.offset} {self.size} {self.kind}".rstrip()


def read(path: Path) -> list[Frame]:
    frames = []
    for line in path.read_text("ascii").splitlines():
        half, offset, size, *kind = line.split()
        frames.append(Frame(half, int(offset), int(size), *kind))
    return frames


@contextmanager
def recording() -> Iterator[list[Frame]]:
    """The frames that receiving halves are given meanwhile."""
    frames: list[Frame] = []
    names: dict[Any, str] = {}
    counts = {"s": 0, "c": 0}

    def name(half: StreamReceiver | CryptoReceiver) -> str:
        if half not in names:
            letter = "s" if isinstance(half, StreamReceiver) else "c"
            names[half] = f"{letter}{counts[letter]}"
            counts[letter] += 1
        return names[half]

    def framed(original: Callable[..., Any]) -> Callable[..., Any]:
        def handle_frame(self: Any, frame: QuicStreamFrame) -> Any:
            kind = "fin" if frame.fin else ""
            frames.append(Frame(name(self), frame.offset, len(frame.data), kind))
            return original(self, frame)

        return handle_frame

    advance, reset = StreamReceiver.advance, StreamReceiver.handle_reset

    def advanced(self: StreamReceiver, start: int, stop: int) -> bool:
        taken = advance(self, start, stop)
        if taken:
            frames.append(Frame(name(self), start, stop - start))
        return taken

    def reset_came(self: StreamReceiver, *, final_size: int, error_code: int = 0) -> Any:
        frames.append(Frame(name(self), final_size, 0, "reset"))
        return reset(self, final_size=final_size, error_code=error_code)

    with (
        patch.object(StreamReceiver, "handle_frame", framed(StreamReceiver.handle_frame)),
        patch.object(CryptoReceiver, "handle_frame", framed(CryptoReceiver.handle_frame)),
        patch.object(StreamReceiver, "advance", advanced),
        patch.object(StreamReceiver, "handle_reset", reset_came),
    ):
        yield frames


def talk(wire: Wire, seed: int, resets: bool) -> None:
    """A client sends on some streams in pieces of many sizes, and ends them."""
    wire.connect()
    rng = random.Random(seed)
    probe, server = wire.client.probe, wire.server.probe
    streams = [probe.open() for _ in range(5)]
    for _ in range(140):
        probe.write(rng.choice(streams), rng.randbytes(rng.choice([1, 7, 60, 700, 3_000, 9_000])))
        if rng.random() < 0.4:
            wire.rest(rng.choice([0.002, 0.02]))
    abandoned = streams[:2] if resets else []
    for stream in streams:
        if stream in abandoned:
            probe.reset(stream, CODE)
        else:
            probe.write(stream, b"end", end=True)
    wire.run(lambda: len(server.ended) + len(server.resets) == len(streams))
    wire.rest(0.5)


CONVERSATIONS: dict[str, tuple[dict[str, float], bool]] = {
    "loss": ({"loss": 0.15}, False),
    "reordering": ({"jitter": 0.03}, False),
    "both": ({"loss": 0.1, "jitter": 0.02}, False),
    "resets": ({"loss": 0.1, "jitter": 0.02}, True),
}


def record(name: str) -> list[Frame]:
    chances, resets = CONVERSATIONS[name]
    seed = sorted(CONVERSATIONS).index(name) + 1
    with recording() as frames:
        talk(Wire(seed=seed, **chances), seed, resets)  # type: ignore[arg-type]
    return frames


def main() -> None:
    TRACES.mkdir(exist_ok=True)
    for name in CONVERSATIONS:
        frames = record(name)
        path = TRACES / f"{name}.txt"
        path.write_text("".join(f"{frame}\n" for frame in frames), "ascii")
        print(f"{path.name}: {len(frames)} frames, {path.stat().st_size} bytes")


if __name__ == "__main__":
    main()

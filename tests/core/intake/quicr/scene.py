"""A peer, a link in memory, and a session that stores, on a virtual clock."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from aqueduct_core.flight.credentials import Credentials
from aqueduct_core.intake.quicr.media import MediaIntake
from aqueduct_core.intake.quicr.requests import MediaRequests
from aqueduct_core.intake.quicr.roles import PublisherSession, ReaderSession, engine_config
from aqueduct_core.intake.quicr.rows import ROWS
from aqueduct_core.intake.quicr.session import MediaSession
from aqueduct_core.intake.quicr.settings import QuicrConnect, QuicrIntake
from aqueduct_core.intake.sessions.context import SessionContext
from aqueduct_core.quicr.engine import QuicrEngine
from aqueduct_core.quicr.media.position import Position
from aqueduct_core.transport.in_memory.link import MemoryLink
from tests.core.intake.bench import Bench, bench
from tests.core.intake.doubles import Report, Turns
from tests.core.quicr.ends import Application, Objects, queue_of

NOW = 1_800_000_000_000_000


def settings(
    urls: tuple[str, ...] = (),
    prefix: str | None = None,
    *,
    largest: int = 16 << 20,
    bounded: bool = False,
    **media: Any,
) -> QuicrIntake:
    """With URLs or a prefix of one that dials."""
    dials = urls or prefix is not None
    return QuicrIntake(
        spool="/spool",
        credentials=Credentials("", b""),
        listen=None if dials else "127.0.0.1:0",
        connect=QuicrConnect(("origin:1",), urls=urls, subscribe_prefix=prefix, bounded=bounded)
        if dials
        else None,
        media=MediaIntake(**media),
        max_message_bytes=largest,
    )


class MediaScene:
    """``peer`` is the other end; ``requests`` what is asked of it, where we have dialled."""

    def __init__(
        self,
        b: Bench,
        given: QuicrIntake,
        *,
        requests: MediaRequests | None = None,
        **link: Any,
    ) -> None:
        self.bench = b
        self.requests = requests
        dials = given.connect is not None
        if given.connect is not None and requests is None:
            self.requests = MediaRequests(given.connect, given.media, {})
        ours = QuicrEngine(client=dials, config=engine_config(given))
        self.peer = Application(QuicrEngine(client=not dials))
        self.ended: list[MediaSession] = []
        self.report = Report()
        self._timers: list[tuple[float, Callable[[], None]]] = []
        link = {"stream_progress": True, "datagram_outcomes": True, "max_streams_bidi": 100} | link
        engines = (ours, self.peer.engine) if dials else (self.peer.engine, ours)
        hear = (self._hear, self.peer.hear) if dials else (self.peer.hear, self._hear)
        self.link = MemoryLink(*engines, on_client_events=hear[0], on_server_events=hear[1], **link)
        ends = self.link.ends
        own, self.peer.end = ends if dials else ends[::-1]
        self.peer.link = self.link
        self._turns = Turns(own.kick)
        self.context = SessionContext(
            groups=b.groups,
            clock=lambda: self.link.now,
            wall_microseconds=lambda: NOW + int(self.link.now * 1_000_000),
            ended=self.ended.append,
            owners=b.owners,
            refusals=b.refusals,
        )
        self.session: MediaSession
        if self.requests is not None:
            self.session = ReaderSession(
                "peer", ours, self.context, given, self.requests, self.report, later=self._later
            )
        else:
            self.session = PublisherSession("peer", ours, self.context, given, later=self._later)
        self.link.kick()

    def run(self, seconds: float = 1.0) -> None:
        """Let time pass, with groups that become durable."""
        for _ in range(round(seconds / 0.05)):
            self.link.run_for(0.05)
            due = [call for at, call in self._timers if at <= self.link.now]
            self._timers = [each for each in self._timers if each[0] > self.link.now]
            for call in due:
                call()
            self.bench.settle()
            self.link.kick()

    def kinds(self) -> list[str]:
        """Of the events that are durable."""
        return [event["kind"] for event in self.bench.events()]

    def events(self, kind: str) -> list[dict[str, Any]]:
        return [event for event in self.bench.events() if event["kind"] == kind]

    def objects(self, url: str = "u") -> Objects:
        return {
            Position(row["group_id"], row["object_id"]): (row["flags"], row["value"] or b"")
            for row in self.bench.rows()
            if row["url"] == url
        }

    def _hear(self, events: list[Any]) -> None:
        self.session.on_events(self._turns, events)  # type: ignore[arg-type]

    def _later(self, seconds: float, call: Callable[[], None]) -> None:
        self._timers.append((self.link.now + seconds, call))


@contextmanager
def media_bench(directory: Path, **given: Any) -> Iterator[Bench]:
    with bench(directory, rows=ROWS, **given) as b:
        yield b


def post(scene: MediaScene, objects: Objects, url: bytes = b"u", *, finished: bool = True) -> int:
    """Have the peer post a media; the number of the transaction."""
    now = scene.link.now
    queue = queue_of(objects, finished=finished, now=now)
    stream = scene.peer.engine.post(url, queue, datagram=True, now=now)
    scene.peer.end.kick()
    scene.link.kick()
    return stream

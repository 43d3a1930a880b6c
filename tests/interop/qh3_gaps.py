"""Why qh3 is no transport of this project: what its core lacks, shown on two ends of its own.

    pip install qh3 && python -m tests.interop.qh3_gaps

Nothing of this project is used but the certificate, and no socket: datagrams go from one connection
to the other in this process, by a clock of their own. Each line is one thing that a transport here
has to do, and what came of it. Ids and keys are drawn by chance, so runs differ. Exit code 0:
nothing is missing any more, so it is worth another try.
"""

from __future__ import annotations

import hashlib
import heapq
import importlib.metadata
import random
import ssl
import sys
from collections.abc import Callable
from functools import partial
from typing import Any

from qh3._hazmat import QuicConnectionCore
from qh3.quic.configuration import QuicConfiguration
from qh3.quic.connection import QuicConnection
from qh3.quic.events import StreamDataReceived

from aqueduct_core.transport.tls.credentials import ServerTls

CLIENT, SERVER = ("127.0.0.1", 1111), ("127.0.0.1", 2222)
DELAY = 0.005
WINDOW = 1 << 20
STREAMS, PIECES, PIECE = 8, 40, 3_000
LOSS = 0.08
SEEDS = range(1, 9)
PATIENCE = 120.0
"""Seconds of the virtual clock."""


class Pair:
    """A client and a server, a path that loses, and what came on each stream of either end."""

    def __init__(self, seed: int, loss: float = 0.0, *, echo: bool = False) -> None:
        self.now = 100.0
        self.loss, self.echo = 0.0, echo
        self._random = random.Random(seed)
        self._count = 0
        self.digests: dict[tuple[bool, int], Any] = {}
        self.bytes: dict[tuple[bool, int], int] = {}
        self.ended: set[tuple[bool, int]] = set()
        tls = ServerTls.self_signed()
        assert tls.cert_pem is not None
        common: dict[str, Any] = {"alpn_protocols": ["x"], "max_stream_data": WINDOW}
        theirs = QuicConfiguration(is_client=False, **common)
        theirs.load_cert_chain(tls.cert_pem, tls.key_pem)
        ours = QuicConfiguration(is_client=True, server_name="localhost", **common)
        ours.verify_mode = ssl.CERT_NONE
        self.client = QuicConnection(configuration=ours)
        self.client.connect(SERVER, self.now)
        self.server = QuicConnection(
            configuration=theirs,
            original_destination_connection_id=self.client.original_destination_connection_id,
        )
        self._inbox: dict[bool, list[tuple[float, int, bytes]]] = {True: [], False: []}
        if not self.run(lambda: self.client._handshake_confirmed):
            raise RuntimeError(f"no handshake: {self.client._close_event}")
        self.loss = loss

    def run(self, condition: Callable[[], bool]) -> bool:
        """Move time until it holds; False: it does not come about."""
        stop = self.now + PATIENCE
        self._turns()
        while not condition():
            due = [inbox[0][0] for inbox in self._inbox.values() if inbox]
            timers = [end.get_timer() for end in (self.client, self.server)]
            due += [timer for timer in timers if timer is not None]
            if not due or self.now > stop:
                return False
            self.now = max(self.now + 1e-6, min(due))
            self._turns()
        return True

    def _turns(self) -> None:
        for is_client, end in ((True, self.client), (False, self.server)):
            inbox = self._inbox[is_client]
            while inbox and inbox[0][0] <= self.now:
                end.receive_datagram(
                    heapq.heappop(inbox)[2], SERVER if is_client else CLIENT, self.now
                )
            timer = end.get_timer()
            if timer is not None and timer <= self.now:
                end.handle_timer(self.now)
            while (event := end.next_event()) is not None:
                if isinstance(event, StreamDataReceived):
                    self._take(is_client, end, event)
            for data, _ in end.datagrams_to_send(self.now):
                if self._random.random() >= self.loss:
                    self._count += 1
                    at = self.now + DELAY
                    heapq.heappush(self._inbox[not is_client], (at, self._count, bytes(data)))

    def _take(self, is_client: bool, end: QuicConnection, event: StreamDataReceived) -> None:
        key = is_client, event.stream_id
        self.digests.setdefault(key, hashlib.sha256()).update(event.data)
        self.bytes[key] = self.bytes.get(key, 0) + len(event.data)
        if event.end_stream:
            self.ended.add(key)
        if self.echo and not is_client:
            end.send_stream_data(event.stream_id + 1, event.data, event.end_stream)


def echoes_under_loss(seed: int) -> str | None:
    """Bytes on unidirectional streams, sent back on others, on a path that loses one in twelve."""
    pair = Pair(seed, LOSS, echo=True)
    rng = random.Random(seed)
    sent: dict[int, Any] = {}
    for piece in range(PIECES):
        for stream_id in (2 + 4 * index for index in range(STREAMS)):
            data = rng.randbytes(PIECE)
            sent.setdefault(stream_id, hashlib.sha256()).update(data)
            pair.client.send_stream_data(stream_id, data, piece == PIECES - 1)
    keys = {(True, stream_id + 1) for stream_id in sent}
    if not pair.run(lambda: keys <= pair.ended):
        ending = pair.client._close_event or pair.server._close_event
        return f"{len(keys - pair.ended)} of {len(keys)} streams did not end ({ending})"
    wrong = [i for i in sent if pair.digests[True, i + 1].digest() != sent[i].digest()]
    return f"{len(wrong)} of {len(sent)} streams have other bytes" if wrong else None


def credit_follows_the_application() -> str | None:
    """A stream of which the application consumes nothing comes to rest at its window."""
    consume = [name for name in dir(QuicConnection) if "consum" in name or "credit" in name]
    pair = Pair(1)
    pair.client.send_stream_data(2, bytes(8 * WINDOW), True)
    pair.run(lambda: (False, 2) in pair.ended)
    got = pair.bytes.get((False, 2), 0)
    if got > WINDOW and not consume:
        return f"{got / WINDOW:g} windows came, and no call says what was consumed"
    return None


def tokens_are_given() -> str | None:
    """A server sends NEW_TOKEN, and a client hands it over for the next connection."""
    core = [name for name in dir(QuicConnectionCore) if "token" in name]
    missing = []
    if not any("new_token" in name for name in core):
        missing.append("the core sends none")
    if not hasattr(QuicConfiguration(), "token"):
        missing.append("a connection cannot begin with one")
    return " and ".join(missing) or None


def stream_limits_are_ours() -> str | None:
    """More streams than 103 may be open at once where both ends allow it."""
    pair = Pair(1)
    for index in range(400):
        pair.client.send_stream_data(2 + 4 * index, b"x")
    if pair.run(lambda: len(pair.bytes) == 400):
        return None
    return f"{len(pair.bytes)} of 400 open streams came, and no setting changes that"


def main() -> int:
    print(f"qh3 {importlib.metadata.version('qh3')}")
    missing = 0
    checks: dict[str, Callable[[], str | None]] = {
        f"content under loss with echo, run {seed}": partial(echoes_under_loss, seed)
        for seed in SEEDS
    }
    checks["credit follows the application"] = credit_follows_the_application
    checks["address tokens"] = tokens_are_given
    checks["limits of streams"] = stream_limits_are_ours
    for name, check in checks.items():
        try:
            fault = check()
        except Exception as error:
            fault = f"{type(error).__name__}: {error}"
        missing += fault is not None
        print(f"{name}: {fault or 'works'}", flush=True)
    return 1 if missing else 0


if __name__ == "__main__":
    sys.exit(main())

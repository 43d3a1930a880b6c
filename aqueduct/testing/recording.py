"""An endpoint for tests of jobs: takes what is sent to it, sends what is asked of it, and tells."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from aqueduct_core.aio.connection import ServerConnection
from aqueduct_core.aio.halves import Receiver, Sender
from aqueduct_core.aio.outcomes import Misuse, Outcome
from aqueduct_core.aio.serve import Server, bearer, serve
from aqueduct_core.engine.message_batch import Headers
from aqueduct_core.transport.tls.credentials import ClientTls, ServerTls

START_SECONDS = 60.0


@dataclass(frozen=True, slots=True)
class RecordedMessage:
    """One message as it came.

    Attributes:
        channel: the name of its channel; "0" for the entrypoint, the number of one without a name.
        number: counted from 0 for each channel of each connection, in its space: ``reliable`` or
            not.
    """

    channel: str
    payload: bytes = field(repr=False)
    headers: Headers = field(repr=False)
    number: int
    reliable: bool

    def header(self, key: str) -> bytes | None:
        """The first header of that key; None where there is none."""
        return next((value for name, value in self.headers if name == key.encode()), None)


class RecordingServer:
    """A server on this machine's loopback, in a thread of its own, so that a test needs no event
    loop: a job writes to it, and the test looks at what came.

    A job has its ``options``, a program ``url`` and ``client_tls``; ``payloads`` are what came.
    It acks what it receives. Ends with the ``with`` block. All of it may be called by any thread.

    Args:
        directory: where the certificate to trust is written, ``ca_file``.
        token: the bearer token that it demands; None: none.
    """

    def __init__(self, directory: Path, *, token: str | None = None) -> None:
        self._tls = ServerTls.self_signed()
        assert self._tls.cert_pem is not None
        self.client_tls = ClientTls(ca_pem=self._tls.cert_pem)
        """For clients that are programs."""
        self.ca_file = Path(directory) / "recording-server-ca.pem"
        self.ca_file.write_bytes(self._tls.cert_pem)
        self._token = token
        self._offered: dict[str, list[bytes]] = {}
        self._received: list[RecordedMessage] = []
        self._changed = threading.Condition()
        self._connections: set[ServerConnection] = set()
        self._ready = threading.Event()
        self._thread = threading.Thread(target=self._run, name="recording server", daemon=True)
        self._failure: BaseException | None = None
        self._loop: asyncio.AbstractEventLoop
        self._stop: asyncio.Event
        self._server: Server

    @property
    def url(self) -> str:
        """Where it listens."""
        return self._server.url

    @property
    def options(self) -> dict[str, str]:
        """Options of the sink, and of a source that dials, which lead here. A token is not among
        them: give the job its ``auth.tokenFile``."""
        return {"endpoint": self.url, "tls.caFile": str(self.ca_file)}

    @property
    def received(self) -> list[RecordedMessage]:
        """All messages so far, in the order in which they came; those that only brought a channel
        are among them, with an empty payload."""
        with self._changed:
            return list(self._received)

    def payloads(self, channel: str) -> list[bytes]:
        """What came on the channels of that name so far."""
        return [each.payload for each in self.received if each.channel == channel]

    def wait_for(self, count: int, channel: str, *, timeout: float = 60.0) -> list[bytes]:
        """Wait until so many messages came on the channels of that name; their payloads.

        Raises: TimeoutError after ``timeout`` seconds.
        """
        with self._changed:
            if not self._changed.wait_for(
                lambda: sum(each.channel == channel for each in self._received) >= count, timeout
            ):
                found = sum(each.channel == channel for each in self._received)
                raise TimeoutError(
                    f"{found} of {count} messages came on channel {channel!r} in {timeout:g} s"
                )
        return self.payloads(channel)

    def offer(self, name: str, payloads: Iterable[bytes]) -> None:
        """Send these to each peer that asks for a channel of that name (as a source with
        ``subscribe`` does), and finish it. For other names it is finished at once."""
        with self._changed:
            self._offered[name] = list(payloads)

    def cut(self) -> None:
        """Close every connection at once, as a server that is killed; new ones are taken."""

        def close() -> None:
            for connection in list(self._connections):
                connection.abort("cut by the test")

        self._loop.call_soon_threadsafe(close)

    def __enter__(self) -> Self:
        self._thread.start()
        self._ready.wait(START_SECONDS)
        if self._failure is not None:
            raise self._failure
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._loop.call_soon_threadsafe(self._stop.set)
        self._thread.join(START_SECONDS)
        if self._failure is not None:
            raise self._failure

    def __repr__(self) -> str:
        return f"<RecordingServer, {len(self.received)} messages received>"

    def _run(self) -> None:
        try:
            asyncio.run(self._serve())
        except BaseException as failure:
            self._failure = failure
            self._ready.set()

    async def _serve(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._stop = asyncio.Event()
        authorize = bearer(self._token) if self._token else None
        async with serve("127.0.0.1", 0, tls=self._tls, authorize=authorize) as self._server:
            self._ready.set()
            async with asyncio.TaskGroup() as group:
                accepting = group.create_task(self._accept(group))
                await self._stop.wait()
                accepting.cancel()
                for connection in list(self._connections):
                    connection.abort("the test is over")

    async def _accept(self, group: asyncio.TaskGroup) -> None:
        async for connection in self._server:
            self._connections.add(connection)
            connection.when_closed(
                lambda gone=connection: self._connections.discard(gone)  # type: ignore[misc]
            )
            group.create_task(self._read(connection.entrypoint, group))

    async def _read(self, receiver: Receiver, group: asyncio.TaskGroup) -> None:
        name = receiver.name or str(receiver.channel_id)
        with contextlib.suppress(Outcome, Misuse):
            async for message in receiver:
                received = RecordedMessage(
                    name,
                    bytes(message.payload),
                    tuple(message.headers),
                    message.number,
                    message.reliable,
                )
                for half in message.attachments:
                    if isinstance(half, Receiver):
                        group.create_task(self._read(half, group))
                    elif isinstance(half, Sender):
                        group.create_task(self._send(half))
                with self._changed:
                    self._received.append(received)
                    self._changed.notify_all()

    async def _send(self, sender: Sender) -> None:
        with self._changed:
            payloads: list[Any] = list(self._offered.get(sender.name or "", ()))
        with contextlib.suppress(Outcome, Misuse):
            await sender.send_many(payloads)
            await sender.finish()

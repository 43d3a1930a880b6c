"""An Aqueduct server for tests: it serves named channels by a script, to whoever asks for them.

Three ways to run one, all with the same scripts:

    async with serving({"a": Script(messages=3)}) as remote: ...      # in this event loop
    with RemoteThread({"a": Script(messages=3)}) as remote: ...       # for tests without a loop
    with RemoteProcess(tmp_path, {"a": Script()}) as remote: ...      # remote.kill(), .restart()

``remote.endpoint`` is its ``host:port``, ``remote.ca_file`` the PEM file to trust (in a thread or
process), ``remote.requests`` what was asked for. A request is an entrypoint message with an
attached channel on which the remote sends; the channel's header ``name`` (or nothing) says which
script is meant. Message *i* of channel *name* is ``b"name i"``, padded to ``size`` bytes. A
request for the same name takes the next script of its list, the last one for ever.
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any, Literal

from aqueduct_core.aio.connection import ServerConnection
from aqueduct_core.aio.halves import Sender, channel
from aqueduct_core.aio.outcomes import Misuse, Outcome
from aqueduct_core.aio.serve import Server, bearer, serve
from aqueduct_core.aqueduct.conventions.headers import connection_headers
from aqueduct_core.engine.message_batch import Headers
from aqueduct_core.transport.sessions import SessionTable
from aqueduct_core.transport.settings import ListenLimits
from aqueduct_core.transport.tls.credentials import ClientTls, ServerTls
from tests.support.waiting import LONG

End = Literal["finish", "cancel", "stay", "vanish", "drop", "overcount", "undercount", "hurry"]
"""What follows the messages: FINISH_SENDER; CANCEL_SENDER; nothing; the connection is aborted;
the request is thrown away unread; a finish that names one message more, or less, than were sent;
a finish, and the connection is aborted once it arrived, without waiting for an ack."""

START_SECONDS = LONG


@dataclass(frozen=True)
class Script:
    """What the remote does with one request.

    ``children`` sub-channels hang on the first messages, one each, named ``<name>/<i>``, with
    ``child_messages`` and ``child_end``. ``sequence_start`` is declared on each child.
    """

    messages: int = 10
    end: End = "finish"
    mode: str = "ordered"
    size: int = 0
    children: int = 0
    child_messages: int = 3
    child_end: End = "finish"
    sequence_start: int | None = None


Scripts = Mapping[str, Script | Sequence[Script]]


@dataclass(frozen=True)
class Request:
    """What was asked: ``name`` of the attached channel ("" if it has none), and the message."""

    name: str
    payload: bytes
    headers: Headers
    channel_headers: Headers


def payloads(name: str, script: Script) -> list[bytes]:
    """What the remote sends on the channel of that name."""
    return [(b"%s %d" % (name.encode(), i)).ljust(script.size) for i in range(script.messages)]


@dataclass
class Remote:
    """The server at work. ``producer`` and ``sequence_start`` go to its connection headers."""

    scripts: Scripts
    server: Server
    requests: list[Request] = field(default_factory=list)
    connections: int = 0
    early: list[bool] = field(default_factory=list)
    acked: dict[str, int] = field(default_factory=dict)
    """Messages of each channel that were acked, over all requests for it that have ended."""
    _open: set[ServerConnection] = field(default_factory=set)
    _tasks: set[asyncio.Task[None]] = field(default_factory=set)
    _asked: dict[str, int] = field(default_factory=dict)

    @property
    def endpoint(self) -> str:
        return self.server.url.removeprefix("aqueduct://")

    @property
    def url(self) -> str:
        return self.server.url

    def vanish(self) -> None:
        """Abort every connection; new ones are taken."""
        for connection in self._open:
            connection.abort("vanished")

    def start(self, work: Any) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def accept(self) -> None:
        async for connection in self.server:
            self.connections += 1
            self.early.append(connection._driver.link.early_accepted is True)
            self._open.add(connection)
            connection.when_closed(lambda gone=connection: self._open.discard(gone))  # type: ignore[misc]
            self.start(self._serve(connection))

    async def end(self) -> None:
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)

    async def _serve(self, connection: ServerConnection) -> None:
        with contextlib.suppress(Outcome, Misuse):
            async for message in connection.entrypoint:
                with message:
                    headers = [sender.headers for sender in _peek(message)]
                    names = [dict(each).get(b"name", b"").decode() for each in headers]
                    scripts = [self._script(name) for name in names]
                    for name, each in zip(names, headers, strict=True):
                        self.requests.append(Request(name, message.payload, message.headers, each))
                    if any(script is None or script.end == "drop" for script in scripts):
                        continue
                    for sender, name, script in zip(
                        message.attachments, names, scripts, strict=True
                    ):
                        assert isinstance(sender, Sender)
                        assert script is not None
                        self.start(self._play(connection, sender, name, script))

    def _script(self, name: str) -> Script | None:
        given = self.scripts.get(name)
        if given is None or isinstance(given, Script):
            return given
        turn = self._asked[name] = self._asked.get(name, 0) + 1
        return given[min(turn, len(given)) - 1]

    async def _play(
        self, connection: ServerConnection, sender: Sender, name: str, script: Script
    ) -> None:
        with contextlib.suppress(Outcome, Misuse):
            sender.use(script.mode)
            for i, payload in enumerate(payloads(name, script)):
                if i < script.children:
                    child = await self._attach(connection, sender, payload, f"{name}/{i}", script)
                    self.start(child)
                else:
                    await sender.send(payload)
            try:
                await self._end(connection, sender, script.end)
            finally:
                self.acked[name] = self.acked.get(name, 0) + sender.statistics.acked

    async def _attach(
        self,
        connection: ServerConnection,
        parent: Sender,
        payload: bytes,
        name: str,
        script: Script,
    ) -> Any:
        start = script.sequence_start
        extra = () if start is None else ((b"sequence-start", b"%d" % start),)
        sender, receiver = channel(name=name, headers=extra)
        await parent.send(payload, attach=receiver)
        below = Script(script.child_messages, script.child_end)
        return self._play(connection, sender, name, below)

    async def _end(self, connection: ServerConnection, sender: Sender, end: End) -> None:
        if end in ("overcount", "undercount"):
            half = connection._network.engine._channels.halves[sender.channel_id or 0]
            half.reliable_sent += 1 if end == "overcount" else -1  # type: ignore[union-attr]
        if end in ("finish", "overcount", "undercount"):
            await sender.finish()
            return
        if end == "hurry":
            sender._present().finish()
            await connection._driver.writable(1)
            connection.abort("hurried")
            return
        await sender.flush()
        if end == "cancel":
            await sender.cancel()
        elif end == "vanish":
            connection.abort("vanished")
        else:
            await connection.wait_closed()


def _peek(message: Any) -> list[Any]:
    """The halves of a message, without taking them."""
    return list(message._carried)


@contextlib.asynccontextmanager
async def serving(
    scripts: Scripts,
    *,
    tls: ServerTls | None = None,
    address: str = "127.0.0.1",
    port: int = 0,
    token: str | None = None,
    producer: str | None = None,
    sequence_start: int | None = None,
    limits: ListenLimits | None = None,
) -> AsyncIterator[Remote]:
    """A remote in this event loop; ``tls`` None: a fresh self-signed certificate."""
    async with serve(
        address,
        port,
        tls=tls or ServerTls.self_signed(),
        headers=connection_headers(producer=producer, sequence_start=sequence_start),
        authorize=bearer(token) if token else None,
        limits=limits,
    ) as server:
        remote = Remote(scripts, server)
        remote.start(remote.accept())
        try:
            yield remote
        finally:
            await remote.end()
            remote.vanish()


class RemoteThread:
    """A remote in a thread with an event loop of its own. Ends with the ``with`` block."""

    def __init__(self, scripts: Scripts, directory: Path, **options: Any) -> None:
        self._scripts = scripts
        self._options = options
        self._tls = ServerTls.self_signed()
        assert self._tls.cert_pem is not None
        self.client_tls = ClientTls(ca_pem=self._tls.cert_pem)
        self.ca_file = directory / "remote-ca.pem"
        self.ca_file.write_bytes(self._tls.cert_pem)
        self._ready = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True, name="remote")
        self._loop: asyncio.AbstractEventLoop
        self._stop: asyncio.Event
        self._remote: Remote

    @property
    def endpoint(self) -> str:
        return self._remote.endpoint

    @property
    def url(self) -> str:
        return self._remote.url

    @property
    def requests(self) -> list[Request]:
        return list(self._remote.requests)

    @property
    def connections(self) -> int:
        return self._remote.connections

    @property
    def acked(self) -> dict[str, int]:
        return dict(self._remote.acked)

    @property
    def early(self) -> list[bool]:
        """Of each connection, whether early data was taken."""
        return list(self._remote.early)

    def vanish(self, *, forgetting: bool = False) -> None:
        """Abort every connection; new ones are taken. ``forgetting`` all sessions, as a process
        that was started again has."""
        if forgetting:
            self._remote.server.listener._sessions = SessionTable(16)
        self._loop.call_soon_threadsafe(self._remote.vanish)

    def __enter__(self) -> RemoteThread:
        self._thread.start()
        assert self._ready.wait(START_SECONDS)
        return self

    def __exit__(self, *_: object) -> None:
        self._loop.call_soon_threadsafe(self._stop.set)
        self._thread.join(START_SECONDS)
        assert not self._thread.is_alive()

    def _run(self) -> None:
        asyncio.run(self._main())

    async def _main(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._stop = asyncio.Event()
        async with serving(self._scripts, tls=self._tls, **self._options) as self._remote:
            self._ready.set()
            await self._stop.wait()


def from_json(value: Mapping[str, Any]) -> dict[str, list[Script]]:
    """Scripts as ``to_json`` wrote them."""
    return {name: [Script(**each) for each in scripts] for name, scripts in value.items()}


def to_json(scripts: Scripts) -> dict[str, list[dict[str, Any]]]:
    names = [entry.name for entry in fields(Script)]
    return {
        name: [
            {key: getattr(script, key) for key in names}
            for script in ([given] if isinstance(given, Script) else given)
        ]
        for name, given in scripts.items()
    }

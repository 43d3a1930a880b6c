"""Two peer processes with a bad network between them."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

from tests.support.proxy import Impairment, Proxy
from tests.support.waiting import LONG, environment

LIMIT = LONG
"""Seconds after which a scene is a failure."""


@dataclass(frozen=True)
class Channel:
    """One channel as both ends saw it; sets of numbers of one space."""

    received: list[tuple[int, int, bool]]
    acked: dict[bool, set[int]]
    nacked: dict[bool, set[int]]
    sent: int
    nacked_by_receiver: int
    late: int
    """Datagram messages that came after their nack, and were thrown away."""
    end: str

    def numbers(self, reliable: bool) -> list[int]:
        return [number for _, number, kind in self.received if kind is reliable]


@dataclass(frozen=True)
class Outcome:
    channels: dict[str, Channel]
    connections: int
    lost: bool


class Peer:
    """A process that talks JSON lines."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self.process = process

    async def heard(self) -> dict[str, Any]:
        assert self.process.stdout is not None
        line = await self.process.stdout.readline()
        assert line, "the peer ended without a word"
        words: dict[str, Any] = json.loads(line)
        return words

    def tell(self, **words: Any) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps(words).encode() + b"\n")

    async def end(self) -> None:
        assert self.process.stdin is not None
        self.process.stdin.close()
        assert await self.process.wait() == 0


@asynccontextmanager
async def peer(*arguments: str) -> AsyncIterator[Peer]:
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "tests.interop.peer",
        *arguments,
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        env=environment(),
    )
    try:
        yield Peer(process)
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()


class Scene:
    """A listening peer behind a proxy. ``run`` makes the sending one and waits for both."""

    def __init__(self, proxy: Proxy, port: int, listener: Peer, certificate: str) -> None:
        self.proxy = proxy
        self._port = port
        self._listener = listener
        self._certificate = certificate

    @asynccontextmanager
    async def sending(self, modes: Iterable[str], **options: Any) -> AsyncIterator[Peer]:
        """A sending peer whose channels are open: what the proxy does from here on meets
        messages, not the handshake."""
        given = [f"--{key.replace('_', '-')}={value}" for key, value in options.items()]
        async with peer("send", f"--port={self._port}", *given, "--modes", *modes) as sender:
            sender.tell(certificate=self._certificate)
            assert (await sender.heard())["ready"]
            yield sender

    async def outcome(self, sender: Peer) -> Outcome:
        """Wait for both ends to say what they saw."""
        sent = await sender.heard()
        seen = await self._listener.heard()
        got = {channel["name"]: channel for channel in seen["channels"]}
        channels = {
            each["name"]: Channel(
                received=[tuple(entry) for entry in got[each["name"]]["got"]],
                acked=_numbers(each["acked"]),
                nacked=_numbers(each["nacked"]),
                sent=each["totals"][0],
                nacked_by_receiver=got[each["name"]]["nacked"],
                late=got[each["name"]]["late"],
                end=got[each["name"]]["end"],
            )
            for each in sent["channels"]
        }
        await sender.end()
        await self._listener.end()
        return Outcome(channels, seen["connections"], sent["lost"])


@asynccontextmanager
async def scene(seed: int, channels: int, idle_timeout: float = 20.0) -> AsyncIterator[Scene]:
    """The network is good until ``proxy.impairment`` is set."""
    async with asyncio.timeout(LIMIT):
        async with peer(
            "listen", f"--channels={channels}", f"--idle-timeout={idle_timeout}"
        ) as listener:
            where = await listener.heard()
            proxy = Proxy(("127.0.0.1", where["port"]), Impairment(), seed)
            _, port = await proxy.open()
            try:
                yield Scene(proxy, port, listener, where["certificate"])
            finally:
                proxy.close()


def _numbers(ranges: list[tuple[bool, int, int]]) -> dict[bool, set[int]]:
    """Number space → numbers; a number that is told twice is a failure."""
    found: dict[bool, set[int]] = {True: set(), False: set()}
    for reliable, first, stop in ranges:
        numbers = set(range(first, stop))
        assert not numbers & found[reliable], "a message has two outcomes"
        found[reliable] |= numbers
    return found

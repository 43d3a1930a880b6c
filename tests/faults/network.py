"""A bad network in front of an intake, for producers in threads; and networks to move between."""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import os
import socket
import subprocess
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

from tests.support.proxy import Impairment, Proxy, udp_socket
from tests.support.waiting import LONG

CLONE_NEWNET = 0x40000000


class Network:
    """A `Proxy` with an event loop in a thread of its own; ended as a context manager."""

    def __init__(self, server: tuple[str, int], seed: int = 1) -> None:
        self._server = server
        self._seed = seed
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self.proxy: Proxy
        self.url = ""

    def __enter__(self) -> Network:
        self._thread.start()
        asyncio.run_coroutine_threadsafe(self._open(), self._loop).result(LONG)
        return self

    def __exit__(self, *exception: object) -> None:
        asyncio.run_coroutine_threadsafe(self._close(), self._loop).result(LONG)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(LONG)
        self._loop.close()

    def rebind(self, make: Callable[[], socket.socket] | None = None) -> None:
        asyncio.run_coroutine_threadsafe(self.proxy.rebind(make), self._loop).result(LONG)

    async def _open(self) -> None:
        self.proxy = Proxy(self._server, Impairment(delay=0.001), self._seed)
        _, port = await self.proxy.open()
        self.url = f"aqueduct://127.0.0.1:{port}"

    async def _close(self) -> None:
        self.proxy.close()
        tasks = asyncio.all_tasks() - {asyncio.current_task()}
        if tasks:
            await asyncio.wait(tasks)


class Namespace:
    """A network of its own that one virtual cable connects to ours."""

    def __init__(self, name: str, net: int) -> None:
        self.name = name
        self.here = f"10.213.{net}.1"
        self.there = f"10.213.{net}.2"

    def socket(self, port: int) -> socket.socket:
        """A socket that lives there, connected to ``port`` of ours. A thread goes there to make
        it, because a namespace is entered by a thread for good."""
        made: list[socket.socket | OSError] = []

        def make() -> None:
            try:
                with Path(f"/run/netns/{self.name}").open() as file:
                    libc = ctypes.CDLL(None, use_errno=True)
                    if libc.setns(file.fileno(), CLONE_NEWNET):
                        raise OSError(ctypes.get_errno(), "setns")
                made.append(udp_socket((self.here, port)))
            except OSError as error:
                made.append(error)

        thread = threading.Thread(target=make)
        thread.start()
        thread.join()
        if isinstance(made[0], OSError):
            raise made[0]
        return made[0]


@contextlib.contextmanager
def namespaces(count: int) -> Iterator[list[Namespace] | None]:
    """That many networks; None where this process may not make any."""
    with contextlib.ExitStack() as stack:
        spaces: list[Namespace] | None = None
        try:
            spaces = [stack.enter_context(_namespace(net)) for net in range(count)]
        except (OSError, subprocess.CalledProcessError) as refused:
            print(f"no network namespaces here: {refused}")
        yield spaces


@contextlib.contextmanager
def _namespace(net: int) -> Iterator[Namespace]:
    identity = f"aq{os.getpid() % 100_000}{net}"
    space = Namespace(identity, (os.getpid() + net) % 250 + 1)
    ours, theirs = f"{identity}h", f"{identity}n"
    _ip("netns", "add", identity)
    try:
        _ip("link", "add", ours, "type", "veth", "peer", "name", theirs, "netns", identity)
        _ip("addr", "add", f"{space.here}/24", "dev", ours)
        _ip("link", "set", ours, "up")
        _ip("-n", identity, "addr", "add", f"{space.there}/24", "dev", theirs)
        _ip("-n", identity, "link", "set", theirs, "up")
        yield space
    finally:
        subprocess.run(["ip", "link", "del", ours], check=False, capture_output=True)
        _ip("netns", "del", identity)


def _ip(*words: str) -> None:
    subprocess.run(["ip", *words], check=True, capture_output=True)

"""An S3 gateway of its own, above a directory, and a network that is far away from it."""

from __future__ import annotations

import asyncio
import socket
import subprocess
import threading
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from aqueduct_core.spool.objects.obstore_store import ObstoreStore, open_store
from tests.support.ports import free_port
from tests.support.repository import ROOT
from tests.support.waiting import LONG, wait_until

BUCKET = "spools"
KEY, SECRET = "tester", "only-for-tests"


@dataclass(frozen=True, slots=True)
class Gateway:
    """Where it listens."""

    port: int

    def store(self, prefix: str) -> ObstoreStore:
        """Keys below a prefix of the bucket."""
        return open_store(
            f"s3://{BUCKET}/{prefix}",
            endpoint=self.endpoint,
            access_key_id=KEY,
            secret_access_key=SECRET,
            region="us-east-1",
            virtual_hosted_style_request=False,
            client_options={"allow_http": True},
        )

    @property
    def endpoint(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def environment(self) -> dict[str, str]:
        """By which another process finds it: the ordinary chain."""
        return {
            "AWS_ENDPOINT_URL": self.endpoint,
            "AWS_ACCESS_KEY_ID": KEY,
            "AWS_SECRET_ACCESS_KEY": SECRET,
            "AWS_REGION": "us-east-1",
            "AWS_ALLOW_HTTP": "true",
        }


def built() -> Path:
    """The program, built where it is not there yet."""
    found = subprocess.run(
        [str(ROOT / ".ci" / "gateway")], stdout=subprocess.PIPE, text=True, check=True
    )
    return Path(found.stdout.strip())


@contextmanager
def gateway_above(directory: Path) -> Iterator[Gateway]:
    """A gateway, until the block ends."""
    (directory / BUCKET).mkdir()
    port = free_port(socket.SOCK_STREAM)
    process = subprocess.Popen(
        [str(built()), "--port", f"127.0.0.1:{port}", "--quiet", "posix", str(directory)],
        env={"ROOT_ACCESS_KEY": KEY, "ROOT_SECRET_KEY": SECRET},
        stdout=subprocess.DEVNULL,
    )
    try:
        wait_until(lambda: listens(port), LONG, "the start of the gateway")
        yield Gateway(port)
    finally:
        process.kill()
        process.wait(LONG)


def listens(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


@contextmanager
def farther(gateway: Gateway, seconds: float) -> Iterator[Gateway]:
    """The same gateway, with so much more time from a request to its answer."""
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, name="delaying-proxy", daemon=True)
    thread.start()
    proxy = _DelayingProxy(gateway.port, seconds / 2)
    asyncio.run_coroutine_threadsafe(proxy.start(), loop).result(LONG)
    try:
        yield Gateway(proxy.port)
    finally:
        asyncio.run_coroutine_threadsafe(proxy.stop(), loop).result(LONG)
        loop.call_soon_threadsafe(loop.stop)
        thread.join(LONG)
        loop.close()


class _DelayingProxy:
    """Carries the bytes of TCP connections, each way so many seconds later."""

    def __init__(self, to: int, delay: float) -> None:
        self.port = 0
        self._to = to
        self._delay = delay
        self._server: asyncio.Server | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self._writers: list[asyncio.StreamWriter] = []

    async def start(self) -> None:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0, limit=1 << 20)
        self.port = self._server.sockets[0].getsockname()[1]

    async def stop(self) -> None:
        assert self._server is not None
        self._server.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        for writer in self._writers:
            writer.transport.abort()
        await asyncio.gather(
            *(writer.wait_closed() for writer in self._writers), return_exceptions=True
        )

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        there, back = await asyncio.open_connection("127.0.0.1", self._to, limit=1 << 20)
        self._writers += (writer, back)
        for each in ((reader, back), (there, writer)):
            task = asyncio.create_task(self._carry(*each))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def _carry(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        loop = asyncio.get_running_loop()
        waiting: deque[bytes] = deque()

        def pass_on() -> None:
            data = waiting.popleft()
            if not data:
                writer.close()
            elif not writer.is_closing():
                writer.write(data)

        try:
            while True:
                data = await reader.read(1 << 20)
                waiting.append(data)
                loop.call_later(self._delay, pass_on)
                if not data:
                    return
        except ConnectionError:
            writer.close()

"""A receiving process that makes Arrow columns of what comes, and stores nothing.

    python -m tests.bench.arrow_receiver COUNT CHANNELS

For a sender of `loads`. It says in a line of JSON where it listens, and in a second one what the
messages took: CPU seconds from the first to the last, and seconds.
"""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import time

import numpy as np
import pyarrow as pa

from aqueduct import Receiver, serve
from aqueduct_core.engine.message_batch import MessageBatch
from aqueduct_core.transport import ServerTls
from tests.bench.loads import Load, send_from_elsewhere
from tests.bench.receivers import Received
from tests.support.waiting import environment

GROUP = 1 << 20
"""Payload bytes of a record batch, as a group of an intake has."""
SCHEMA = pa.schema([("value", pa.binary()), ("messageNum", pa.int64())])


class Columns:
    """Gathers batches into record batches of a group's size."""

    def __init__(self) -> None:
        self.rows = self.bytes = 0
        self._arrays: list[tuple[pa.Array, pa.Array]] = []
        self._gathered = 0

    def take(self, batch: MessageBatch) -> None:
        offsets = pa.py_buffer(batch.offsets.astype(np.int32))
        payload = pa.py_buffer(batch.payload)
        values = pa.Array.from_buffers(pa.binary(), batch.count, [None, offsets, payload])
        numbers = pa.array(np.arange(batch.first, batch.first + batch.count))
        self._arrays.append((values, numbers))
        self.rows += batch.count
        self.bytes += len(batch.payload)
        self._gathered += len(batch.payload)
        if self._gathered >= GROUP:
            self.group()

    def group(self) -> None:
        """The record batch of what was gathered."""
        if self._arrays:
            columns = [pa.concat_arrays(list(each)) for each in zip(*self._arrays, strict=True)]
            pa.RecordBatch.from_arrays(columns, schema=SCHEMA)
        self._arrays, self._gathered = [], 0


async def receive(count: int, channels: int) -> None:
    """Until all messages are columns."""
    tls = ServerTls.self_signed()
    async with serve("127.0.0.1", 0, tls=tls) as server:
        print(json.dumps({"port": server.address[1]}), flush=True)
        async for connection in server:
            columns = Columns()
            readers = []
            begun = time.process_time(), time.perf_counter()
            async for message in connection.entrypoint:
                (half,) = message.attachments
                assert isinstance(half, Receiver)
                readers.append(asyncio.create_task(read(half, columns)))
                if len(readers) == channels:
                    break
            await asyncio.gather(*readers)
            columns.group()
            cpu, wall = time.process_time() - begun[0], time.perf_counter() - begun[1]
            assert columns.rows == count
            print(json.dumps(Received(columns.bytes, cpu, wall, 0)._asdict()), flush=True)
            return


async def read(receiver: Receiver, columns: Columns) -> None:
    async for batch in receiver.batches():
        columns.take(batch.columns)


def to_arrow(load: Load, datagram: int) -> Received:
    """One run of this receiver and a sender, each in a process of its own."""
    process = subprocess.Popen(
        [sys.executable, "-W", "ignore", "-m", "tests.bench.arrow_receiver", str(load.count),
         str(load.channels)],
        stdout=subprocess.PIPE, text=True, env=environment(),
    )  # fmt: skip
    try:
        assert process.stdout is not None
        port = json.loads(process.stdout.readline())["port"]
        send_from_elsewhere(f"aqueduct://127.0.0.1:{port}", load, datagram=datagram)
        return Received(**json.loads(process.stdout.readline()))
    finally:
        process.kill()
        process.wait()
        if process.stdout is not None:
            process.stdout.close()


if __name__ == "__main__":
    asyncio.run(receive(int(sys.argv[1]), int(sys.argv[2])))

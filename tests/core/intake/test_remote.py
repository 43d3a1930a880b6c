"""The remote of the tests does what its scripts say."""

from __future__ import annotations

import asyncio
from pathlib import Path

from aqueduct_core.aio.connect import connect
from aqueduct_core.aio.halves import Receiver, channel
from aqueduct_core.aio.outcomes import Cancelled, ConnectionLost
from aqueduct_core.transport.tls.credentials import ClientTls
from tests.support.event_loop import client_tls, in_loop, server_tls
from tests.support.remote import RemoteThread, Script, Scripts, payloads, serving
from tests.support.remote_process import RemoteProcess


async def read(url: str, tls: ClientTls, name: str) -> list[bytes]:
    async with connect(url, tls=tls) as connection:
        sender, receiver = channel(name=name)
        await connection.entrypoint.send(b"please", attach=sender)
        return await rest(receiver)


async def rest(receiver: Receiver) -> list[bytes]:
    got = []
    async for message in receiver:
        got.append(message.payload)
        for child in message.attachments:
            assert isinstance(child, Receiver)
            got += await rest(child)
    return got


@in_loop
async def test_it_serves_by_its_scripts() -> None:
    scripts: Scripts = {
        "plain": Script(messages=3),
        "tree": Script(messages=2, children=1, child_messages=2),
        "twice": [Script(1, end="cancel"), Script(2)],
        "gone": Script(1, end="vanish"),
        "dropped": Script(end="drop"),
    }
    async with serving(scripts, tls=server_tls()) as remote:
        tls = client_tls()
        assert await read(remote.url, tls, "plain") == [b"plain 0", b"plain 1", b"plain 2"]
        tree = await read(remote.url, tls, "tree")
        assert tree == [b"tree 0", b"tree/0 0", b"tree/0 1", b"tree 1"]
        for name, outcome in (("twice", Cancelled), ("gone", ConnectionLost)):
            try:
                await read(remote.url, tls, name)
            except outcome:
                continue
            raise AssertionError(name)
        assert await read(remote.url, tls, "twice") == [b"twice 0", b"twice 1"]
        try:
            await read(remote.url, tls, "dropped")
        except Cancelled:
            pass
        assert [r.name for r in remote.requests].count("twice") == 2
        assert remote.requests[0].payload == b"please"


def test_it_runs_in_a_thread_and_as_a_process(tmp_path: Path) -> None:
    script = Script(messages=5, size=100)
    with RemoteThread({"a": script}, tmp_path) as remote:
        got = asyncio.run(read(remote.url, remote.client_tls, "a"))
        assert got == payloads("a", script)
        assert remote.connections == 1
    with RemoteProcess(tmp_path, {"a": script}) as process:
        tls = ClientTls(ca_file=process.ca_file)
        for _ in range(2):
            assert asyncio.run(read(process.url, tls, "a")) == payloads("a", script)
            process.restart()

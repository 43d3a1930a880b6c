"""What is shown of public values: one bounded line, without secrets and without what a terminal
obeys."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from aqueduct_core.aio.connect import connect
from aqueduct_core.aio.deliveries import DeliveryReport
from aqueduct_core.aio.halves import channel
from aqueduct_core.aio.message import Batch
from aqueduct_core.aio.outcomes import ConnectionLost
from aqueduct_core.aio.serve import bearer, serve
from aqueduct_core.aqueduct.config import Config
from aqueduct_core.transport.settings import LinkSettings, ListenLimits
from aqueduct_core.transport.tls.credentials import ServerTls
from tests.core.aio.storing import producer, storing
from tests.support.event_loop import client_tls, in_loop, server_tls

TOKEN = "the-secret-of-the-day"
HOSTILE = "\x1b[2J\u202e\n" + 60 * "x"
LONGEST = 400
"""Characters of a value with state; settings have a name for each of theirs."""


@asynccontextmanager
async def values() -> AsyncIterator[list[Any]]:
    """One of each kind, with as much of a stranger's text as it takes."""
    async with (
        serve("127.0.0.1", 0, tls=server_tls(), authorize=bearer(TOKEN)) as server,
        connect(server.url, tls=client_tls(), token=TOKEN, headers={"h": HOSTILE}) as connection,
        storing() as (store, _),
        producer(store.url) as producing,
    ):
        accepted = await server.accept()
        sender, receiver = channel(name=HOSTILE)
        name = "\u202e" + 80 * "n"
        attached = producing.channel(name)
        await attached.send_and_wait(b"secret payload")
        await sender.send(b"secret payload", headers={"h": HOSTILE})
        message = await receiver.receive()
        await sender.send_many([b"secret payload"] * 3)
        batch = await anext(receiver.batches())
        assert isinstance(batch, Batch)
        gone_sender, gone = channel()
        await connection.entrypoint.send(b"", attach=gone)
        yield [
            *(server, connection, accepted, accepted.claims, connection.statistics),
            *(sender, receiver, gone_sender, gone, sender.statistics, receiver.statistics),
            *(message, batch, receiver.counts, DeliveryReport(1, False, "lost")),
            *(producing, attached, producing.statistics, attached.statistics),
            *(ConnectionLost("channel 4", 4096, HOSTILE, True), connect(server.url)),
            *(server_tls(), ServerTls.self_signed(), client_tls()),
        ]


@in_loop
async def test_values_are_shown_in_one_bounded_line() -> None:
    async with values() as shown:
        for value in shown:
            text = repr(value)
            assert text.isprintable(), text
            assert len(text) <= LONGEST, text
            assert "secret" not in text, text
            assert "PRIVATE" not in text, text


def test_settings_show_each_of_their_values_in_one_line() -> None:
    for value in (Config(), LinkSettings(), ListenLimits()):
        text = repr(value)
        assert text.isprintable()
        assert len(text) <= 2_000

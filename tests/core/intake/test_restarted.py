"""A producer learns at once that its intake was killed and started again."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from aqueduct_core.aio.producer import Producer
from aqueduct_core.engine.close_codes import CloseOrigin
from aqueduct_core.flight.credentials import Credentials
from aqueduct_core.transport.settings import LinkSettings
from tests.core.intake.lives import run
from tests.support.intake_process import Site
from tests.support.proxy import Impairment, Proxy

NEVER = LinkSettings(idle_timeout=3_600.0)
"""Whoever waits for this timeout fails the test."""


@pytest.mark.parametrize("under_way", [0, 100], ids=["idle", "messages on their way"])
def test_fault_01_by_a_stateless_reset_and_not_by_the_idle_timeout(
    site: Site, under_way: int
) -> None:
    """Behind a proxy, so that nobody hears that the port was closed for a while."""

    async def scenario() -> None:
        with site.intake() as killed:
            host, port = killed.listen.rsplit(":", 1)
            proxy = Proxy((host, int(port)), Impairment(delay=0.0), seed=1)
            where = "aqueduct://{}:{}".format(*await proxy.open())
            producing = Producer(where, producer="p", tls=site.client_tls, settings=NEVER)
            try:
                async with producing as producer:
                    sending = producer.channel("c")
                    await sending.send(b"0")
                    await sending.flush()
                    first = producer.connection
                    assert first is not None
                    await asyncio.to_thread(killed.kill)
                    for number in range(1, 1 + under_way):
                        await sending.send(b"%d" % number)
                    with site.intake(listen=killed.listen) as again:
                        await sending.send(b"last")
                        await sending.finish()
                        ended = first.closed
                        assert ended is not None
                        assert ended.origin is CloseOrigin.STATELESS_RESET
                        assert ended.by_peer
                        status = await asyncio.to_thread(again.status)
                        assert status.counters["stateless_resets"] >= 1
                        rows = await asyncio.to_thread(again.rows)
                        stored = [row["value"] for row in rows if row["channel"] == "c"]
                        numbered = [b"%d" % number for number in range(1 + under_way)]
                        assert stored == [*numbered, b"last"]
                        await producer.close()
            finally:
                proxy.close()

    run(scenario())


def test_the_key_lies_in_the_keys_and_each_spool_has_its_own(
    tmp_path: Path,
) -> None:
    credentials = Credentials.for_spool(tmp_path)
    key = credentials.reset_key("one")
    assert len(key) == 32
    assert Credentials.for_spool(tmp_path).reset_key("one") == key
    assert credentials.reset_key("another") != key
    assert Credentials.fresh().reset_key("one") != key
    with pytest.raises(ValueError, match="clients"):
        credentials.for_clients().reset_key("one")

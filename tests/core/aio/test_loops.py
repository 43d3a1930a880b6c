"""What belongs to one event loop and is used in another one, or in none."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any

import pytest

from aqueduct_core.aio.halves import channel
from aqueduct_core.aio.outcomes import Misuse
from tests.core.aio.scene import scene
from tests.core.aio.storing import producer, storing
from tests.support.event_loop import in_loop


def elsewhere(call: Callable[[], Awaitable[Any]]) -> str:
    """What the call says in an event loop of its own, in a thread of its own."""
    told: list[str] = []

    async def run() -> None:
        with pytest.raises(Misuse) as caught:
            await call()
        told.append(str(caught.value))

    thread = threading.Thread(target=asyncio.run, args=(run(),))
    thread.start()
    thread.join()
    [text] = told
    return text


def test_a_channel_needs_a_loop() -> None:
    with pytest.raises(Misuse, match="inside a coroutine"):
        channel()


@in_loop
async def test_halves() -> None:
    sender, receiver = channel()
    calls: list[Callable[[], Coroutine[Any, Any, Any]]] = [
        lambda: sender.send(b""),
        lambda: sender.send_and_wait(b""),
        lambda: sender.send_many([b""]),
        sender.flush,
        sender.finish,
        sender.close,
        sender.cancel,
        receiver.receive,
        receiver.close,
        receiver.cancel,
        lambda: anext(receiver.batches()),  # type: ignore[arg-type]
    ]
    for call in calls:
        assert "another event loop" in elsewhere(call)
    assert await sender.send(b"here") == 0
    assert (await receiver.receive()).payload == b"here"


@in_loop
async def test_connections_and_servers() -> None:
    async with scene() as set_up:
        for call in (
            set_up.client.close,
            set_up.client.cancel,
            set_up.server.accept,
            set_up.server.close,
        ):
            assert "another event loop" in elsewhere(call)
        assert set_up.client.closed is None


@in_loop
async def test_producers() -> None:
    async with storing() as (server, store), producer(server.url) as sending:
        lines = sending.channel("lines")
        for call in (
            lambda: lines.send(b""),
            lambda: lines.send_and_wait(b""),
            lines.flush,
            lines.committed,
            lines.finish,
            sending.flush,
            lambda: sending.position("lines"),
            sending.close,
            sending.cancel,
        ):
            assert "another event loop" in elsewhere(call)
        assert (await lines.send_and_wait(b"here")).acked
        assert store.payloads("lines") == [b"here"]

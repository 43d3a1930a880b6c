"""A server and a client in one event loop, and pairs of halves that are local or networked."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import pytest

from aqueduct_core.aio.connect import connect
from aqueduct_core.aio.connection import ClientConnection, ServerConnection
from aqueduct_core.aio.halves import Half, Receiver, Sender, channel
from aqueduct_core.aio.serve import Server, serve
from aqueduct_core.aqueduct.config import Config
from aqueduct_core.errors import AqueductError
from tests.support.event_loop import client_tls, server_tls

KINDS = (
    "local",
    "receiver leaves",
    "sender leaves",
    "server's receiver leaves",
    "server's sender leaves",
    "little credit",
)
"""How the halves of a pair came to be where they are. With little credit, what is large or many
waits in the engine until the receiver has read."""
TIGHT = Config(flow_per_channel=4096)


@dataclass(frozen=True)
class Scene:
    server: Server
    client: ClientConnection
    served: ServerConnection
    """The same connection, as the server has it."""

    async def carry(self, *halves: Half) -> tuple[Half, ...]:
        """Send halves from the client; what they are at the server."""
        await self.client.entrypoint.send(b"carry", attach=halves)
        return (await self.served.entrypoint.receive()).attachments

    async def carry_back(self, *halves: Half) -> tuple[Half, ...]:
        """Send halves from the server, on a channel that the client made for that."""
        sender, receiver = channel()
        (back,) = await self.carry(sender)
        assert isinstance(back, Sender)
        await back.send(b"carry back", attach=halves)
        attachments = (await receiver.receive()).attachments
        await back.finish()
        return attachments


@asynccontextmanager
async def scene(*, server_config: Config | None = None, **options: Any) -> AsyncIterator[Scene]:
    """Options go to ``connect``."""
    async with (
        serve("127.0.0.1", 0, tls=server_tls(), config=server_config) as server,
        connect(server.url, tls=client_tls(), **options) as client,
    ):
        yield Scene(server, client, await server.accept())


@asynccontextmanager
async def pair(
    kind: str, mode: str = "ordered", **options: Any
) -> AsyncIterator[tuple[Sender, Receiver]]:
    """Both halves of a channel; all but ``local`` over a real connection. Nothing here holds on
    to them, so a test may drop one."""
    if kind == "local":
        yield channel(mode, **options)
    else:
        tight = {"config": TIGHT, "server_config": TIGHT} if kind == KINDS[-1] else {}
        async with scene(**tight) as set_up:
            yield await _networked(set_up, kind, *channel(mode, **options))


async def _networked(
    set_up: Scene, kind: str, sender: Sender, receiver: Receiver
) -> tuple[Sender, Receiver]:
    carry = set_up.carry_back if kind.startswith("server's") else set_up.carry
    if kind.endswith("sender leaves"):
        mode = sender.mode
        (far_sender,) = await carry(sender)
        assert isinstance(far_sender, Sender)
        far_sender.use(mode)
        return far_sender, receiver
    (far_receiver,) = await carry(receiver)
    assert isinstance(far_receiver, Receiver)
    return sender, far_receiver


async def refused(url: str, **options: Any) -> AqueductError:
    """Why a server does not let us in, in one line."""
    options.setdefault("tls", client_tls())
    with pytest.raises(AqueductError) as caught:
        async with connect(url, **options):
            pass
    text = str(caught.value)
    assert text.startswith("[AQUEDUCT_")
    assert "\n" not in text
    return caught.value

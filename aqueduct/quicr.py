"""Media objects over QUICR: publish, request and subscribe; run an origin or a relay.

    async with connect("quicr://host:4433") as client:
        async with client.publish("sensors/1") as publisher:
            await publisher.send(b"first", new_group=True)
        async with client.request("sensors/1") as reader:
            async for each in reader:
                print(each.group, each.object, each.payload)

QUICR in prototype (ALPN ``quicr-h20``), beside the channels of `aqueduct`.
"""

from aqueduct_core.aio.quicr.client import QuicrClient, connect, publish, request, subscribe
from aqueduct_core.aio.quicr.publisher import Publisher
from aqueduct_core.aio.quicr.reader import MediaReader
from aqueduct_core.aio.quicr.server import MediaServer, serve_origin, serve_relay
from aqueduct_core.aio.quicr.urls import UrlSubscription
from aqueduct_core.quicr.config import DropSettings, QuicrConfig
from aqueduct_core.quicr.events import Pressure
from aqueduct_core.quicr.faults import MediaError
from aqueduct_core.quicr.media.assembly import MediaObject
from aqueduct_core.quicr.media.position import Position, PositionRange
from aqueduct_core.quicr.media.reception import Conflict, Gap, GapReason
from aqueduct_core.quicr.relay.config import RelayConfig
from aqueduct_core.quicr.relay.media import UrlCounts

__all__ = [
    "Conflict",
    "DropSettings",
    "Gap",
    "GapReason",
    "MediaError",
    "MediaObject",
    "MediaReader",
    "MediaServer",
    "Position",
    "PositionRange",
    "Pressure",
    "Publisher",
    "QuicrClient",
    "QuicrConfig",
    "RelayConfig",
    "UrlCounts",
    "UrlSubscription",
    "connect",
    "publish",
    "request",
    "serve_origin",
    "serve_relay",
    "subscribe",
]

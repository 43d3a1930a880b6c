"""The messages of control streams as frozen values (Q1-Q25); a FRAGMENT is a `Fragment`.

| type | message     | who sends it                    | what for                               |
|------|-------------|---------------------------------|----------------------------------------|
| 1, 2 | REQUEST     | a client, first on its stream   | to get a media, as stream or datagrams |
| 3    | FIN         | who sends a media               | the final point                        |
| 5    | FRAGMENT    | who sends a media on its stream | a piece of an object, or a hole        |
| 6    | POST        | a client, first on its stream   | to send a media                        |
| 7    | ACCEPT      | a server, to a POST             | go on, as stream or datagrams          |
| 8    | START_POINT | who sends a media               | the first object                       |
| 9    | SUBSCRIBE   | a client, first on its stream   | to hear of URLs                        |
| 10   | NOTIFY      | a server, to a SUBSCRIBE        | a URL that there is                    |
"""

from __future__ import annotations

from enum import IntEnum
from typing import NamedTuple, TypeAlias

from aqueduct_core.quicr.media.fragment import Fragment
from aqueduct_core.quicr.media.position import Position


class MessageType(IntEnum):
    """The first field of a message. 4, REQUEST_REPAIR, is one that the prototype refuses."""

    REQUEST_STREAM = 1
    REQUEST_DATAGRAM = 2
    FIN = 3
    FRAGMENT = 5
    POST = 6
    ACCEPT = 7
    START_POINT = 8
    SUBSCRIBE = 9
    NOTIFY = 10


class RequestMessage(NamedTuple):
    """``datagram_id``: which datagrams its sender wants the media in (Q10); None: on the stream."""

    url: bytes
    datagram_id: int | None


class FinMessage(NamedTuple):
    """``final``: behind the last object: its group, and its number plus one (Q19)."""

    final: Position


class PostMessage(NamedTuple):
    """``datagram``: its sender can send datagrams (Q17)."""

    url: bytes
    datagram: bool


class AcceptMessage(NamedTuple):
    """``datagram_id``: in which datagrams the media is wanted; None: on the stream (Q17)."""

    datagram_id: int | None


class StartPointMessage(NamedTuple):
    start: Position


class SubscribeMessage(NamedTuple):
    """An empty prefix is one of every URL."""

    prefix: bytes


class NotifyMessage(NamedTuple):
    url: bytes


ControlMessage: TypeAlias = (
    RequestMessage
    | FinMessage
    | Fragment
    | PostMessage
    | AcceptMessage
    | StartPointMessage
    | SubscribeMessage
    | NotifyMessage
)

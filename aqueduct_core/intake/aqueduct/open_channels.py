"""The channels of one connection that flow to us, and the memory that they take."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

from aqueduct_core.aqueduct.conventions.dedupe.identity import floor_of, sent_by
from aqueduct_core.aqueduct.conventions.dedupe.source_rows import RowNumbers, source_of
from aqueduct_core.aqueduct.conventions.headers import read_channel
from aqueduct_core.aqueduct.wire.codec import headers_size
from aqueduct_core.engine.message_batch import Attachment, Headers
from aqueduct_core.intake.aqueduct.rows import AqueductSource
from aqueduct_core.intake.storage.batches import ChannelTally

CHANNEL_BYTES = 1_200
"""A channel with its source, its tally and what is counted of its repeats."""
PAIR_BYTES = 150
"""The objects of a header, beside its bytes."""

MAX_PATH = 256
"""Bytes, as of a name. The path of a channel deeper in the tree begins with an ellipsis, so that a
deep tree costs each channel the same; the number at its end is unique on the connection."""


class PeerIdentity(NamedTuple):
    """Who sends on a connection, as it says: ``producer`` None: nobody in particular;
    ``run_number`` is of the process that it is."""

    connection: str
    producer: str | None = None
    run_number: int | None = None
    headers: Headers = ()


@dataclass(frozen=True, slots=True)
class SessionChannel:
    """A channel that flows to us. ``path`` is its place in the tree: ``0``, ``0/8``, …; ``tally``
    counts what is stored of it; ``rows`` numbers its messages where they say which row of a source
    they are."""

    source: AqueductSource
    resumes: bool
    path: str
    tally: ChannelTally = field(default_factory=ChannelTally)
    rows: RowNumbers | None = None


class OpenChannels(dict[int, SessionChannel]):
    """By number. ``memory``: bytes, about. A number is given once."""

    def __init__(self) -> None:
        super().__init__()
        self.memory = 0

    def __setitem__(self, number: int, channel: SessionChannel) -> None:
        super().__setitem__(number, channel)
        self.memory += _memory(channel)

    def end(self, number: int) -> SessionChannel | None:
        """Take out a channel; None: there is none."""
        channel = self.pop(number, None)
        if channel is not None:
            self.memory -= _memory(channel)
        return channel

    def clear(self) -> None:
        super().clear()
        self.memory = 0


class AttachedSource(NamedTuple):
    """What the headers of an attached channel say. ``run_start`` and ``stood_at`` as of
    `conventions.headers.read_channel`."""

    source: AqueductSource
    resumes: bool
    run_start: int | None
    stood_at: int | None


def asked_source(
    number: int, name: str, start: int | None, headers: Headers, peer: PeerIdentity
) -> tuple[AqueductSource, bool]:
    """Of a channel that no message of the peer brought, and whether it resumes; ``start`` as of
    `Session.read`."""
    resumes = peer.producer is not None and start is not None
    source = AqueductSource(
        channel=name,
        producer=peer.producer or peer.connection,
        connection=peer.connection,
        channel_id=number,
        start=start or 0,
        run_number=peer.run_number if resumes else None,
        channel_headers=headers,
        connection_headers=peer.headers,
    )
    return source, resumes


def attached_source(
    parent: SessionChannel, message: int, attachment: Attachment, path: str, peer: PeerIdentity
) -> AttachedSource:
    """Of a channel that came with a message of ``parent``.

    Raises:
        BadHeader.
    """
    claims = read_channel(attachment.headers)
    producer = sent_by(parent.source.producer, attachment.headers)
    floor = floor_of(attachment.headers, claims.sequence_start or 0)
    by_source = source_of(attachment.headers) is not None and peer.producer is not None
    resumes = peer.producer is not None and claims.sequence_start is not None
    source = AqueductSource(
        channel=claims.name or path,
        producer=producer,
        connection=peer.connection,
        channel_id=attachment.channel,
        start=claims.sequence_start or 0,
        floor=floor,
        run_start=claims.run_start or 0,
        run_number=peer.run_number if resumes else None,
        by_source=by_source,
        parent_channel_id=parent.source.channel_id,
        parent_message=message,
        channel_headers=attachment.headers,
        connection_headers=peer.headers,
    )
    return AttachedSource(source, resumes, claims.run_start, claims.stood_at)


def path_below(parent: str, number: int) -> str:
    """The path of channel ``number``, which came in a message on the channel of path ``parent``."""
    path = f"{parent}/{number}"
    return path if len(path.encode()) <= MAX_PATH else f"…/{number}"


def _memory(channel: SessionChannel) -> int:
    headers = channel.source.channel_headers
    return CHANNEL_BYTES + headers_size(headers) + PAIR_BYTES * len(headers)

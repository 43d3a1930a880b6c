"""Limits, delays and options of one Aqueduct connection, each with its default and its reason."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum


class Mode(Enum):
    """How a sender carries its messages; fixed by its first send (AQ-SEND-13)."""

    ORDERED = "ordered"
    UNORDERED = "unordered"
    UNRELIABLE = "unreliable"


class AckMode(Enum):
    """What an ack of ours means (AQ-ACK-15)."""

    ON_RECEIPT = "on receipt"
    ON_STORED = "on stored"


@dataclass(frozen=True, slots=True, kw_only=True)
class Config:
    """All times are seconds, all sizes bytes."""

    ack_mode: AckMode = AckMode.ON_RECEIPT
    auto_accept: bool = False
    """A server answers the client's connection headers with its own at once."""

    # Delays: how soon "shortly" is.
    ack_delay: float = 0.02
    """A message is acked at most this long after it came (AQ-ACK-1)."""
    sent_unreliable_delay: float = 0.1
    """Datagram messages are declared at most this long after they were sent (AQ-SEND-6)."""
    unreliable_receipt_deadline: float = 1.0
    """How long after its declaration a datagram message may still come in (AQ-ACK-6)."""
    forget_delay: float = 0.02
    """FORGET_CHANNEL waits so long, so that many triggers make one frame (AQ-LIFE-18)."""
    close_linger: float = 1.0
    """Our closed receiver's control stream stays open for a late FORGET_CHANNEL (AQ-LIFE-11)."""
    tombstone_age: float = 1.0
    """A tombstone younger than this is never dropped (AQ-LIFE-17)."""
    handshake_timeout: float = 10.0
    """The peer's connection headers must be here by then (H3)."""

    # Options.
    early_unreliable_ack: bool = True
    """Ack a declared prefix that came in whole before its deadline (AQ-ACK-12)."""
    route_back_on_attach: bool = True
    """Send ROUTE_TO back for attachments too (AQ-LIFE-9)."""
    strict_unknown_local: bool = False
    """Close when the peer routes to a channel that we never made (AQ-LIFE-5)."""
    require_datagrams: bool = False
    """Close when the peer takes no datagrams (AQ-HDR-9)."""

    # One frame: refused as soon as the length is known (AQ-BYTES-2).
    max_payload_bytes: int = 16_000_000
    max_headers_bytes: int = 64_000
    max_header_pairs: int = 256
    max_attachments_bytes: int = 1 << 20
    max_attachments: int = 1024
    max_ranges_bytes: int = 1 << 16

    # What a peer can make one connection hold.
    max_partial_bytes: int = 64 << 20
    """Bytes of frames that are only partly here, over all streams (H2)."""
    early_credit_bytes: int = 1 << 20
    """An incomplete frame's credit goes back ahead of the frame, so that a frame may be larger
    than the transport's window; not while the application is this far behind on its channel."""
    max_prehandshake_bytes: int = 1 << 20
    """Routed bytes held until the peer's connection headers come (AQ-HDR-8)."""
    max_prehandshake_datagrams: int = 256
    max_channels: int = 65_536
    """State machines of both kinds (H4)."""
    max_unclaimed_channels: int = 4096
    """Channels of the peer whose carrier message has not come (AQ-LIFE-21)."""
    max_unclaimed_bytes: int = 16 << 20
    max_channel_queue_bytes: int = 64 << 20
    """Messages of a channel that the application has not consumed (H5)."""
    max_connection_queue_bytes: int = 256 << 20
    max_ranges_per_space: int = 65_536
    """Holes in the numbers of one channel (H6)."""
    max_reliable_window: int = 1 << 20
    """Reliable numbers may run this far ahead of the lowest missing one (AQ-ACK-14)."""
    max_unreliable_window: int = 1 << 20
    """Datagram numbers this far above the mark are dropped as lost (AQ-ACK-14)."""
    max_tombstone_ranges: int = 65_536
    """Ranges of ended channels of the peer, for each kind (H7)."""
    max_pending_forgets: int = 4096
    """Channels to forget because the peer routed to them (H8)."""
    max_links: int = 1_000_000
    """Channels of ours whose fate is open (H10)."""
    max_unacked_attachment_messages: int = 65_536
    """Un-acked messages with attachments; above it ``send`` refuses more of them (H11)."""
    max_datagram_size: int = 1100
    """Until the transport says what fits a datagram (H14)."""

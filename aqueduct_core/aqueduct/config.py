"""Limits, delays and options of one Aqueduct connection, each with its default and its reason."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import NoReturn

ALPN = "aqueduct"
"""The name of the protocol in the TLS handshake. The documents give none."""
SCHEME = "aqueduct"
"""Of its addresses."""

CHANNEL_BUFFER = 4 << 20
"""Bytes of a channel that wait for who reads them, told to senders that know flow control: as much
as one stream of the transport may hold, and as a local queue."""


class Mode(Enum):
    """How a sender carries its messages; fixed by its first send (AQ-SEND-13)."""

    ORDERED = "ordered"
    UNORDERED = "unordered"
    UNRELIABLE = "unreliable"

    @classmethod
    def _missing_(cls, value: object) -> NoReturn:
        raise ValueError(f"a channel is ordered, unordered or unreliable, and not {value!r}")


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
    """Datagram messages are declared at most this long after they left (AQ-SEND-6)."""
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
    dequeued_delay: float = 0.02
    """Credit for consumed messages goes back at most this long after (AQ-FLOW-6)."""
    least_delay: float = 0.01
    """Delays that follow the round-trip time are no shorter: frames on a fast link are to be
    few (B35)."""
    least_receipt_deadline: float = 0.1
    """The same for the receipt deadline, with ``receipt_deadline_by_rtt``."""
    channel_idle_timeout: float | None = None
    """``Idle`` comes when nothing happened on a channel for so long (H27, H28); None: never."""

    # Options.
    early_unreliable_ack: bool = True
    """Ack a declared prefix that came in whole before its deadline (AQ-ACK-12)."""
    route_back_on_attach: bool = True
    """Send ROUTE_TO back for attachments too (AQ-LIFE-9)."""
    strict_unknown_local: bool = False
    """Close when the peer routes to a channel that we never made (AQ-LIFE-5)."""
    receipt_deadline_by_rtt: bool = False
    """The receipt deadline is twice the round-trip time, within its bounds (B35)."""
    require_datagrams: bool = False
    """Close when the peer takes no datagrams (AQ-HDR-9)."""
    unordered_runs: bool = False
    """Tell peers that they may put unordered messages in a row on one stream, as many as a packet
    holds (header ``unordered-runs``). What they say of themselves holds for what we send."""
    confirm_finish: bool = False
    """A receiver that finishes emits ``Complete`` when nothing is missing, and ends only when the
    application answers with ``confirm``: so it can note the finish before the peer learns it."""

    # Flow control (reference §3.7 as proposed): active where both ends announce it.
    flow_per_channel: int | None = None
    """Bytes that we announce to buffer for each channel (AQ-FLOW-1); 0: no limit; None: flow
    control is off."""
    flow_all_channels: int = 0
    """The same for all channels together. An application that sets it must not wait on one
    channel while it lets others fill up (AQ-FLOW-12)."""
    initial_burst: int = 1 << 16
    """What a client sends before it knows the server's buffers (AQ-FLOW-9)."""
    send_queue_messages: int = 1024
    """Messages of a channel that wait for credit or for the link; above it ``send`` refuses, or
    drops the oldest if it is unreliable (AQ-FLOW-5)."""
    send_queue_bytes: int = 1 << 20
    send_queue_connection_bytes: int = 64 << 20
    """The same over all channels of the connection."""
    reserved_control_streams: int = 16
    """The last streams that the peer allows are kept for acks, ends and FORGET_CHANNEL (H12): so
    many, or a quarter of what it allows at a time. Where channels have taken all others, one
    message with a stream of its own goes at a time on these."""

    max_waiting_streams: int = 8_192
    """Streams of ours, all of them for control, that wait until the peer allows more; each takes a
    hundred times the bytes that made us open it."""

    work_per_turn: int = 256
    """Frames that are taken in before everybody else has a turn, in the work of a plain message;
    the rest waits, without credit. A few bytes that fill a hole can bring a whole window of them.
    """

    # One frame: refused as soon as the length is known (AQ-BYTES-2).
    max_payload_bytes: int = 16_000_000
    max_headers_bytes: int = 64_000
    max_header_pairs: int = 256
    max_attachments_bytes: int = 1 << 20
    max_attachments: int = 256
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
    max_queue_pieces: int = 1 << 19
    """Batches and changes of stream among them, at about half a KiB each whatever their bytes (H5).
    More than a transport window of honest small messages makes."""
    max_ranges_per_space: int = 65_536
    """Holes in the numbers of one channel (H6)."""
    max_reliable_window: int = 1 << 20
    """Reliable numbers may run this far ahead of the lowest missing one (AQ-ACK-14)."""
    max_unreliable_window: int = 1 << 20
    """Datagram numbers this far above the mark are dropped as lost (AQ-ACK-14)."""
    max_unanswered_declarations: int = 4096
    """SENT_UNRELIABLE frames of a channel that wait for an answer; more are answered together
    with the last of them (H6)."""
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

    def __post_init__(self) -> None:
        """Raises ValueError for buffers that no header can announce (AQ-VARINT-3)."""
        for size in (self.flow_per_channel or 0, self.flow_all_channels):
            if not 0 <= size < 1 << 62:
                raise ValueError(f"a flow control buffer of {size} bytes: 0 to 2^62 - 1")


DEFAULT_CONFIG = Config(flow_per_channel=CHANNEL_BUFFER, unordered_runs=True)
"""What an application that gives none gets."""

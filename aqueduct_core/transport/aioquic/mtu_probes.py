"""aioquic's connection, made to find out how large the datagrams may be that it sends.

Stock aioquic has one size for the life of a connection. Here it follows a ``PathMtuSearch``, whose
probes are PING and PADDING in packets of their own. They are built here and by nobody else; all
other packets have ``_max_datagram_size`` bytes at most, which is changed here and nowhere else.

A probe is remembered as aioquic remembers a packet that only acknowledges: neither in flight, so
that its loss is no sign of congestion (RFC 9000 §14.4), nor asking for an acknowledgement, so that
it arms no timer. That it is lost is then said when a later packet was acknowledged, and only then.
"""

from __future__ import annotations

from typing import Any

from aioquic._buffer import Buffer
from aioquic.quic.configuration import QuicConfiguration
from aioquic.quic.connection import QuicConnectionState, QuicNetworkPath
from aioquic.quic.packet import QuicFrameType, QuicPacketType, pull_quic_transport_parameters
from aioquic.quic.packet_builder import QuicDeliveryState, QuicPacketBuilder
from aioquic.tls import Epoch

from aqueduct_core.transport.aioquic.congestion import Bounded
from aqueduct_core.transport.aioquic.packet_limits import LimitedConnection
from aqueduct_core.transport.path_mtu import PathEvent, PathMtuSearch
from aqueduct_core.transport.settings import LARGEST_DATAGRAM

SILENT_PROBES = 2
"""Probe timeouts in a row, without any acknowledgement, after which the size is in doubt: the first
one is often a tail that got lost."""

WINDOW_SHARE = 2
"""A probe is sent where the congestion window holds it so often. A window has two datagrams at
least (RFC 9002 §7.2), so none grows because datagrams do (RFC 8899 §3)."""


class ProbingConnection(LimitedConnection):
    """A ``LimitedConnection`` whose datagrams grow to what the path carries.

    Usage: ``follow_path`` after each burst, timer and flight; send what ``path_probe`` returns with
    what ``datagrams_to_send`` does; ``too_large`` where our own system refused a datagram.

    ``most_datagram``: what they grow to at most.
    """

    def __init__(self, *, configuration: QuicConfiguration, **start: Any) -> None:
        self._peer_takes = LARGEST_DATAGRAM
        super().__init__(configuration=configuration, **start)
        self.most_datagram = configuration.max_datagram_size
        self.probe_packet = -1
        """The number of the packet that is the probe under way."""
        self._smallest = configuration.max_datagram_size
        self._search: PathMtuSearch | None = None
        self._searched: QuicNetworkPath | None = None
        self._losses = 0
        self._ask_at: float | None = None

    @property
    def datagram_size(self) -> int:
        """Bytes of the UDP datagrams that are sent now, at most."""
        return self._max_datagram_size

    def follow_path(self, now: float) -> None:
        """Begin a search on a path that is new, and take note of losses."""
        if not self._handshake_confirmed:
            return
        path = self._network_paths[0]
        losses = self._congestion.losses
        if path is not self._searched:
            most = min(self.most_datagram, self._peer_takes)
            self._searched, self._losses = path, losses
            self._search = PathMtuSearch(self._smallest, most)
            self._ask_at = None
            self._resize(self._smallest)
        elif losses != self._losses:
            self._losses = losses
            self._happened(PathEvent.LOSS, now)

    def path_probe(self, now: float) -> list[tuple[bytes, Any]]:
        """The probe that is to be sent now, if one is."""
        search = self._search
        size = None if search is None else search.wanted
        version = self._version
        if (
            search is None
            or size is None
            or version is None
            or self._state is not QuicConnectionState.CONNECTED
            or self._close_pending
            or self._network_paths[0] is not self._searched
            or not self._searched.is_validated
            or WINDOW_SHARE * size > self._loss.congestion_window
        ):
            return []
        builder = QuicPacketBuilder(
            host_cid=self.host_cid,
            is_client=self._is_client,
            max_datagram_size=size,
            packet_number=self._packet_number,
            peer_cid=self._peer_cid.cid,
            quic_logger=self._quic_logger,
            spin_bit=self._spin_bit,
            version=version,
        )
        builder.start_packet(QuicPacketType.ONE_RTT, self._cryptos[Epoch.ONE_RTT])
        buffer = builder.start_frame(
            QuicFrameType.PING, handler=self._on_probe_delivery, handler_args=(search.sent(), now)
        )
        buffer.push_bytes(bytes(builder.remaining_buffer_space))  # PADDING
        assert builder._packet is not None
        builder._packet.in_flight = builder._packet.is_ack_eliciting = False
        self.probe_packet = self._packet_number
        self._ask_at = now + self._loss.get_probe_timeout()
        return self._flush_builder(
            builder=builder, network_path=self._searched, peer_cid=self._peer_cid.cid, now=now
        )

    def too_large(self, size: int, now: float) -> None:
        """Our own system has refused a datagram of that size."""
        self._happened(PathEvent.TOO_LARGE, now, size)

    def get_timer(self) -> float | None:
        due = super().get_timer()
        if self._search is not None and self._state is QuicConnectionState.CONNECTED:
            for other in (self._ask_at, self._search.wake_at):
                if other is not None and (due is None or other < due):
                    due = other
        return due

    def handle_timer(self, now: float) -> None:
        super().handle_timer(now)
        search = self._search
        if search is None or self._state is not QuicConnectionState.CONNECTED:
            return
        if self._ask_at is not None and now >= self._ask_at:
            # Nobody may have sent anything behind the probe whose acknowledgement would tell.
            self._ask_at = None
            self._send_probe()
        if search.wake_at is not None and now >= search.wake_at:
            self._happened(PathEvent.DUE, now)
        if self._loss._pto_count >= SILENT_PROBES:
            self._happened(PathEvent.SILENCE, now)

    def _parse_transport_parameters(self, data: bytes, from_session_ticket: bool = False) -> None:
        """With one that aioquic checks and drops: the largest datagram that the peer takes. It is
        not remembered with a session (RFC 9000 §7.4.1)."""
        super()._parse_transport_parameters(data, from_session_ticket)
        if not from_session_ticket:
            told = pull_quic_transport_parameters(Buffer(data=data)).max_udp_payload_size
            if told is not None:
                self._peer_takes = told
                self._smallest = min(self._smallest, told)
                self._resize(self._smallest)

    def _on_probe_delivery(self, delivery: QuicDeliveryState, number: int, sent_at: float) -> None:
        event = PathEvent.ACKED if delivery is QuicDeliveryState.ACKED else PathEvent.LOST
        # When it was acknowledged matters less than that all before it passed by then.
        self._happened(event, sent_at, number)

    def _happened(self, event: PathEvent, now: float, value: int = 0) -> None:
        search = self._search
        if search is not None and search.handle(event, now, value):
            self._resize(search.size)
        if search is not None and search.wanted is not None:
            self.probe_packet = -1
            self._ask_at = None

    def _resize(self, size: int) -> None:
        if size == self._max_datagram_size:
            return
        loss = self._loss
        self._max_datagram_size = loss._pacer._max_datagram_size = size
        self._congestion.resize(size)
        if loss._rtt_initialized:
            loss._pacer.update_rate(
                congestion_window=loss.congestion_window, smoothed_rtt=loss._rtt_smoothed
            )

    @property
    def _congestion(self) -> Bounded:
        control = self._loss._cc
        assert isinstance(control, Bounded)
        return control

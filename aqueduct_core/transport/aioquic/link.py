"""A link on aioquic: inputs out of its events, actions into its calls."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping, Sequence

from aioquic.quic import events
from aioquic.quic.packet import QuicErrorCode, QuicFrameType

from aqueduct_core.engine.actions import (
    Action,
    Admit,
    CloseLink,
    Consumed,
    ResetStream,
    SendDatagram,
    StopStream,
    WriteStream,
)
from aqueduct_core.engine.close_codes import CRYPTO_ERROR, CloseOrigin
from aqueduct_core.engine.inputs import (
    DatagramFate,
    DatagramLimit,
    DatagramOutcome,
    EarlyReady,
    EarlyRejected,
    Input,
    LinkLost,
    LinkReady,
)
from aqueduct_core.transport.aioquic.connection import STREAM_BYTES
from aqueduct_core.transport.aioquic.hints import Hints
from aqueduct_core.transport.aioquic.incoming import Incoming
from aqueduct_core.transport.aioquic.progress import SendProgress
from aqueduct_core.transport.aioquic.resets import ResettableConnection, certificate_fault
from aqueduct_core.transport.link import Address, CertificateFault, LinkCounts
from aqueduct_core.transport.sessions import TlsSession
from aqueduct_core.transport.settings import LinkSettings
from aqueduct_core.transport.tls.credentials import fingerprint

BAD_CERTIFICATE = 42
CERTIFICATE_EXPIRED = 45
NO_APPLICATION_PROTOCOL = 120
LONGEST_REASON = 256
"""Bytes of a close reason that are sent: a CONNECTION_CLOSE must fit one packet."""
DATAGRAM_OVERHEAD = 1 + 20 + 2 + 16 + 1 + 4
"""Short header with the longest connection id, packet number, AEAD tag, frame type and length.
The longest id is assumed because a peer may change to it while datagrams are queued, and aioquic
never sends one that does not fit, nor any behind it."""
WORTH_A_SEARCH = 64 << 10
"""Bytes sent before the path is searched: larger datagrams then have saved what the probes cost,
about as much as sending and receiving forty datagrams does."""

_logger = logging.getLogger(__name__)


class AioquicLink:
    """One QUIC connection on aioquic; see ``link.Link`` for the contract.

    Ends when either side closes, the handshake fails or takes longer than its timeout, or nothing
    is heard for the idle timeout.

    Args:
        protocols: the settings of each protocol that is spoken here, by its ALPN.
        session: what a client resumes.
    """

    def __init__(
        self,
        connection: ResettableConnection,
        protocols: Mapping[str, LinkSettings],
        session: TlsSession | None = None,
    ) -> None:
        self.counts = LinkCounts()
        self._quic = connection
        self._protocols = protocols
        self._session = session
        self._alpn: str | None = None
        self._settings = next(iter(protocols.values()))  # until the ALPN is known
        connection.keeps_outcomes = self._settings.datagram_outcomes
        self._progress = SendProgress(connection, of_streams=self._settings.stream_progress)
        self._incoming = Incoming(connection, self.counts)
        self._early = False
        self._early_accepted: bool | None = None
        self._hints = Hints(connection)
        self._lost: LinkLost | None = None
        self._ready = False
        self._admitted = False
        self._alert: int | None = None
        self._certificate_fault: CertificateFault | None = None
        self._max_datagram = 0
        self._handshake_until: float | None = None
        self._ping_at: float | None = None
        self._pings = 0
        self._closing = _ClosingPackets()
        self._fingerprint: str | None = None
        self._freed = False

    @property
    def timer(self) -> float | None:
        if self._quic.terminated:
            return None
        due = self._quic.get_timer() if self._quic.has_path else None
        for other in (self._handshake_until, self._ping_at):
            if other is not None and (due is None or other < due):
                due = other
        return due

    @property
    def awaits(self) -> float | None:
        return None if self._freed else self._quic.loss_at

    @property
    def unsent(self) -> int:
        return 0 if self._lost else self._quic.unacknowledged + self._quic.queued_datagrams

    @property
    def outgoing(self) -> int:
        return self.unsent + (0 if self._lost else STREAM_BYTES * self._quic.untaken)

    @property
    def footprint(self) -> int:
        return 0 if self._freed else self._quic.footprint + self._incoming.footprint

    @property
    def backlogged(self) -> bool:
        return self._quic.datagrams_wait

    @property
    def round_trip(self) -> float | None:
        return None if self._freed else self._quic.round_trip

    @property
    def alpn(self) -> str | None:
        return self._alpn

    @property
    def ready(self) -> bool:
        return self._ready

    @property
    def proved(self) -> bool:
        return self._ready

    @property
    def admitted(self) -> bool:
        return self._admitted

    @property
    def early(self) -> bool:
        return self._early and not self._ready and self._lost is None

    @property
    def early_accepted(self) -> bool | None:
        return self._early_accepted

    @property
    def lost(self) -> LinkLost | None:
        return self._lost

    @property
    def closed(self) -> bool:
        return self._quic.terminated

    @property
    def alert(self) -> int | None:
        return self._alert

    @property
    def certificate_fault(self) -> CertificateFault | None:
        return self._certificate_fault

    @property
    def peer_fingerprint(self) -> str | None:
        if self._freed:
            return self._fingerprint
        certificate = self._quic.peer_certificate
        if certificate is not None:
            return fingerprint(certificate)
        resumed = self._session is not None and self._quic.resumed
        return self._session.fingerprint if resumed and self._session is not None else None

    @property
    def peer_certificate_until(self) -> float | None:
        """When the certificate that the peer showed expires, in seconds since the epoch."""
        certificate = self._quic.peer_certificate
        return None if certificate is None else certificate.not_valid_after_utc.timestamp()

    def dial(self, address: Address, now: float) -> None:
        self._handshake_until = now + self._settings.handshake_timeout
        self._quic.connect(address, now=now)
        if self._quic.offered_early:
            self._early = True
            self._max_datagram = self._datagram_room
            self._incoming.inputs += [EarlyReady(self._max_datagram), *self._hints.room()]

    def answers_to(self, *connection_ids: bytes) -> None:
        """What a server's link is found by before it has issued any id."""
        self._incoming.issued += connection_ids

    def receive(self, datagrams: Sequence[tuple[bytes, Address]], now: float) -> None:
        quic = self._quic
        if self._closing:
            self._closing.received(len(datagrams))
            return
        if self._handshake_until is None and not self._ready:
            self._handshake_until = now + self._settings.handshake_timeout
        try:
            quic.receive_burst(datagrams, now)
        except Exception:
            # aioquic handles what it expects; anything else is its bug, met by this peer's bytes.
            _logger.exception("QUIC failed on a datagram of the peer")
            quic.close(QuicErrorCode.INTERNAL_ERROR, QuicFrameType.PADDING, "QUIC failed")
        self.counts.datagrams_received += len(datagrams)
        self.counts.bytes_received += sum(len(data) for data, _ in datagrams)
        if self._ready:
            self._ping_at = now + quic.idle_limit / 3
        self._collect(now)

    def inputs(self) -> list[Input]:
        if not (self._ready or self._early or self._lost is not None):
            return []
        inputs, self._incoming.inputs = self._incoming.inputs, []
        return inputs

    def apply(self, actions: Iterable[Action], now: float) -> None:
        quic = self._quic
        if self._progress.of_streams:
            actions = list(actions)
            self._progress.writes(actions)
        for action in actions:
            if self._lost is not None:
                return
            match action:
                case WriteStream(stream_id, data, end, urgent):
                    if self._incoming.wanted(stream_id):
                        quic.send_stream_data(stream_id, data, end, urgent)
                case Consumed(stream_id, count):
                    quic.consume(stream_id, count)
                case SendDatagram(data, token):
                    # Where the peer takes none, not even an empty one.
                    if len(data) > self._max_datagram or not self._max_datagram:
                        self.counts.datagram_frames_refused += 1
                        self._incoming.inputs.append(DatagramOutcome(token, DatagramFate.REFUSED))
                    else:
                        quic.send_datagram(data, token)
                case ResetStream(stream_id, code):
                    quic.reset_stream(stream_id, code)
                case StopStream(stream_id, code):
                    self._incoming.stop(stream_id, code)
                case CloseLink(code, reason, origin):
                    self.close(code, reason, origin)
                case Admit():
                    self._admitted = True
                    quic.grant_streams(self._settings)

    def transmit(self, now: float) -> list[tuple[bytes, Address]]:
        quic = self._quic
        if self._closing:
            return [] if quic.terminated else self._count(self._closing.due())
        if not quic.has_path:
            return []
        searches = self.counts.bytes_sent >= WORTH_A_SEARCH
        out: list[tuple[bytes, Address]] = quic.path_probe(now) if searches else []
        if quic.rest(now):
            return self._count(out)
        out += quic.datagrams_to_send(now)
        if self._lost is None:
            self._incoming.inputs += self._progress.inputs()
            self._collect(now)
        elif not self._lost.by_peer and out:
            self._closing.keep(out)
        return self._count(out)

    def fire(self, now: float) -> None:
        quic = self._quic
        if self._handshake_until is not None and now >= self._handshake_until:
            self._handshake_until = None
            if not self._ready and self._lost is None:
                quic.give_up_handshake()
        if self._ping_at is not None and now >= self._ping_at:
            self._ping_at = now + quic.idle_limit / 3
            self.probe()
        due = quic.get_timer() if quic.has_path else None
        if due is not None and now >= due:
            quic.handle_timer(now)
        self._collect(now)

    def too_large(self, size: int, now: float) -> None:
        if self._ready and self._lost is None:
            self._quic.too_large(size, now)
            self._note_size()

    def probe(self) -> bool:
        if self._lost is None:
            self._pings += 1
            self._quic.send_ping(self._pings)
        return True

    def close(self, code: int, reason: str, origin: CloseOrigin = CloseOrigin.APPLICATION) -> None:
        if self._lost is None:
            text = reason.encode()[:LONGEST_REASON].decode(errors="ignore")
            # aioquic takes a code for one of QUIC where a frame is named that brought it about.
            frame = QuicFrameType.PADDING if origin is CloseOrigin.TRANSPORT else None
            self._quic.close(code, frame, text)
            self._lose(LinkLost(code, text, by_peer=False, origin=origin))

    def hold_back(self, on: bool) -> None:
        self._incoming.held_back = on
        if not self._freed:
            self._quic.hold_back(on)

    def abandon(self, reason: str) -> None:
        if self._lost is None:
            self._lose(LinkLost(0, reason, by_peer=False, origin=CloseOrigin.ABANDONED))

    def routes(self) -> tuple[list[bytes], list[bytes]]:
        incoming = self._incoming
        issued, retired = incoming.issued, incoming.retired
        if issued or retired:
            incoming.issued, incoming.retired = [], []
        return issued, retired

    def free(self) -> None:
        if not self._freed:
            self._fingerprint = self.peer_fingerprint
            self._freed = True
            self._quic.free()

    def _collect(self, now: float) -> None:
        """Turn what aioquic has learnt into inputs."""
        quic, incoming = self._quic, self._incoming
        incoming.collect(self._complete, now)
        if self._ready and self._lost is None:
            quic.follow_path(now)
            self._note_size()
            incoming.inputs += self._hints.inputs()
            for token, delivered in quic.datagram_outcomes():
                outcome = DatagramFate.ACKED if delivered else DatagramFate.LOST
                incoming.inputs.append(DatagramOutcome(token, outcome))
        ending = quic.ending
        if ending is not None and self._lost is None:
            self._end(ending)

    def _complete(self, event: events.HandshakeCompleted, now: float) -> None:
        self._handshake_until = None
        alpn, accepted = event.alpn_protocol, event.early_data_accepted
        if alpn is None or alpn not in self._protocols:
            self._alert = NO_APPLICATION_PROTOCOL
            self._quic.close(
                error_code=CRYPTO_ERROR + NO_APPLICATION_PROTOCOL,
                frame_type=0,
                reason_phrase=f"the peer negotiated {alpn!r}, not {', '.join(self._protocols)}",
            )
            return
        self._alpn = alpn
        settings = self._settings = self._protocols[alpn]
        self._quic.keeps_outcomes = settings.datagram_outcomes
        self._progress.of_streams = settings.stream_progress
        inputs = self._incoming.inputs
        if self._early:
            self._early_accepted = accepted
            if not accepted:
                inputs.append(EarlyRejected(self._quic.streams_repeated))
        elif accepted:
            self._early_accepted = True
        self._ready = self._incoming.ready = True
        self._ping_at = now + self._quic.idle_limit / 3
        self._max_datagram = self._datagram_room
        # A client learns before it what became of early data, a server behind it what came early.
        at = len(inputs) if self._early else 0
        ready = LinkReady(self._max_datagram, settings.datagram_outcomes, settings.stream_progress)
        inputs.insert(at, ready)

    @property
    def _datagram_room(self) -> int:
        """Payload of the largest DATAGRAM frame that fits a packet now, and that the peer takes."""
        frame = self._quic.peer_datagram_frame_size
        # The peer's limit covers type and length of the frame (RFC 9221 §3).
        return max(0, min(self._quic.datagram_size - DATAGRAM_OVERHEAD, frame - 5))

    def _note_size(self) -> None:
        """Have the engine learn of another size of datagrams, and take back what is too large."""
        room = self._datagram_room
        if room == self._max_datagram:
            return
        self._max_datagram = room
        inputs = self._incoming.inputs
        inputs.append(DatagramLimit(room))
        for token in self._quic.drop_datagrams(room):
            self.counts.datagram_frames_refused += 1
            inputs.append(DatagramOutcome(token, DatagramFate.REFUSED))

    def _end(self, ending: events.ConnectionTerminated) -> None:
        code, reason, origin = int(ending.error_code), ending.reason_phrase, self._quic.origin
        if origin is CloseOrigin.TRANSPORT:
            if CRYPTO_ERROR <= code <= CRYPTO_ERROR + 0xFF:
                self._alert = code - CRYPTO_ERROR
                if not self._quic.ended_by_peer and self._alert in (
                    BAD_CERTIFICATE,
                    CERTIFICATE_EXPIRED,
                ):
                    self._certificate_fault = certificate_fault(self._quic.tls)
        elif origin is not CloseOrigin.APPLICATION:
            code, reason = 0, origin.value
        self._lose(LinkLost(code, reason, self._quic.ended_by_peer, origin))

    def _lose(self, lost: LinkLost) -> None:
        if not (self._ready or self._early):
            # What was held for the end of the handshake proves nothing without it (AQ-0RTT-3).
            self._incoming.inputs.clear()
        self._lost = lost
        self._handshake_until = self._ping_at = None
        self._incoming.inputs.append(lost)

    def _count(self, out: list[tuple[bytes, Address]]) -> list[tuple[bytes, Address]]:
        self.counts.datagrams_sent += len(out)
        self.counts.bytes_sent += sum(len(data) for data, _ in out)
        return out


class _ClosingPackets:
    """Packets that say that the connection is closed, once there are any; sent again to a peer that
    still sends, ever more rarely (RFC 9000 §10.2.1)."""

    __slots__ = ("_answers", "_packets", "_received")

    def __init__(self) -> None:
        self._packets: list[tuple[bytes, Address]] = []
        self._received = 0
        self._answers = 0

    def __bool__(self) -> bool:
        return bool(self._packets)

    def keep(self, packets: list[tuple[bytes, Address]]) -> None:
        self._packets = packets

    def received(self, datagrams: int) -> None:
        """So many more came from the peer."""
        self._received += datagrams

    def due(self) -> list[tuple[bytes, Address]]:
        """The packets, if they are to be sent once more."""
        received, self._received = self._received, 0
        if not received:
            return []
        self._answers += 1
        return [] if self._answers & (self._answers - 1) else self._packets

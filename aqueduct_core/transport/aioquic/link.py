"""A link on aioquic: inputs out of its events, actions into its calls."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence

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
    Datagram,
    DatagramOutcome,
    EarlyReady,
    EarlyRejected,
    Input,
    LinkLost,
    LinkReady,
    Outcome,
    StreamBytes,
    StreamReset,
    StreamStopped,
)
from aqueduct_core.transport.aioquic.closing_packets import Farewell
from aqueduct_core.transport.aioquic.footprint import STREAM_BYTES, footprint
from aqueduct_core.transport.aioquic.hints import Hints
from aqueduct_core.transport.aioquic.resets import ResettableConnection
from aqueduct_core.transport.link import Address, LinkCounts
from aqueduct_core.transport.sessions import TlsSession
from aqueduct_core.transport.settings import LinkSettings
from aqueduct_core.transport.tls.credentials import fingerprint

NO_APPLICATION_PROTOCOL = 120
LONGEST_REASON = 256
"""Bytes of a close reason that are sent: a CONNECTION_CLOSE must fit one packet."""
DATAGRAM_OVERHEAD = 1 + 20 + 2 + 16 + 1 + 4
"""Short header with the longest connection id, packet number, AEAD tag, frame type and length.
The longest id is assumed because a peer may change to it while datagrams are queued, and aioquic
never sends one that does not fit, nor any behind it."""
EARLY_DATAGRAMS = 256
"""Datagrams of a client that a server holds until the handshake is complete; more are dropped,
which is what may become of any datagram. Bytes of streams are bounded by the windows."""
STOPPED_BYTES = 96

_logger = logging.getLogger(__name__)


class AioquicLink:
    """One QUIC connection on aioquic; see ``port.Link`` for the contract.

    Ends when either side closes, the handshake fails or takes longer than its timeout, or nothing
    is heard for the idle timeout. ``session`` is what a client resumes.
    """

    def __init__(
        self,
        connection: ResettableConnection,
        settings: LinkSettings,
        session: TlsSession | None = None,
    ) -> None:
        self.counts = LinkCounts()
        self._quic = connection
        connection.keeps_outcomes = settings.datagram_outcomes
        self._settings = settings
        self._session = session
        self._early = False
        self._early_accepted: bool | None = None
        self._early_datagrams = 0
        self._early_bytes = 0
        self._held_back = False
        self._inputs: list[Input] = []
        self._hints = Hints(connection)
        self._left: int | None = None
        self._lost: LinkLost | None = None
        self._ready = False
        self._admitted = False
        self._alert: int | None = None
        self._issued: list[bytes] = []
        self._retired: list[bytes] = []
        self._stopped: set[int] = set()
        self._max_datagram = 0
        self._handshake_until: float | None = None
        self._ping_at: float | None = None
        self._pings = 0
        self._farewell = Farewell()
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
    def unsent(self) -> int:
        return 0 if self._lost else self._quic.unacknowledged + self._quic.queued_datagrams

    @property
    def outgoing(self) -> int:
        return self.unsent + (0 if self._lost else STREAM_BYTES * self._quic.untaken)

    @property
    def footprint(self) -> int:
        if self._freed:
            return 0
        early = 0 if self._ready else self._early_bytes
        return footprint(self._quic) + early + STOPPED_BYTES * len(self._stopped)

    @property
    def backlogged(self) -> bool:
        return self._quic.datagrams_wait

    @property
    def round_trip(self) -> float | None:
        return None if self._freed else self._quic.round_trip

    @property
    def ready(self) -> bool:
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
            self._measure_datagrams()
            self._inputs += [EarlyReady(self._max_datagram), *self._hints.room()]

    def answers_to(self, *connection_ids: bytes) -> None:
        """What a server's link is found by before it has issued any id."""
        self._issued += connection_ids

    def receive(self, datagrams: Sequence[tuple[bytes, Address]], now: float) -> None:
        quic = self._quic
        if self._farewell:
            self._farewell.knock(len(datagrams))
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
        inputs, self._inputs = self._inputs, []
        return inputs

    def apply(self, actions: Iterable[Action], now: float) -> None:
        quic = self._quic
        for action in actions:
            if self._lost is not None:
                return
            match action:
                case WriteStream(stream_id, data, end):
                    if stream_id not in self._stopped:
                        quic.send_stream_data(stream_id, data, end)
                case Consumed(stream_id, count):
                    quic.consume(stream_id, count)
                case SendDatagram(data, token):
                    if len(data) > self._max_datagram:
                        self.counts.datagram_frames_refused += 1
                        self._inputs.append(DatagramOutcome(token, Outcome.REFUSED))
                    else:
                        quic.send_datagram(data, token)
                case ResetStream(stream_id, code):
                    quic.reset_stream(stream_id, code)
                case StopStream(stream_id, code):
                    self._stop(stream_id, code)
                case CloseLink(code, reason):
                    self.close(code, reason)
                case Admit():
                    self._admitted = True
                    quic.grant_streams(self._settings.max_streams_uni)

    def transmit(self, now: float) -> list[tuple[bytes, Address]]:
        quic = self._quic
        if self._farewell:
            return [] if quic.terminated else self._count(self._farewell.again())
        if not quic.has_path or quic.rest(now):
            return []
        out: list[tuple[bytes, Address]] = quic.datagrams_to_send(now)
        self._tell_left()
        if self._lost is not None and not self._lost.by_peer and out:
            self._farewell.keep(out)
        elif self._lost is None:
            self._collect(now)
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

    def probe(self) -> None:
        if self._lost is None:
            self._pings += 1
            self._quic.send_ping(self._pings)

    def close(self, code: int, reason: str) -> None:
        if self._lost is None:
            text = _cut(reason)
            self._quic.close(error_code=code, reason_phrase=text)
            self._lose(LinkLost(code, text, by_peer=False))

    def refuse(self, reason: str) -> None:
        if self._lost is None:
            text = _cut(reason)
            code = QuicErrorCode.CONNECTION_REFUSED
            self._quic.close(code, QuicFrameType.PADDING, text)
            self._lose(LinkLost(int(code), text, by_peer=False, origin=CloseOrigin.TRANSPORT))

    def hold_back(self, on: bool) -> None:
        self._held_back = on
        if not self._freed:
            self._quic.hold_back(on)

    def abandon(self, reason: str) -> None:
        if self._lost is None:
            self._lose(LinkLost(0, reason, by_peer=False, origin=CloseOrigin.ABANDONED))

    def routes(self) -> tuple[list[bytes], list[bytes]]:
        issued, retired = self._issued, self._retired
        if issued or retired:
            self._issued, self._retired = [], []
        return issued, retired

    def free(self) -> None:
        if not self._freed:
            self._fingerprint = self.peer_fingerprint
            self._freed = True
            self._quic.free()

    def _tell_left(self) -> None:
        left = self._quic.datagrams_left
        if left is not None and left != self._left:
            self._left = left
            self._inputs.append(DatagramOutcome(left, Outcome.LEFT))

    def _collect(self, now: float) -> None:
        """Turn the events of aioquic into inputs; join consecutive bytes of a stream."""
        quic = self._quic
        inputs = self._inputs
        chunks: list[bytes] = []
        current = -1
        end = False
        while (event := quic.next_event()) is not None:
            if isinstance(event, events.StreamDataReceived):
                if event.stream_id != current:
                    if current >= 0:
                        inputs.append(StreamBytes(current, b"".join(chunks), end))
                    if event.stream_id in self._stopped:
                        current = -1
                        self._discard(event)
                        continue
                    current = event.stream_id
                    chunks = []
                chunks.append(event.data)
                end = event.end_stream
                continue
            if isinstance(event, events.DatagramFrameReceived):
                # Datagrams have no order among the bytes of streams, so they break no run.
                if (self._ready and not self._held_back) or self._takes_datagram(event.data):
                    inputs.append(Datagram(event.data))
                continue
            if current >= 0:
                inputs.append(StreamBytes(current, b"".join(chunks), end))
                current = -1
            self._control(event, now)
        if current >= 0:
            inputs.append(StreamBytes(current, b"".join(chunks), end))
        if self._ready and self._lost is None:
            inputs += self._hints.inputs()
            for token, delivered in quic.datagram_outcomes():
                outcome = Outcome.ACKED if delivered else Outcome.LOST
                inputs.append(DatagramOutcome(token, outcome))
        ending = quic.ending
        if ending is not None and self._lost is None:
            self._end(ending)

    def _control(self, event: events.QuicEvent, now: float) -> None:
        match event:
            case events.StreamReset(error_code=code, stream_id=stream_id):
                self._stopped.discard(stream_id)
                self._inputs.append(StreamReset(stream_id, code))
            case events.StopSendingReceived(error_code=code, stream_id=stream_id):
                self._stopped.add(stream_id)
                self._inputs.append(StreamStopped(stream_id, code))
            case events.ConnectionIdIssued(connection_id=cid):
                self._issued.append(cid)
            case events.ConnectionIdRetired(connection_id=cid):
                self._retired.append(cid)
            case events.HandshakeCompleted(alpn_protocol=alpn, early_data_accepted=accepted):
                self._complete(alpn, accepted, now)

    def _takes_datagram(self, data: bytes) -> bool:
        if self._held_back:
            self.counts.datagrams_held_back += 1
            return False
        if self._early_datagrams >= EARLY_DATAGRAMS:
            self.counts.early_datagrams_dropped += 1
            return False
        self._early_datagrams += 1
        self._early_bytes += len(data)
        return True

    def _complete(self, alpn: str | None, accepted: bool, now: float) -> None:
        self._handshake_until = None
        if alpn != self._settings.alpn:
            self._alert = NO_APPLICATION_PROTOCOL
            self._quic.close(
                error_code=CRYPTO_ERROR + NO_APPLICATION_PROTOCOL,
                frame_type=0,
                reason_phrase=f"the peer negotiated {alpn!r}, not {self._settings.alpn!r}",
            )
            return
        if self._early:
            self._early_accepted = accepted
            if not accepted:
                self._inputs.append(EarlyRejected(self._quic.streams_repeated))
        elif accepted:
            self._early_accepted = True
        self._ready = True
        self._ping_at = now + self._quic.idle_limit / 3
        self._measure_datagrams()
        # A client learns before it what became of early data, a server behind it what came early.
        at = len(self._inputs) if self._early else 0
        outcomes = self._settings.datagram_outcomes
        self._inputs.insert(at, LinkReady(self._max_datagram, outcomes))

    def _measure_datagrams(self) -> None:
        frame = self._quic.peer_datagram_frame_size
        # The peer's limit covers type and length of the frame (RFC 9221 §3).
        room = self._settings.max_datagram_size - DATAGRAM_OVERHEAD
        self._max_datagram = max(0, min(room, frame - 5))

    def _discard(self, event: events.StreamDataReceived) -> None:
        """Bytes on a stream that we stopped: nobody waits for them, so their credit goes back."""
        self._quic.consume(event.stream_id, len(event.data))
        if event.end_stream:
            self._stopped.discard(event.stream_id)

    def _stop(self, stream_id: int, code: int) -> None:
        """Ask the peer to end a stream; what still arrives on it is dropped and credited."""
        try:
            self._quic.stop_stream(stream_id, code)
        except ValueError:
            return  # The stream has ended and is forgotten, so there is nothing to stop.
        self._stopped.add(stream_id)

    def _end(self, ending: events.ConnectionTerminated) -> None:
        code, reason, origin = int(ending.error_code), ending.reason_phrase, self._quic.origin
        if origin is CloseOrigin.TRANSPORT:
            if CRYPTO_ERROR <= code <= CRYPTO_ERROR + 0xFF:
                self._alert = code - CRYPTO_ERROR
        elif origin is not CloseOrigin.APPLICATION:
            code, reason = 0, origin.value
        self._lose(LinkLost(code, reason, self._quic.ended_by_peer, origin))

    def _lose(self, lost: LinkLost) -> None:
        if not (self._ready or self._early):
            # What was held for the end of the handshake proves nothing without it (AQ-0RTT-3).
            self._inputs.clear()
        self._lost = lost
        self._handshake_until = self._ping_at = None
        self._inputs.append(lost)

    def _count(self, out: list[tuple[bytes, Address]]) -> list[tuple[bytes, Address]]:
        self.counts.datagrams_sent += len(out)
        self.counts.bytes_sent += sum(len(data) for data, _ in out)
        return out


def _cut(reason: str) -> str:
    return reason.encode()[:LONGEST_REASON].decode(errors="ignore")

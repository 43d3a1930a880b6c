"""Sending runs of packets: the common case without aioquic's generality.

aioquic builds one packet at a time, ready for anything. Nearly all packets of an established
connection that sends hold STREAM frames, after an acknowledgement and new limits in the first one.
Those are built here: streams give their bytes in the order of service until a packet is full, a
run of packets is sealed together (header protection of all by one call of the cipher), and books
are kept once for the run. Packets of a run have one size, so that the socket hands it to the kernel
as a whole.

Whatever is not exactly that is left to ``QuicConnection``: other frames, other states of the
connection, a small window. The packets are those that it would build, but for
one thing: a packet with stream bytes is begun only where a whole datagram fits the congestion
window, for what is sent in scraps costs both ends as much as whole datagrams.
"""

from __future__ import annotations

from typing import Any

from aioquic.quic.configuration import QuicConfiguration
from aioquic.quic.connection import QuicConnectionState
from aioquic.quic.packet import PACKET_FIXED_BIT
from aioquic.quic.packet_builder import QuicPacketBuilderStop
from aioquic.quic.recovery import QuicPacketSpace
from aioquic.tls import Epoch

from aqueduct_core.transport.aioquic.check import fast_paths
from aqueduct_core.transport.aioquic.control_frames import ControlFrames
from aqueduct_core.transport.aioquic.protection import NUMBER_SIZE, overhead, seal
from aqueduct_core.transport.aioquic.sent_packets import RunRecovery, SentFrame, StreamPacket
from aqueduct_core.transport.aioquic.stream_frames import append_frame, cut, has_bytes
from aqueduct_core.transport.aioquic.stream_service import StreamConnection
from aqueduct_core.transport.settings import LinkSettings

RUN = 64
"""Packets sealed together at most: what one segmented write takes."""
LEAST_WINDOW = 4
"""Datagrams: with a smaller congestion window every byte of it counts."""
MOST_LIMITS = 16
"""Streams whose limits the first packet tells; where there are more, aioquic fills packets."""


class RunConnection(StreamConnection):
    """A ``StreamConnection`` that sends runs of packets.

    Where fast paths are off it is nothing but that.
    """

    def __init__(
        self,
        *,
        configuration: QuicConfiguration,
        settings: LinkSettings,
        most_streams: int | None = None,
        **start: Any,
    ) -> None:
        super().__init__(
            configuration=configuration, settings=settings, most_streams=most_streams, **start
        )
        self._recovery: RunRecovery | None = None
        if fast_paths():
            self._recovery = self._loss = RunRecovery(
                congestion_control_algorithm=configuration.congestion_control_algorithm,
                initial_rtt=configuration.initial_rtt,
                logger=self._logger,
                max_datagram_size=self._max_datagram_size,
                peer_completed_address_validation=not self._is_client,
                quic_logger=self._quic_logger,
                send_probe=self._send_probe,
            )

    def datagrams_to_send(self, now: float) -> list[tuple[bytes, Any]]:
        recovery = self._recovery
        if recovery is not None:
            recovery.begin_anew(now)
        if recovery is None or not self._sends_plainly(recovery):
            return super().datagrams_to_send(now)
        self._discard_ended()
        self._pacing_at = None
        out: list[tuple[bytes, Any]] = []
        while self._send_run(recovery, out, now):
            pass
        return out

    def _send_run(self, recovery: RunRecovery, out: list[tuple[bytes, Any]], now: float) -> bool:
        """Append the datagrams of a run to ``out``; whether there may be another one."""
        space = self._spaces[Epoch.ONE_RTT]
        size = self._max_datagram_size
        allowed = recovery.pacer.allowance(now, RUN)
        if space.ack_at is not None and space.ack_at < now:
            allowed = max(1, allowed)  # An acknowledgement is not paced.
        fitting = max(0, recovery.congestion_window - recovery.bytes_in_flight) // size
        if not allowed:
            if fitting and (len(self._order) or self._due or self._limits_due):
                self._pacing_at = recovery.pacer.next_send_time(now)
            return False
        peer_id = self._peer_cid.cid
        room = size - overhead(peer_id)
        control = self._control_frames(space, room, room if fitting else 0, now)
        payloads: list[bytes] = []
        frames: list[list[SentFrame]] = []
        most = min(allowed, fitting)
        if control is not None and not most:
            payloads.append(control.data)
            frames.append([])
        else:
            self._fill(most, room, b"" if control is None else control.data, payloads, frames)
        if not payloads:
            return False
        keys = self._cryptos[Epoch.ONE_RTT].send
        first_byte = PACKET_FIXED_BIT | self._spin_bit << 5 | keys.key_phase << 2 | NUMBER_SIZE - 1
        datagrams = seal(payloads, self._packet_number, keys, first_byte, peer_id)
        # aioquic takes no packet as paced in which a frame of control found no room.
        recovery.pacer.spend(len(datagrams) - (control is not None and control.overflown))
        self._note_sent(recovery, space, control, datagrams, frames, now)
        address = self._network_paths[0].addr
        out += [(data, address) for data in datagrams]
        return len(datagrams) == most

    def _control_frames(
        self, space: QuicPacketSpace, room: int, flight: int, now: float
    ) -> ControlFrames | None:
        """An acknowledgement and limits that are due, at the front of a packet."""
        acknowledges = space.ack_at is not None and space.ack_at <= now
        if not acknowledges and not self._due and not self._limits_due:
            return None
        control = ControlFrames(room, flight, self._packet_number)
        builder: Any = control
        try:
            if acknowledges:
                self._write_ack_frame(builder, space, now)
            self._write_connection_limits(builder, space)
            for stream in self._table.values():
                self._write_stream_limits(builder, space, stream)
        except QuicPacketBuilderStop:
            control.overflown = True  # What is left goes with the next run.
        return control if control.data else None

    def _fill(
        self,
        most: int,
        room: int,
        control: bytes,
        payloads: list[bytes],
        frames: list[list[SentFrame]],
    ) -> None:
        """Append up to ``most`` payloads of at most ``room`` bytes with frames of streams, the
        first one behind ``control``, and what is in them of streams."""
        order = self._order
        parts: list[bytes | bytearray] = [control] if control else []
        left = room - len(control)
        while len(payloads) < most:
            before = len(payloads)
            held: list[SentFrame] = []
            order.replaced()
            while (stream := order.take(left)) is not None:
                credit = self._remote_max_data - self._remote_max_data_used
                if order.alone and not parts and has_bytes(stream):
                    used = cut(stream, room, most - before, credit, payloads, frames)
                    self._remote_max_data_used += used
                    break
                taken, used = append_frame(stream, left, credit, parts, held)
                self._remote_max_data_used += used
                left -= taken
            if parts:
                payloads.append(b"".join(parts))
                frames.append(held)
                parts, left = [], room
            if len(payloads) == before:
                break
        order.settle()

    def _note_sent(
        self,
        recovery: RunRecovery,
        space: QuicPacketSpace,
        control: ControlFrames | None,
        datagrams: list[bytes],
        frames: list[list[SentFrame]],
        now: float,
    ) -> None:
        """Keep the books of a run, as aioquic does for each packet."""
        number = self._packet_number
        self._packet_number += len(datagrams)
        packets = [
            StreamPacket(number + at, now, len(data), held)
            for at, (data, held) in enumerate(zip(datagrams, frames, strict=True))
        ]
        size = sum(map(len, datagrams))
        self._network_paths[0].bytes_sent += size
        eliciting = True
        if control is not None:
            first = control.packet(packets.pop(0))
            size -= first.sent_bytes
            recovery.on_packet_sent(packet=first, space=space)
            self._forget_answers()
            eliciting = first.is_ack_eliciting or bool(packets)
        if packets:
            recovery.on_run_sent(packets, size, space)
        if eliciting and not self._ack_eliciting_sent_since_receipt:
            self._close_at = now + self._idle_timeout()
            self._ack_eliciting_sent_since_receipt = True

    def _sends_plainly(self, recovery: RunRecovery) -> bool:
        """Established, on its one path, with keys of AES, and nothing is to be sent but bytes of
        streams, limits and acknowledgements."""
        if (
            not self._handshake_confirmed
            or self._state is not QuicConnectionState.CONNECTED
            or self._close_pending
            or self._quic_logger is not None
            or self._datagrams_pending
            or self._ping_pending
            or self._probe_pending
            or self._handshake_done_pending
            or self._retire_connection_ids
            or self._streams_blocked_pending
            or self._remote_preferred_address is not None
            or self._order.controls
            or len(self._due) > MOST_LIMITS
            or len(self._network_paths) != 1
        ):
            return False
        path = self._network_paths[0]
        keys = self._cryptos[Epoch.ONE_RTT]
        window = recovery.congestion_window
        size = self._max_datagram_size
        return (
            path.is_validated
            and not path.remote_challenges
            and keys.send.hp is not None
            and not keys.send.hp._is_chacha20
            and window >= LEAST_WINDOW * size
            and self._crypto_streams[Epoch.ONE_RTT].sender.buffer_is_empty
            and all(identifier.was_sent for identifier in self._host_cids)
        )

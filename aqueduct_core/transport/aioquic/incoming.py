"""Inputs out of the events of aioquic: what a peer has sent, and what is held of it for a while."""

from __future__ import annotations

from collections.abc import Callable

from aioquic.quic import events

from aqueduct_core.engine.inputs import (
    Datagram,
    Input,
    StreamBytes,
    StreamReset,
    StreamStopped,
)
from aqueduct_core.engine.streams import is_client
from aqueduct_core.transport.aioquic.resets import ResettableConnection
from aqueduct_core.transport.link import LinkCounts

EARLY_DATAGRAMS = 256
"""Datagrams of a client that a server holds until the handshake is complete; more are dropped,
which is what may become of any datagram. Bytes of streams are bounded by the windows."""
STOPPED_BYTES = 96

OnCompleted = Callable[[events.HandshakeCompleted, float], None]


class Incoming:
    """What has arrived on one connection and was not taken yet, as ``inputs``.

    ``ready``: the handshake is complete. ``held_back``: datagrams are dropped. Both for the link to
    set. ``issued`` and ``retired`` are the connection ids that the connection began and ceased to
    answer to.
    """

    def __init__(self, quic: ResettableConnection, counts: LinkCounts) -> None:
        self.inputs: list[Input] = []
        self.issued: list[bytes] = []
        self.retired: list[bytes] = []
        self.ready = False
        self.held_back = False
        self._quic = quic
        self._counts = counts
        self._is_client = quic.configuration.is_client
        self._stopped: set[int] = set()  # of which we want no more
        self._unwanted: set[int] = set()  # of ours, of which the peer wants no more
        self._early_datagrams = 0
        self._early_bytes = 0

    @property
    def footprint(self) -> int:
        stopped = STOPPED_BYTES * (len(self._stopped) + len(self._unwanted))
        return stopped if self.ready else stopped + self._early_bytes

    def wanted(self, stream_id: int) -> bool:
        """Whether the peer has not asked to end what we send on a stream of ours."""
        return stream_id not in self._unwanted

    def stop(self, stream_id: int, code: int) -> None:
        """Ask the peer to end a stream; what still arrives on it is dropped and credited."""
        try:
            self._quic.stop_stream(stream_id, code)
        except ValueError:
            return  # It has ended, so there is nothing to stop.
        self._stopped.add(stream_id)

    def collect(self, completed: OnCompleted, now: float) -> None:
        """Turn the events that there are into inputs; join consecutive bytes of a stream.

        ``completed`` is called at the end of the handshake, in its place among the inputs.
        """
        quic = self._quic
        inputs = self.inputs
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
                if (self.ready and not self.held_back) or self._takes_datagram(event.data):
                    inputs.append(Datagram(event.data))
                continue
            if current >= 0:
                inputs.append(StreamBytes(current, b"".join(chunks), end))
                current = -1
            if isinstance(event, events.HandshakeCompleted):
                completed(event, now)
            else:
                self._control(event)
        if current >= 0:
            inputs.append(StreamBytes(current, b"".join(chunks), end))

    def _control(self, event: events.QuicEvent) -> None:
        match event:
            case events.StreamReset(error_code=code, stream_id=stream_id):
                self._stopped.discard(stream_id)
                self.inputs.append(StreamReset(stream_id, code))
            case events.StopSendingReceived(error_code=code, stream_id=stream_id):
                if is_client(stream_id) == self._is_client:
                    # What our engine has written before it knows is dropped. Of streams of the
                    # peer the connection itself knows it, or they could grow to any number.
                    self._unwanted.add(stream_id)
                self.inputs.append(StreamStopped(stream_id, code))
            case events.ConnectionIdIssued(connection_id=cid):
                self.issued.append(cid)
            case events.ConnectionIdRetired(connection_id=cid):
                self.retired.append(cid)

    def _takes_datagram(self, data: bytes) -> bool:
        if self.held_back:
            self._counts.datagrams_held_back += 1
            return False
        if self._early_datagrams >= EARLY_DATAGRAMS:
            self._counts.early_datagrams_dropped += 1
            return False
        self._early_datagrams += 1
        self._early_bytes += len(data)
        return True

    def _discard(self, event: events.StreamDataReceived) -> None:
        """Bytes on a stream that we stopped: nobody waits for them, so their credit goes back."""
        self._quic.consume(event.stream_id, len(event.data))
        if event.end_stream:
            self._stopped.discard(event.stream_id)

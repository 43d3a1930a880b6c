"""What aioquic's connection knows of itself and its peer, under public names."""

from __future__ import annotations

from aioquic.quic.connection import QuicConnection, QuicConnectionState
from aioquic.quic.events import ConnectionTerminated
from cryptography import x509


class ObservedConnection(QuicConnection):
    """A ``QuicConnection`` that can be asked, and freed at its end; nothing else changes it."""

    def free(self) -> None:
        """Let go of all that a connection holds but that it is at its end.

        It and its parts hold each other in cycles of hundreds of objects, which the collector of
        the process would find minutes later, with all that they received and had to send.
        """
        vars(self).clear()
        self._close_event = None
        self._network_paths = []
        self._state = QuicConnectionState.TERMINATED

    @property
    def ending(self) -> ConnectionTerminated | None:
        """Why the connection ends, as soon as that is decided."""
        return self._close_event

    @property
    def ended_by_peer(self) -> bool:
        return self._state is QuicConnectionState.DRAINING

    @property
    def terminated(self) -> bool:
        return self._state is QuicConnectionState.TERMINATED

    @property
    def has_path(self) -> bool:
        """There is an address to send to (a server learns it from the first Initial)."""
        return bool(self._network_paths)

    @property
    def idle_limit(self) -> float:
        """The idle timeout that both ends keep to, in seconds."""
        local = self._configuration.idle_timeout
        remote = self._remote_max_idle_timeout
        return local if not remote else min(local, remote)

    @property
    def peer_stream_limits(self) -> tuple[int, int]:
        """Streams that the peer lets us open in all: unidirectional ones, and bidirectional."""
        return self._remote_max_streams_uni, self._remote_max_streams_bidi

    @property
    def round_trip(self) -> float | None:
        """Smoothed round-trip time in seconds; None before the first sample."""
        return self._loss._rtt_smoothed if self._loss._rtt_initialized else None

    @property
    def loss_at(self) -> float | None:
        """When what was not acknowledged is taken for lost, as of the last ``get_timer``."""
        return self._loss_at

    @property
    def bytes_per_round_trip(self) -> int:
        """What may be on its way at once: about what the path carries in a round trip."""
        return self._loss.congestion_window

    @property
    def peer_datagram_frame_size(self) -> int:
        """The largest DATAGRAM frame that the peer takes; 0: none."""
        return self._remote_max_datagram_frame_size or 0

    @property
    def peer_certificate(self) -> x509.Certificate | None:
        tls = getattr(self, "tls", None)
        return None if tls is None else tls._peer_certificate

"""Changing the keys of packets before they are worn out (RFC 9001 section 6).

AES-GCM is safe for so many packets under one key, and no more. So one end of a connection that
sends much changes its keys, and the other one follows. aioquic does that when it is told to, but
nobody tells it, and it changes the keys of both directions at once: what the other end has under
way is lost then, acknowledgements too. Here

* an end begins when it has sealed many packets with one key, never amidst what it sends, and when
  the peer has followed to these keys and acknowledged a packet sealed with them;
* it opens what the peer seals with the keys that it has, until the peer follows;
* what is late and sealed with the keys before is opened for some time;
* the next keys are made once, however many packets claim to be sealed with them.

What is sealed is counted by packet numbers, which costs nothing for a packet.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from aioquic._crypto import AEAD, CryptoError
from aioquic.quic.configuration import QuicConfiguration
from aioquic.quic.crypto import (
    CryptoContext,
    CryptoPair,
    KeyUnavailableError,
    apply_key_phase,
    next_key_phase,
)
from aioquic.quic.packet import QuicErrorCode, QuicFrameType, decode_packet_number
from aioquic.tls import Epoch

from aqueduct_core.transport.aioquic.receive import BurstConnection
from aqueduct_core.transport.settings import LinkSettings

PROBE_TIMEOUTS = 3
"""For so long the keys before are kept and no other change is begun (RFC 9001 section 6.5)."""


class PhasedKeys(CryptoPair):
    """The keys of 1-RTT packets, with a phase for each direction.

    Args:
        pair: has, or will have, those of the handshake; what it holds is used here alone from now.
    """

    def __init__(self, pair: CryptoPair) -> None:
        super().__init__()
        self.recv, self.send = pair.recv, pair.send
        self.opens = 0
        """How often the keys have changed that open packets."""
        self.seals = 0
        """The same of those that seal them: as often, or once more while the peer is to follow."""
        self.failures = 0
        """Packets that the right keys did not open."""
        self.before: AEAD | None = None
        """What opens late packets of the phase before."""
        self._number = 0  # of a packet of this phase: those of the phase before have lower ones
        self._next: CryptoContext | None = None

    @property
    def key_phase(self) -> int:
        """The bit in the headers of packets that are sealed."""
        return self.send.key_phase

    def update_key(self) -> None:
        """Seal with new keys, unless the peer is still to follow to those in use."""
        if self.seals == self.opens:
            self._renew_seal("local_update")

    def decrypt_packet(
        self, packet: bytes, encrypted_offset: int, expected_packet_number: int
    ) -> tuple[bytes, bytes, int]:
        recv = self.recv
        if recv.aead is None or recv.hp is None:
            raise KeyUnavailableError("Decryption key is not available")
        header, truncated = recv.hp.remove(packet, encrypted_offset)
        bits = 8 * ((header[0] & 0x03) + 1)
        number = decode_packet_number(truncated, bits, expected_packet_number)
        aead: AEAD | None = recv.aead
        anew = False
        if header[0] >> 2 & 1 != recv.key_phase:
            anew = number > self._number
            aead = self._following().aead if anew else self.before
        if aead is None:
            raise KeyUnavailableError("Decryption key is not available any more")
        try:
            payload = aead.decrypt(packet[len(header) :], header, number)
        except CryptoError:
            self.failures += 1
            raise
        if anew:
            self._update_key("remote_update")
            self._number = number
        return header, payload, number

    def _update_key(self, trigger: str) -> None:
        """The peer has changed its keys: so do those that open what it seals, and ours follow."""
        self.before = self.recv.aead
        apply_key_phase(self.recv, self._following(), trigger)
        self._next = None
        self.opens += 1
        if self.seals < self.opens:
            self._renew_seal(trigger)

    def _renew_seal(self, trigger: str) -> None:
        apply_key_phase(self.send, next_key_phase(self.send), trigger)
        self.seals += 1

    def _following(self) -> CryptoContext:
        if self._next is None:
            self._next = next_key_phase(self.recv)
        return self._next


class RekeyingConnection(BurstConnection):
    """A ``BurstConnection`` that changes its keys within the ``KeyLimits`` of its settings, and is
    closed where it cannot."""

    def __init__(
        self,
        *,
        configuration: QuicConfiguration,
        settings: LinkSettings,
        most_streams: int | None = None,
        **start: Any,
    ) -> None:
        self._opens = self._seals = 0  # phases as of the turn before
        self._sealed_from = 0  # packet number
        self._followed_at = -1  # the same
        self._kept_until = 0.0
        super().__init__(
            configuration=configuration, settings=settings, most_streams=most_streams, **start
        )

    def offer(self, settings: LinkSettings, most_streams: int | None) -> None:
        super().offer(settings, most_streams)
        self._key_limits = settings.key_limits

    def _initialize(self, peer_cid: bytes) -> None:
        super()._initialize(peer_cid)
        self._keys = PhasedKeys(self._cryptos[Epoch.ONE_RTT])
        self._cryptos[Epoch.ONE_RTT] = self._keys

    def receive_burst(self, datagrams: Sequence[tuple[bytes, Any]], now: float) -> None:
        super().receive_burst(datagrams, now)
        if self._cryptos:
            self._tend_keys(now)

    def _tend_keys(self, now: float) -> None:
        """Something came: what allows another change, an acknowledgement, comes no other way, and
        without any the congestion window ends what is sealed."""
        keys, limits = self._keys, self._key_limits
        if keys.opens != self._opens:
            self._followed(now)
        elif keys.before is not None and now >= self._kept_until:
            keys.before = None
        if keys.seals != self._seals:
            self._seals, self._sealed_from = keys.seals, self._packet_number
        sealed = self._packet_number - self._sealed_from
        if sealed >= limits.change_after:
            if (
                self._handshake_confirmed
                and keys.opens == keys.seals
                and keys.before is None
                and self._spaces[Epoch.ONE_RTT].largest_acked_packet >= self._sealed_from
            ):
                keys.update_key()
                self._seals, self._sealed_from = keys.seals, self._packet_number
            elif sealed >= limits.sealed:
                self._give_up(QuicErrorCode.AEAD_LIMIT_REACHED, f"{sealed} packets with one key")
        if keys.failures >= limits.failures:
            self._give_up(
                QuicErrorCode.AEAD_LIMIT_REACHED, f"{keys.failures} packets that no key opens"
            )

    def _followed(self, now: float) -> None:
        """The keys have changed that open packets."""
        number = self._packet_number
        if self._keys.opens > self._opens + 1 or number == self._followed_at:
            # Nothing has left since the change before, so it was not acknowledged (RFC 9001
            # section 6.2).
            self._give_up(QuicErrorCode.KEY_UPDATE_ERROR, "keys changed before an acknowledgement")
        self._opens = self._keys.opens
        self._followed_at = number
        self._kept_until = now + PROBE_TIMEOUTS * self._loss.get_probe_timeout()

    def _give_up(self, code: QuicErrorCode, reason: str) -> None:
        self.close(code, QuicFrameType.PADDING, reason)

"""Sealing a run of 1-RTT packets: payloads in, datagrams out (RFC 9001 sections 5.3 and 5.4).

aioquic protects one packet after another. The mask of a header is the sample of its packet through
one block of AES, so those of many packets come out of one call of the cipher.
"""

from __future__ import annotations

from collections.abc import Sequence

from aioquic.quic.crypto import CryptoContext

NUMBER_SIZE = 2
"""Bytes of a packet number as aioquic writes it: enough for 32,768 packets on their way."""
TAG_SIZE = 16
"""Bytes by which sealing makes a payload longer."""
NONCE_SIZE = 12
SAMPLE = slice(4 - NUMBER_SIZE, 4 - NUMBER_SIZE + 16)
"""Of the sealed payload (RFC 9001 section 5.4.2)."""
MASK_SIZE = 16
"""A block of AES; five bytes of it would do."""
HEADER_MASK = 0x1F_FFFF
"""What is masked of first byte and packet number: the first byte's low five bits."""


def overhead(peer_id: bytes) -> int:
    """Bytes of a datagram beside the payload of its packet."""
    return 1 + len(peer_id) + NUMBER_SIZE + TAG_SIZE


def seal(
    payloads: Sequence[bytes], number: int, keys: CryptoContext, first_byte: int, peer_id: bytes
) -> list[bytes]:
    """Datagrams of one packet each, numbered from ``number``.

    ``first_byte`` is that of all headers, unprotected. Each payload has two bytes at least, or
    there would be too few for a sample. The keys are of AES: ChaCha20 (RFC 9001 section 5.4.4)
    makes a mask from a counter and a nonce of each sample, which is no run.
    """
    assert keys.aead is not None
    assert keys.hp is not None
    encrypt, iv = keys.aead._aead.encrypt, keys.aead._iv
    begin = bytes([first_byte]) + peer_id
    sealed = [
        encrypt(
            (iv ^ each).to_bytes(NONCE_SIZE),
            payload,
            begin + (each & 0xFFFF).to_bytes(NUMBER_SIZE),
        )
        for each, payload in enumerate(payloads, number)
    ]
    masks = keys.hp._encryptor.update(b"".join([each[SAMPLE] for each in sealed]))
    fixed = first_byte << 16
    datagrams = []
    at = 0
    for each, body in enumerate(sealed, number):
        mask = int.from_bytes(masks[at : at + 3]) & HEADER_MASK
        header = (mask ^ (fixed | each & 0xFFFF)).to_bytes(3)
        datagrams.append(b"".join((header[:1], peer_id, header[1:], body)))
        at += MASK_SIZE
    return datagrams

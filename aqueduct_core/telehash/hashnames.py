"""Who is who, and which side opens channels of odd numbers (P3)."""

from __future__ import annotations

import re

_DIGITS = 64
"""Hexadecimal, of a SHA-256."""


def hashname_of(fingerprint: str) -> str:
    """A hashname in its one form: 64 small hexadecimal digits. Of the SHA-256 of a certificate, or
    of what somebody was told, with or without colons.

    Raises:
        ValueError: it is no SHA-256.
    """
    name = fingerprint.replace(":", "").lower()
    if not re.fullmatch(f"[0-9a-f]{{{_DIGITS}}}", name):
        raise ValueError(f"{fingerprint!r} is no hashname: {_DIGITS} hexadecimal digits are")
    return name


def dials_odd(own: str | None, peer: str | None, *, dialled: bool) -> bool:
    """Whether this side opens channels 1, 3, 5 …: that of the higher hashname (P3).

    Both sides have to come to opposite answers: where one of the names is not known to both (None),
    or they are the same, the side that dialled is odd.

    Args:
        own, peer: hashnames, as `hashname_of` gives them. ``own`` is None where the peer cannot
            know it, as of a client that shows no certificate.
        dialled: this side has dialled.
    """
    if own is None or peer is None or own == peer:
        return dialled
    return own > peer

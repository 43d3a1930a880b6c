"""Numbers of streams: who opened one, and who may write it (RFC 9000 §2.1).

The two lowest bits tell: client 0, 4, 8 … and server 1, 5, 9 … are bidirectional; client 2, 6, 10 …
and server 3, 7, 11 … are written by who opened them alone.
"""

from __future__ import annotations

STEP = 4
"""From one stream to the next one of its kind."""


def first_stream(*, client: bool, bidirectional: bool) -> int:
    """The number of the first stream of a kind."""
    return (0 if client else 1) + (0 if bidirectional else 2)


def is_bidirectional(stream_id: int) -> bool:
    return not stream_id & 2


def is_client(stream_id: int) -> bool:
    """Whether the client opened it, or would."""
    return not stream_id & 1

"""Fragments in datagrams: a header, then data to the end of the frame (Q10, Q31).

The header is datagram_stream_id, group, object, offset, queue_delay, flags, and, with the first
bytes of a group, how many objects the group before has (Q13).
"""

from __future__ import annotations

from aqueduct_core.primitives.varint import NeedMore
from aqueduct_core.quicr.faults import ProtocolFault
from aqueduct_core.quicr.media.fragment import Fragment
from aqueduct_core.quicr.media.position import MAX_ID
from aqueduct_core.quicr.wire import varints

_UNKNOWN = varints.VALUE_LIMIT - 1
"""How many objects a group has, to who does not know, as the prototype says it (K4)."""
LONGEST_DELAY = MAX_ID
"""Milliseconds, 12 days; what has waited for longer is said to have waited so long."""
HEADER_OVERHEAD = 4 + 4 + 4 + 4 + 4 + 1 + 8
"""Bytes of a header, at most: all numbers have four bytes but the last, which may be unknown."""


def encode_header(datagram_id: int, fragment: Fragment) -> bytes:
    """What goes before the data of a fragment; its sender keeps to the bounds."""
    group, object, offset, _, last, flags, queue_delay, previous = fragment
    number = varints.encode
    fields = (
        number(datagram_id),
        number(group),
        number(object),
        number(offset << 1 | last),
        number(min(queue_delay, LONGEST_DELAY)),
        flags.to_bytes(),
    )
    if object or offset:
        return b"".join(fields)
    if previous is None:
        previous = _UNKNOWN if group else 0
    return b"".join((*fields, number(previous)))


def decode(data: bytes) -> tuple[int, Fragment]:
    """The number of a transfer, and a fragment of its media.

    Raises:
        ProtocolFault: it is not allowed; the text says what came.
    """
    stop = len(data)
    number = varints.decode
    try:
        datagram_id, pos = number(data, 0, stop)
        group, pos = number(data, pos, stop)
        object, pos = number(data, pos, stop)
        value, pos = number(data, pos, stop)
        queue_delay, pos = number(data, pos, stop)
        flags, pos = data[pos], pos + 1
        previous = None
        if not object and value < 2:
            previous, pos = number(data, pos, stop)
            if previous > MAX_ID:
                previous = None
    except (NeedMore, IndexError):
        raise ProtocolFault(f"a datagram of {stop} bytes ends inside its header") from None
    if datagram_id > MAX_ID:
        raise ProtocolFault(
            f"a datagram has datagram_stream_id {datagram_id}: {MAX_ID} is the highest"
        )
    if group > MAX_ID or object > MAX_ID:
        raise ProtocolFault(f"a datagram of ({group}, {object}): groups and objects go to {MAX_ID}")
    if queue_delay > LONGEST_DELAY:
        queue_delay = LONGEST_DELAY
    last = value & 1 == 1
    return datagram_id, Fragment(
        group, object, value >> 1, data[pos:], last, flags, queue_delay, previous
    )

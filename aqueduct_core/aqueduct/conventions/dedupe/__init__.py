"""Once and not twice: the identity of rows that a sink sends, and a memory of what was seen.

    deduplicator = Deduplicator()
    async for message in receiver:
        key = channel_key(connection.headers, receiver.headers)
        number = message_number(receiver.headers, message.num, message.headers)
        if deduplicator.is_new(key, number):
            store(message)

It tells repeats by their numbers, and compares no contents. Its names are imported when they are
first used: who wants the bounds of `numbering` alone, as each driver does, needs no numpy.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from aqueduct_core.aqueduct.conventions.dedupe.deduplicator import Deduplicator
    from aqueduct_core.aqueduct.conventions.dedupe.identity import ChannelKey, channel_key
    from aqueduct_core.aqueduct.conventions.dedupe.source_rows import message_number

__all__ = ["ChannelKey", "Deduplicator", "channel_key", "message_number"]


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from aqueduct_core.aqueduct.conventions.dedupe import deduplicator, identity, source_rows

    known = vars(deduplicator) | vars(identity) | vars(source_rows)
    return known[name]

"""Once and not twice: the identity of rows that a sink sends, and a memory of what was seen.

    deduplicator = Deduplicator()
    async for message in receiver:
        key = channel_key(connection.headers, receiver.headers)
        number = message_number(receiver.headers, message.num, message.headers)
        if deduplicator.is_new(key, number):
            store(message)

It tells repeats by their numbers, and compares no contents.
"""

from aqueduct_core.aqueduct.conventions.dedupe.deduplicator import Deduplicator
from aqueduct_core.aqueduct.conventions.dedupe.identity import ChannelKey, channel_key
from aqueduct_core.aqueduct.conventions.dedupe.source_rows import message_number

__all__ = ["ChannelKey", "Deduplicator", "channel_key", "message_number"]

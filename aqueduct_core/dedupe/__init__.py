"""Once and not twice: the identity of rows that a sink sends, and a memory of what was seen.

deduplicator = Deduplicator()
async for message in receiver:
    key = channel_key(connection.headers, receiver.headers)
    if deduplicator.is_new(key, message.num):
        store(message)
"""

from aqueduct_core.dedupe.deduplicator import Deduplicator
from aqueduct_core.dedupe.identity import ChannelKey, channel_key

__all__ = ["ChannelKey", "Deduplicator", "channel_key"]

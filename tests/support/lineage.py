"""What a lineage knows of a channel."""

from __future__ import annotations

from aqueduct_core.aqueduct.lineage import Lineage


def is_pending(lineage: Lineage, channel: int) -> bool:
    """Whether the fate of the channel is open."""
    node = lineage._nodes.get(channel)
    return node is not None and not node.accessible

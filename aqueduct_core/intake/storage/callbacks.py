"""Who hears of a group when it is on the disk."""

from __future__ import annotations

from dataclasses import dataclass, field

from aqueduct_core.intake.storage.pending import GroupListener, Receipt


@dataclass(slots=True)
class GroupCallbacks:
    """Of a group, or several; ``size`` is the bytes of its messages and events, about."""

    receipts: list[tuple[GroupListener, Receipt]] = field(default_factory=list)
    recorded: list[tuple[GroupListener, int]] = field(default_factory=list)
    size: int = 0

    def tell(self) -> None:
        """It is on the disk: each party hears of its own part, messages first."""
        receipts: dict[GroupListener, list[Receipt]] = {}
        for party, receipt in self.receipts:
            receipts.setdefault(party, []).append(receipt)
        for party, mine in receipts.items():
            party.durable(mine)
        recorded: dict[GroupListener, list[int]] = {}
        for party, channel in self.recorded:
            recorded.setdefault(party, []).append(channel)
        for party, channels in recorded.items():
            party.recorded(channels)

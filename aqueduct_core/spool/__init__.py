"""The durable, replayable log between an intake and Spark.

Knows Arrow schemas and bytes, no protocol. Its names are imported when they are first used: a
planner and a task of a query need few of them, and neither the writer nor SQLite.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from aqueduct_core.spool.disk import Disk
    from aqueduct_core.spool.format.sequences import Sequences
    from aqueduct_core.spool.format.settings import (
        SPARSE,
        ContentSum,
        SequenceMark,
        SpoolSettings,
    )
    from aqueduct_core.spool.locations import (
        BATCH_BYTES,
        Location,
        are_here,
        coalesced,
        read_locations,
    )
    from aqueduct_core.spool.lock import holder
    from aqueduct_core.spool.losses import OffsetRange
    from aqueduct_core.spool.reader import SegmentCheck, SpoolReader
    from aqueduct_core.spool.skips import Skip, Stretch
    from aqueduct_core.spool.spool import Spool
    from aqueduct_core.spool.sync import InlineSync, Sync, SyncerProcess

_MODULES = {
    "disk": ("Disk",),
    "format.sequences": ("Sequences",),
    "format.settings": ("SPARSE", "ContentSum", "SequenceMark", "SpoolSettings"),
    "locations": ("BATCH_BYTES", "Location", "are_here", "coalesced", "read_locations"),
    "lock": ("holder",),
    "losses": ("OffsetRange",),
    "reader": ("SegmentCheck", "SpoolReader"),
    "skips": ("Skip", "Stretch"),
    "spool": ("Spool",),
    "sync": ("InlineSync", "Sync", "SyncerProcess"),
}
_MODULE_OF = {name: module for module, names in _MODULES.items() for name in names}


def __getattr__(name: str) -> Any:
    if name not in _MODULE_OF:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_MODULE_OF[name]}"), name)


__all__ = [
    "BATCH_BYTES",
    "SPARSE",
    "ContentSum",
    "Disk",
    "InlineSync",
    "Location",
    "OffsetRange",
    "SegmentCheck",
    "SequenceMark",
    "Sequences",
    "Skip",
    "Spool",
    "SpoolReader",
    "SpoolSettings",
    "Stretch",
    "Sync",
    "SyncerProcess",
    "are_here",
    "coalesced",
    "holder",
    "read_locations",
]

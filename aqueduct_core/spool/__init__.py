"""The durable, replayable log between an intake and Spark.

Knows Arrow schemas and bytes, no protocol.
"""

from aqueduct_core.spool.disk import Disk
from aqueduct_core.spool.format.sequences import Sequences
from aqueduct_core.spool.format.settings import SPARSE, ContentSum, SequenceMark, SpoolSettings
from aqueduct_core.spool.locations import BATCH_BYTES, Location, are_here, coalesced, read_locations
from aqueduct_core.spool.lock import holder
from aqueduct_core.spool.losses import OffsetRange
from aqueduct_core.spool.reader import SegmentCheck, SpoolReader
from aqueduct_core.spool.skips import Skip, Stretch
from aqueduct_core.spool.spool import Spool
from aqueduct_core.spool.sync import InlineSync, Sync, SyncerProcess

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

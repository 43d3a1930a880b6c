"""The durable, replayable log between an intake and Spark.

Knows Arrow schemas and bytes, no protocol.
"""

from aqueduct_core.spool.checks import Rows, SegmentCheck
from aqueduct_core.spool.disk import Disk
from aqueduct_core.spool.format.sequences import Sequences
from aqueduct_core.spool.format.settings import SPARSE, ContentSum, SequenceMark, SpoolSettings
from aqueduct_core.spool.identity import holder
from aqueduct_core.spool.locations import Location, are_here, read_pieces
from aqueduct_core.spool.reader import SpoolReader
from aqueduct_core.spool.skips import Skip, Stretch
from aqueduct_core.spool.spool import Spool
from aqueduct_core.spool.sync import InlineSync, Sync, SyncerProcess

__all__ = [
    "SPARSE",
    "ContentSum",
    "Disk",
    "InlineSync",
    "Location",
    "Rows",
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
    "holder",
    "read_pieces",
]

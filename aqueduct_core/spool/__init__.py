"""The durable, replayable log between an intake and Spark.

Knows Arrow schemas and bytes, no protocol.
"""

from aqueduct_core.spool.checks import Checked, Rows
from aqueduct_core.spool.disk import Disk
from aqueduct_core.spool.identity import holder
from aqueduct_core.spool.marks import Marks
from aqueduct_core.spool.pieces import Piece, are_here, read_pieces
from aqueduct_core.spool.reader import SpoolReader
from aqueduct_core.spool.settings import SPARSE, ContentSum, Mark, SpoolSettings
from aqueduct_core.spool.skips import Skip, Stretch
from aqueduct_core.spool.spool import Spool
from aqueduct_core.spool.sync import InlineSync, Sync, SyncerProcess

__all__ = [
    "SPARSE",
    "Checked",
    "ContentSum",
    "Disk",
    "InlineSync",
    "Mark",
    "Marks",
    "Piece",
    "Rows",
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

"""The durable, replayable log between an intake and Spark.

Knows Arrow schemas and bytes, no protocol.
"""

from aqueduct_core.spool.disk import Disk
from aqueduct_core.spool.reader import SpoolReader
from aqueduct_core.spool.settings import Mark, SpoolSettings
from aqueduct_core.spool.spool import Spool
from aqueduct_core.spool.sync import InlineSync, Sync, SyncerProcess

__all__ = [
    "Disk",
    "InlineSync",
    "Mark",
    "Spool",
    "SpoolReader",
    "SpoolSettings",
    "Sync",
    "SyncerProcess",
]

"""What the tests of programs with channels, and of Spark jobs, need. Nothing else imports it.

    from aqueduct.testing import Network, run_virtually

``Network``: servers and clients in one process, over links in memory that delay, lose and reorder
by a seed. ``run_virtually``: minutes of waiting take no time. ``RecordingServer``: an endpoint for
a job to write to. ``aqueduct.testing.spools``: messages for a job to read.
``aqueduct.testing.fixtures``: the same for pytest.
"""

from aqueduct.testing.network import Network
from aqueduct.testing.recording import RecordedMessage, RecordingServer
from aqueduct.testing.virtual_time import VirtualLoop, let_happen, run_virtually

__all__ = [
    "Network",
    "RecordedMessage",
    "RecordingServer",
    "VirtualLoop",
    "let_happen",
    "run_virtually",
]

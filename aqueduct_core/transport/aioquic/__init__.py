"""aioquic behind the port.

``connection``, ``streams``, ``receive`` and ``early`` are the only files that touch private names
of aioquic; ``check`` lists all of them and refuses, when this package is imported, a version that
does not fit.
"""

from __future__ import annotations

import logging

from aqueduct_core.transport.aioquic.check import check

check()

# What a peer did wrong ends its connection and is told there; without a handler of the program's
# own, aioquic's log lines about it would go to standard error.
logging.getLogger("quic").addHandler(logging.NullHandler())

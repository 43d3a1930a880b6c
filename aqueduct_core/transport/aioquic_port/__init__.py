"""aioquic behind the port.

``connection``, ``streams`` and ``receive`` are the only files that touch private names of aioquic;
``check`` lists all of them and refuses, when this package is imported, a version that does not fit.
"""

from __future__ import annotations

from aqueduct_core.transport.aioquic_port.check import check

check()

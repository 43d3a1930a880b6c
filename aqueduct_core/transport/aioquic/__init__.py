"""aioquic behind the port.

Each class of connection here does one thing that aioquic's own does not, on top of the one before:
``observed``, ``datagrams``, ``sent_numbers``, ``packet_limits``, ``mtu_probes``, ``connection``
(credit), ``stream_service``, ``send`` (runs of packets), ``receive``, ``early``, ``resets``,
``negotiation``. They, ``streams``, ``stream_frames``, ``sent_packets``, ``pacing`` and
``protection`` alone touch private names of aioquic; ``check`` lists all of these and refuses, when
this package is imported, a version that does not fit. ``link`` makes inputs and actions of it.
"""

from __future__ import annotations

import logging

from aqueduct_core.transport.aioquic.check import check

check()

# What a peer did wrong ends its connection and is told there; without a handler of the program's
# own, aioquic's log lines about it would go to standard error.
logging.getLogger("quic").addHandler(logging.NullHandler())

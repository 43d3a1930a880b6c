"""What all tests share."""

from __future__ import annotations

import signal

# A shell starts background jobs with SIGINT ignored, and children would inherit that: the tests of
# Ctrl-C are to see what a terminal gives.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

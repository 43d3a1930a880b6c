"""``python -m aqueduct_core.intake``: an intake whose settings come on standard input."""

from __future__ import annotations

import os
import sys
from typing import NoReturn


def main() -> NoReturn:
    # Libraries read these when they are imported. The lines of gRPC would bury the one that says
    # what is wrong; and numpy would start a thread for each core, for nothing here.
    os.environ.setdefault("GRPC_VERBOSITY", "NONE")
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    from aqueduct_core.intake import process

    process.configure_logging()
    process.leave(process.launched(sys.stdin.buffer, sys.stdout.buffer))


if __name__ == "__main__":
    main()

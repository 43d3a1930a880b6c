"""``python -m aqueduct_core.intake``: an intake whose settings come on standard input."""

from __future__ import annotations

import os
import sys
from typing import NoReturn


def main() -> NoReturn:
    # gRPC reads it when it is imported; its own lines would bury the one that says what is wrong.
    os.environ.setdefault("GRPC_VERBOSITY", "NONE")
    from aqueduct_core.intake import process

    process.configure_logging()
    process.leave(process.launched(sys.stdin.buffer, sys.stdout.buffer))


if __name__ == "__main__":
    main()

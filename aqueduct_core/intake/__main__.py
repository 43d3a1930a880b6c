"""``python -m aqueduct_core.intake``: an intake whose settings come on standard input."""

from __future__ import annotations

import os
import sys


def main() -> int:
    # gRPC reads it when it is imported; its own lines would bury the one that says what is wrong.
    os.environ.setdefault("GRPC_VERBOSITY", "NONE")
    from aqueduct_core.intake import process

    process.configure_logging()
    return process.launched(sys.stdin.buffer, sys.stdout.buffer)


if __name__ == "__main__":
    code = main()
    sys.stderr.flush()
    # A Flight call that is still held by its client must not keep the process.
    os._exit(code)

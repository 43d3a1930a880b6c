"""``python -m aqueduct_core.intake``: an intake whose settings come on standard input."""

from __future__ import annotations

import os
import sys
from importlib.machinery import ModuleSpec
from typing import Any, NoReturn


class WithoutPandas:
    """A finder that finds no pandas. pyarrow looks for it with the first array that it makes of
    Python's values: half a second in the middle of the first connection, and 60 MB, for something
    that an intake never has."""

    @staticmethod
    def find_spec(name: str, path: Any = None, target: Any = None) -> ModuleSpec | None:
        if name == "pandas":
            raise ModuleNotFoundError("an intake goes without pandas", name=name)
        return None


def main() -> NoReturn:
    # Libraries read these when they are imported. The lines of gRPC would bury the one that says
    # what is wrong; and numpy would start a thread for each core, for nothing here.
    os.environ.setdefault("GRPC_VERBOSITY", "NONE")
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    sys.meta_path.insert(0, WithoutPandas)
    from aqueduct_core.intake import process

    process.configure_logging()
    process.leave(process.launched(sys.stdin.buffer, sys.stdout.buffer))


if __name__ == "__main__":
    main()

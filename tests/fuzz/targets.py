"""The fuzzing targets by name, and where their corpora are."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from pathlib import Path
from typing import cast

CORPUS = Path(__file__).parent / "corpus"
TARGETS = (
    *("codec", "grammar", "engine", "operations", "parsers", "reassembly", "ranges"),
    *("quicr_codec", "quicr_engine", "quicr_relay", "media"),
    *("telehash_codec", "telehash_engine"),
)


def target(name: str) -> Callable[[bytes], None]:
    """Runs one input; returns when the target's invariant holds, raises when it does not."""
    module = importlib.import_module(f"tests.fuzz.{name}_target")
    return cast(Callable[[bytes], None], module.run)

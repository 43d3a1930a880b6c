"""Fixtures for pytest, for who names them: in ``conftest.py``,

    pytest_plugins = ["aqueduct.testing.fixtures"]

They are no plugin that pytest loads by itself: whoever tests something else in the same environment
has nothing of them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from aqueduct.testing.network import Network
from aqueduct.testing.recording import RecordingServer

if TYPE_CHECKING:
    from aqueduct.testing.spools import SpoolMessage

WriteSpool = Callable[[Iterable["SpoolMessage | bytes"]], Path]


@pytest.fixture
def aqueduct_network() -> Network:
    """A network in memory without faults; set its attributes to give it some."""
    return Network()


@pytest.fixture
def aqueduct_server(tmp_path: Path) -> Iterator[RecordingServer]:
    """An endpoint for a job to write to, until the end of the test."""
    with RecordingServer(tmp_path) as server:
        yield server


@pytest.fixture
def aqueduct_spool(tmp_path: Path) -> WriteSpool:
    """Writes messages into the spool of the test, and returns the path for option ``spool``."""
    from aqueduct.testing.spools import write_spool

    return lambda messages: write_spool(tmp_path / "spool", messages)

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.core.cli.quicr.running import serving
from tests.core.cli.running import Listener


@pytest.fixture(scope="module")
def origin(certificates: Path) -> Iterator[Listener]:
    with serving(certificates, "origin") as listener:
        yield listener

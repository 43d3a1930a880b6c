"""Places and producers for fault tests."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.faults.load import Load, load
from tests.spark.conftest import pytest_configure, scene, spark  # noqa: F401
from tests.support.intake_process import Site


@pytest.fixture
def site(tmp_path: Path) -> Site:
    return Site(tmp_path)


@pytest.fixture
def producers() -> Iterator[Load]:
    """Ended in any case."""
    with load() as running:
        yield running

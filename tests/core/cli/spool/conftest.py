"""One intake for all tests of ``aqueduct spool``."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.core.cli.spool.stored import Stored
from tests.support.intake_process import Site


@pytest.fixture(scope="package")
def live(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stored]:
    tmp_path = tmp_path_factory.mktemp("live")
    site = Site(tmp_path)
    with site.intake(partitions=2, lease=3600.0) as running:
        stored = Stored(site, running)
        stored.send(site, tmp_path)
        with running.client() as client:
            client.hold("query", "somebody")
            client.release("query", "somebody")
        yield stored


@pytest.fixture
def ended(live: Stored, tmp_path: Path) -> Path:
    """A copy as a crash would leave it."""
    return Path(shutil.copytree(live.directory, tmp_path / "intake-0"))

"""One gateway for all tests of this folder; each has keys of its own."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.objects.gateway import Gateway, gateway_above


@pytest.fixture(scope="session")
def gateway(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gateway]:
    with gateway_above(tmp_path_factory.mktemp("gateway")) as started:
        yield started


@pytest.fixture
def prefix(tmp_path: Path) -> str:
    return tmp_path.name

"""What tests with intake processes share."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.intake_process import Site


@pytest.fixture
def site(tmp_path: Path) -> Site:
    return Site(tmp_path)

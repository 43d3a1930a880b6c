"""Who has a connection and is not admitted: frames of QUIC in excess; rows 29 and 45 of the
matrix."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.hostile.attacks import Stage
from tests.hostile.verdict import broken_by, of_stage

pytestmark = pytest.mark.hostile


@pytest.mark.parametrize("name", of_stage(Stage.CONNECTED))
def test_fault_29_45_clients_without_headers_cost_little(name: str, tmp_path: Path) -> None:
    assert not broken_by(name, tmp_path)

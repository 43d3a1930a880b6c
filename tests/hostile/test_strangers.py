"""Who has no connection: noise, Initials, tokens, versions, handshakes that go no further; rows 30
and 45 of the matrix."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.hostile.attacks import Stage
from tests.hostile.verdict import broken_by, of_stage

pytestmark = pytest.mark.hostile


@pytest.mark.parametrize("name", of_stage(Stage.STRANGER))
def test_fault_30_45_strangers_cost_little(name: str, tmp_path: Path) -> None:
    assert not broken_by(name, tmp_path)

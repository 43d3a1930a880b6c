"""Who is admitted as a producer: channels, headers and messages in excess; row 29 of the matrix."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.hostile.attacks import Stage
from tests.hostile.verdict import broken_by, of_stage

pytestmark = pytest.mark.hostile


@pytest.mark.parametrize("name", of_stage(Stage.ADMITTED))
def test_fault_29_producers_that_turn_on_us_cost_little(name: str, tmp_path: Path) -> None:
    assert not broken_by(name, tmp_path)

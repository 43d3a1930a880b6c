"""Who has no token of the spool, at the port of Flight; row 29 of the matrix."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.hostile.attacks import Stage
from tests.hostile.verdict import of_stage, withstood

pytestmark = pytest.mark.hostile


@pytest.mark.parametrize("name", of_stage(Stage.FLIGHT))
def test_fault_29_callers_of_flight_without_the_token_cost_little(
    name: str, tmp_path: Path
) -> None:
    withstood(name, tmp_path)

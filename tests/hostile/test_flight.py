"""Who has no token of the spool, at the port of Flight; row 29 of the matrix."""

from __future__ import annotations

from pathlib import Path

import pytest

from aqueduct_core.flight.unauthenticated import MAX_WAITING
from tests.hostile.attacks import Stage
from tests.hostile.measuring import RATE, attacker
from tests.hostile.verdict import MB, broken_by, of_stage
from tests.support.intake_process import Site
from tests.support.processes import open_files
from tests.support.waiting import LONG, wait_until

pytestmark = pytest.mark.hostile


@pytest.mark.parametrize("name", of_stage(Stage.FLIGHT))
def test_fault_29_callers_of_flight_without_the_token_cost_little(
    name: str, tmp_path: Path
) -> None:
    assert not broken_by(name, tmp_path)


@pytest.mark.parametrize("name", ["flight_connections_left", "flight_handshakes_left"])
def test_fault_29_connections_that_are_left_take_few_descriptors(name: str, tmp_path: Path) -> None:
    site = Site(tmp_path)
    with site.intake() as intake:
        usual = open_files(intake.pid)
        with attacker(name, intake, most=MB, rate=RATE, seconds=LONG) as process:
            assert process.stdout is not None
            assert process.stdout.readline(), "the attacker failed"
            wait_until(lambda: open_files(intake.pid) <= usual + MAX_WAITING, LONG, "the bound")
            assert intake.status().connections == 0

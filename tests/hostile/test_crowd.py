"""A thousand connections of attackers and one of a good producer; row 29 of the matrix."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.hostile.crowd import THOUSAND
from tests.hostile.measuring import measured
from tests.hostile.verdict import MB, broken
from tests.support.intake_process import Site
from tests.support.waiting import LONG

pytestmark = pytest.mark.hostile


def test_fault_29_a_thousand_attackers_and_one_good_producer(tmp_path: Path) -> None:
    site = Site(tmp_path)
    with site.intake() as intake:
        cost = measured("a_thousand_connections", site, intake, most=12 * MB, seconds=LONG / 2)
        status = intake.status()
    assert not broken(cost)
    assert status.counters["accepted"] >= THOUSAND

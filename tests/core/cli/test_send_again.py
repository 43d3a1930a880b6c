"""``aqueduct send --producer`` run once more under the same identity: nothing acked is dropped."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.core.cli.running import aqueduct, totals
from tests.core.cli.test_send_resume import ca, stored
from tests.core.intake.processes import Site


@pytest.fixture
def site(tmp_path: Path) -> Site:
    return Site(tmp_path)


def test_new_input_under_the_same_producer_goes_on_behind_the_old(
    site: Site, tmp_path: Path
) -> None:
    with site.intake() as intake:
        command = ["send", intake.url, "--ca", str(ca(site, tmp_path)), "--producer", "p"]
        monday = aqueduct(*command, stdin=b"mon 0\nmon 1\n")
        assert (monday.returncode, totals(monday)["acked"]) == (0, 2)
        tuesday = aqueduct(*command, stdin=b"tue 0\ntue 1\ntue 2\n")
        assert (tuesday.returncode, totals(tuesday)["acked"]) == (0, 3)
        assert [value for _, value in stored(intake)] == [
            b"mon 0", b"mon 1", b"tue 0", b"tue 1", b"tue 2"
        ]  # fmt: skip

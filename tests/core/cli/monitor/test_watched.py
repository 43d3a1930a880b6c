"""The intakes of a command line are found where they are, and again when they were restarted."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from aqueduct_core.cli.monitor.watched import WatchedIntakes
from aqueduct_core.errors import InvalidOption, SpoolFailed
from aqueduct_core.flight.activity import ChannelQuery
from aqueduct_core.monitoring.health import ObservedIntake
from tests.support.intake_process import Site


@pytest.fixture
def site(tmp_path: Path) -> Site:
    return Site(tmp_path)


def watched(*named: str | Path) -> WatchedIntakes:
    return WatchedIntakes([str(each) for each in named], None, None)


def pids(seen: Sequence[ObservedIntake]) -> list[int | None]:
    return [None if each.status is None else each.status.pid for each in seen]


def test_a_directory_of_a_query_has_all_its_intakes_whoever_runs(site: Site) -> None:
    with site.intake(name="first") as intake, watched(site.spool.parent) as both:
        assert pids(both.observe(ChannelQuery())) == [intake.pid]
        assert both.observe(ChannelQuery())[0].place == str(site.spool)
        intake.terminate()
        [gone] = both.observe(ChannelQuery())
        assert gone.status is None
        assert gone.error.startswith("[AQUEDUCT_SPOOL.IO] no intake serves")
        with site.intake(name="second") as again:
            assert pids(both.observe(ChannelQuery())) == [again.pid]


def test_an_intake_at_an_address_is_asked_with_its_authority_and_token(
    site: Site, tmp_path: Path
) -> None:
    ca, token = tmp_path / "intake-ca.pem", tmp_path / "intake-token"
    ca.write_bytes(site.credentials.authority)
    token.write_text(site.credentials.token + "\n")
    with site.intake() as intake:
        address = intake.ready["flight"]
        with WatchedIntakes([address], ca, token) as found:
            assert pids(found.observe(ChannelQuery())) == [intake.pid]
        token.write_text("another\n")
        with WatchedIntakes([address], ca, token) as found:
            [refused] = found.observe(ChannelQuery())
            assert refused.error.startswith("[AQUEDUCT_AUTH.REJECTED]")


def test_what_names_no_intake_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidOption, match=r"MISSING.*--ca intake-ca\.pem"):
        watched("host:4434")
    with pytest.raises(SpoolFailed, match=r"IO.*nothing"):
        watched(tmp_path / "nothing")
    with pytest.raises(InvalidOption, match=r"BAD_VALUE.*is a URL.*directory of its spool"):
        watched("http://127.0.0.1:9464")
    token = tmp_path / "token"
    token.write_text("t\n")
    with pytest.raises(InvalidOption, match=r"--ca .*none cannot be read"):
        WatchedIntakes(["host:4434"], tmp_path / "none", token)

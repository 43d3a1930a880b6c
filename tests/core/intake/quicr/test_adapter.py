"""QUICR as an intake knows it: its links, and its spools beside those of another protocol."""

from __future__ import annotations

from pathlib import Path

import pytest

from aqueduct_core.errors import AqueductError
from aqueduct_core.intake.adapter import adapter_named
from aqueduct_core.intake.quicr.adapter import ADAPTER
from aqueduct_core.intake.quicr.media import MediaIntake
from tests.core.intake.lives import run
from tests.core.intake.quicr.scene import settings
from tests.core.intake.quicr.site import asking, listening, quicr_settings
from tests.support.intake_process import IntakeProcess, Site
from tests.support.rules import rule


@rule("Q-1")
def test_only_who_dials_opens_streams_and_all_have_two_directions() -> None:
    assert adapter_named("quicr") is ADAPTER
    listens, dials = ADAPTER.link(settings()), ADAPTER.link(settings(("u",)))
    assert (listens.max_streams_uni, dials.max_streams_uni) == (0, 0)
    assert listens.max_streams_bidi > 0
    assert dials.max_streams_bidi == 0


def test_a_spool_of_another_protocol_is_refused_with_both_names(tmp_path: Path) -> None:
    site = Site(tmp_path)
    with site.intake():
        pass

    async def main() -> None:
        with pytest.raises(AqueductError, match=r"(?s)aqueduct.*quicr|quicr.*aqueduct"):
            async with asking(site, "127.0.0.1:9", urls=("u",)):
                pass

    run(main())


def test_nor_is_one_of_quicr_served_by_another(tmp_path: Path) -> None:
    site = Site(tmp_path)

    async def main() -> None:
        async with listening(site):
            pass

    run(main())
    other = IntakeProcess(site, site.settings())
    try:
        with pytest.raises(AqueductError, match=r"(?s)aqueduct.*quicr|quicr.*aqueduct"):
            other.wait_ready()
    finally:
        other.kill()


def test_a_listener_for_everybody_says_so_and_names_no_token(tmp_path: Path) -> None:
    site = Site(tmp_path)
    given = quicr_settings(site, media=MediaIntake(), listen="0.0.0.0:0")
    process = IntakeProcess(site, given)
    try:
        process.wait_ready()
        [warning] = process.ready["warnings"]
    finally:
        process.kill()
    assert "everybody who reaches" in warning
    assert "its protocol has no tokens" in warning
    assert "auth" not in warning

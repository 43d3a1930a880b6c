"""The process of a launched intake: nobody's child, with a log of its own, ended by its lease."""

from __future__ import annotations

import pytest
from msgspec import structs

from aqueduct_core.errors import SpoolFailed
from aqueduct_core.intake.process import MAX_LOG_BYTES
from aqueduct_core.intake.storage.layout import LOG_FILE
from aqueduct_spark.intakes.process import start_intake
from tests.spark.ground import Ground
from tests.support.waiting import LONG, alive, ended, wait_until


def test_a_launched_intake_puts_its_log_aside_itself(ground: Ground) -> None:
    """Its launcher has ended by then; one that finds the spool locked puts nothing aside."""
    home = ground.home / "intake-0"
    home.mkdir(parents=True)
    log = home / LOG_FILE
    log.write_bytes(b"an old line\n".ljust(MAX_LOG_BYTES))
    settings = ground.order().settings
    started = start_intake(settings, LONG)
    with pytest.raises(SpoolFailed, match="LOCKED"):
        start_intake(settings, LONG)
    wait_until(lambda: f"spool {settings.spool} epoch" in log.read_text(), LONG, "its first line")
    wait_until(lambda: "SPOOL.LOCKED" in log.read_text(), LONG, "the line of the second one")
    assert log.with_name("intake.log.1").stat().st_size == MAX_LOG_BYTES
    assert alive(started.pid)


def test_an_intake_nobody_renews_ends_itself(ground: Ground) -> None:
    order = ground.order(settings=structs.replace(ground.order().settings, lease=1.0))
    held = ground.ensure(order)
    assert alive(held.pid)
    ended(held.pid, LONG)
    log = (ground.home / "intake-0" / LOG_FILE).read_text()
    assert "ending: no planner asked for 1 s" in log

"""The process of a launched intake: nobody's child, with a log of its own, ended by its lease."""

from __future__ import annotations

import re
import socket

import pytest
from msgspec import structs

from aqueduct_core.errors import IntakeFailed, SpoolFailed
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


def test_the_end_of_a_start_brings_host_process_and_the_last_lines(
    ground: Ground, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As where a package is missing on an executor, or another Python runs there."""
    settings = ground.order().settings
    log = ground.home / "intake-0" / LOG_FILE
    log.parent.mkdir(parents=True)
    log.write_text("a line of an earlier one\n")
    broken = ground.home / "broken" / "msgspec.py"
    broken.parent.mkdir()
    broken.write_text("raise ImportError('no msgspec for this Python')\n")
    monkeypatch.syspath_prepend(str(broken.parent))
    with pytest.raises(IntakeFailed) as failed:
        start_intake(settings, LONG)
    said = str(failed.value)
    assert said.startswith(f"[AQUEDUCT_INTAKE.UNREACHABLE] the intake for {settings.spool} on host")
    assert re.search(rf"on host {re.escape(socket.gethostname())}, process \d+ ended before", said)
    assert "ImportError: no msgspec for this Python" in said
    assert "an earlier one" not in said
    assert f"Read {log}" in said


def test_a_reason_is_told_with_host_and_process(ground: Ground) -> None:
    settings = ground.order().settings
    start_intake(settings, LONG)
    with pytest.raises(SpoolFailed, match=r"LOCKED.*\(the intake for .*intake-0 on host .*process"):
        start_intake(settings, LONG)


def test_an_intake_that_is_not_ready_in_time_says_so_with_its_last_lines(ground: Ground) -> None:
    settings = ground.order().settings
    with pytest.raises(
        IntakeFailed, match=r"LAUNCH_TIMEOUT.*on host .* was not ready after 0.15 s"
    ) as f:
        start_intake(settings, 0.15)
    assert "raise 'launchTimeout'" in f.value.remedy


def test_a_spool_that_cannot_be_written_names_the_host(ground: Ground) -> None:
    (ground.home / "intake-0").write_text("a file, no directory")
    with pytest.raises(SpoolFailed, match=r"IO.*cannot be used on host .*: "):
        start_intake(ground.order().settings, LONG)


def test_an_intake_nobody_renews_ends_itself(ground: Ground) -> None:
    order = ground.order(settings=structs.replace(ground.order().settings, lease=1.0))
    held = ground.ensure(order)
    assert alive(held.pid)
    ended(held.pid, LONG)
    log = (ground.home / "intake-0" / LOG_FILE).read_text()
    assert "ending: no planner asked for 1 s" in log

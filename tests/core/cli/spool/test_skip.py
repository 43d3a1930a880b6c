"""``aqueduct spool skip`` beside a running intake, and where none can start."""

from __future__ import annotations

import shlex
from pathlib import Path

import pytest
from msgspec import structs

from aqueduct_core.aio.connect import connect
from aqueduct_core.aio.halves import channel
from aqueduct_core.cli.main import main
from aqueduct_core.errors import SpoolFailed
from aqueduct_core.flight.tickets import Ticket
from aqueduct_core.intake.aqueduct.rows import ROWS
from aqueduct_core.spool import InlineSync, Spool
from aqueduct_core.spool.skips import MAX_OFFSET
from tests.core.intake.lives import run
from tests.core.spool.rows import segments
from tests.support.intake_process import IntakeProcess, Site


def send(site: Site, intake: IntakeProcess) -> None:
    async def sending() -> None:
        async with connect(intake.url, tls=site.client_tls) as connection:
            sender, receiver = channel(name="rows")
            await connection.entrypoint.send(b"", attach=receiver)
            await sender.send(b"one")
            await sender.finish()

    run(sending())


def skipped(intake: IntakeProcess) -> list[tuple[str, int, int]]:
    with intake.client() as client:
        status = client.status()
        asked = Ticket(status.id, len(status.ends), *status.events)
        return [
            (event["reason"], event["first"], event["last"])
            for stretch in client.stretches(asked)
            if stretch.state == "stored"
            for batch in client.read(structs.replace(asked, start=stretch.start, end=stretch.end))
            for event in ROWS.expand_events(batch, 1, 0).to_pylist()
            if event["kind"] == "skipped"
        ]


def test_fault_20_an_intake_starts_again_without_its_newest_segment(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Then, while it runs, offsets are given up that only a checkpoint knows of."""
    site = Site(tmp_path)
    with site.intake(partitions=1) as intake:
        send(site, intake)
        [end] = intake.status().ends
        events = intake.status().events[1]
    [path] = segments(site.spool)
    path.unlink()
    with (
        pytest.raises(SpoolFailed, match=r"CORRUPT.*segment-0+1\.arrows, the newest") as refused,
        site.intake(partitions=1),
    ):
        pass
    command = shlex.split(refused.value.remedy.partition("with: aqueduct ")[2])
    assert command == ["spool", "skip", str(site.spool), "--segment", "1"]
    assert main([*command, "--reason", "a bad disk"]) == 0
    told = [("partition 0: a bad disk", 0, end - 1), ("partition 1: a bad disk", 0, events - 1)]
    with site.intake(partitions=1) as intake:
        assert (intake.status().starts, intake.status().ends) == ((0,), (end,))
        assert skipped(intake) == told
        send(site, intake)
        now = intake.status().ends[0]
        assert now > end
        ahead = ["--partition", "0", "--from", str(now), "--to", str(now + 100), "--ahead"]
        assert main(["spool", "skip", str(site.spool), *ahead]) == 0
        assert intake.status().ends == (now + 100,)
        assert skipped(intake)[2:] == [("partition 0: given up by hand", now, now + 99)]
    assert f"offsets {now} to {now + 100} (exclusive)" in capsys.readouterr().out


@pytest.mark.parametrize("running", [True, False])
def test_a_checkpoint_that_is_ahead_of_the_events_is_passed_as_well(
    tmp_path: Path, running: bool
) -> None:
    """What is told of it comes behind the rows that are given up, not in their place."""
    site = Site(tmp_path)

    def skip(end: int) -> int:
        where = ["--partition", "1", "--from", str(events), "--to", str(end), "--ahead"]
        return main(["spool", "skip", str(site.spool), *where])

    with site.intake(partitions=1) as intake:
        send(site, intake)
        events = intake.status().events[1]
        if running:
            assert skip(events + 100) == 0
    if not running:
        assert skip(events + 100) == 0
    with site.intake(partitions=1) as intake:
        assert skipped(intake) == [("partition 1: given up by hand", events, events + 99)]
        assert intake.status().events[1] > events + 100


def test_no_number_that_has_no_room_behind_it_is_passed_to(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A digit too many must not end the spool for good."""
    site = Site(tmp_path)
    with site.intake(partitions=1) as intake:
        for end in (MAX_OFFSET + 1, 10**19):
            where = ["--partition", "0", "--from", "0", "--to", str(end), "--ahead"]
            assert main(["spool", "skip", str(site.spool), *where]) == 1
            assert f"up to {MAX_OFFSET}" in capsys.readouterr().err
        assert skipped(intake) == []
        assert (
            main(["spool", "skip", str(site.spool), *where[:-2], str(MAX_OFFSET), "--ahead"]) == 0
        )
        send(site, intake)
        end = intake.status().ends[0]
        assert end > MAX_OFFSET
    with site.intake(partitions=1) as intake, intake.client() as client:
        send(site, intake)
        status = client.status()
        assert status.ends[0] == end + end - MAX_OFFSET
        assert sum(batch.num_rows for batch in client.read(Ticket(status.id, 0, end, end + 1))) == 1


def test_no_segment_is_given_up_that_there_never_was(tmp_path: Path) -> None:
    site = Site(tmp_path)
    with Spool.open(site.spool, schema=ROWS.schema, partitions=2, sync=InlineSync):
        pass
    assert main(["spool", "skip", str(site.spool), "--segment", "0"]) == 1
    with Spool.open(site.spool, schema=ROWS.schema, partitions=2, sync=InlineSync) as spool:
        assert spool.ends() == [0, 0]

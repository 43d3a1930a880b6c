"""What an intake must keep right in the long run: pressure, time, identity; rows 15, 21 and 33."""

from __future__ import annotations

import itertools
import threading
from contextlib import AbstractContextManager
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Any

from aqueduct_core.flight.client import IntakeClient
from tests.faults import clock
from tests.faults.ledger import balance
from tests.faults.load import PATIENCE, Load
from tests.faults.producer import PATIENT, Flow
from tests.faults.tables import Consumer, stored
from tests.support.intake_process import IntakeProcess, Site
from tests.support.ports import free_port
from tests.support.processes import resident_bytes
from tests.support.waiting import LONG, wait_until

CAP = 8_000_000
OVERSHOOT = 8_000_000
"""The cap is looked at between groups, and what the producers' connections hold is written."""
MEMORY = 120_000_000
"""Bytes that an intake may grow by under pressure: windows of its connections, and its groups."""


def test_fault_15_a_slow_consumer_holds_producers_back(site: Site, producers: Load) -> None:
    """Producers outrun the consumer by far: the spool stays at its cap, the intake's memory is
    bounded, producers wait; then it drains, and nothing is lost."""
    flows = [
        Flow("ordered", "readings", 8_000.0, 2_000, most=8_000),
        Flow("unordered", "events", 500.0, 2_000, most=500),
    ]
    with site.intake(spool_max_bytes=CAP, partitions=2) as intake:
        before = resident_bytes(intake.pid)
        with Consumer(intake.ready["flight"], site.credentials, pause=1.0, most=200) as consumer:
            producers.start(
                intake.url, "p", "q", flows=flows, tls=site.client_tls, settings=PATIENT
            )
            wait_until(lambda: intake.status().full, PATIENCE, "a full spool")
            most, largest = 0, 0
            for _ in range(30):
                status = intake.status()
                most = max(most, resident_bytes(intake.pid))
                largest = max(largest, status.bytes)
                threading.Event().wait(0.1)
            print(f"memory {before / 1e6:.0f} to {most / 1e6:.0f} MB, spool {largest / 1e6:.1f} MB")
            assert largest < CAP + OVERSHOOT
            assert most < before + MEMORY
            assert intake.status().connections == 2
            stalled = producers.entries
            waiting = {entry.producer for entry in stalled if entry.sent > entry.acked_count}
            assert waiting == {entry.producer for entry in stalled}
            consumer.most = 1 << 62
            entries = producers.finish()
            balance(consumer.drained(PATIENCE), entries)
        assert all(entry.reconnects == 0 for entry in entries)


def test_fault_33_a_whole_history_sent_again_is_stored_once(site: Site, producers: Load) -> None:
    """A producer that lost its state begins anew under its old identity: all of what it says is
    acked, nothing of it is stored twice, and what is new behind it is."""
    first = [Flow("ordered", "readings", 5_000.0, 50, most=1_000),
             Flow("unordered", "events", 5_000.0, 50, most=1_000)]  # fmt: skip
    longer = [Flow(flow.mode, flow.name, flow.rate, flow.size, most=1_500) for flow in first]
    listen = f"127.0.0.1:{free_port()}"
    with site.intake(listen=listen) as intake:
        tls = site.client_tls
        producers.start(intake.url, "p", flows=first, tls=tls, settings=PATIENT)
        producers.run_out()
        intake.kill()
    with site.intake(listen=listen) as intake:
        again = producers.start(intake.url, "p", flows=longer, tls=tls, settings=PATIENT, start=0)
        producers.run_out()
        lines = balance(stored(intake), again[0].entries)
        assert [line.rows for line in lines] == [1_500, 1_500]
        assert [entry.acked_count for entry in again[0].entries] == [1_500, 1_500]
        # all of the history and nothing else, for the messages that carry channels have no numbers
        assert [entry.reconnects for entry in again[0].entries] == [0, 0]
        assert intake.status().counters["deduped"] == 2_000
        told = [event for event in intake.events() if event["kind"] == "repeated"]
        assert {
            (each["channel"], each["first"], each["last"], each["counts"]["deduped"])
            for each in told
        } == {("readings", 0, 999, 1_000), ("events", 0, 999, 1_000)}
        assert len(told) == 2


JUMPS = (3_600.0, -7_200.0, 10 * 365 * 86_400.0, -20 * 365 * 86_400.0)


def test_fault_21_a_clock_that_jumps_moves_no_row(
    site: Site, producers: Load, tmp_path: Path
) -> None:
    """The wall clock of the intake's process jumps by an hour and by years, to and fro, and then
    stands still: order, offsets, lease and deduplication do not care, and timestamps never go
    back inside a partition."""
    offset = tmp_path / "clock"
    offset.write_text("0")
    with jumping(site, offset, lease=LONG) as intake, intake.client() as client:
        over = threading.Event()
        renewing = threading.Thread(target=_renew, args=(client, over), daemon=True)
        renewing.start()
        try:
            producers.start(intake.url, "p", tls=site.client_tls, settings=PATIENT)
            for jump in (*JUMPS, "still"):
                producers.more_acks(200)
                offset.write_text(str(jump))
            producers.more_acks(200)
            producers.settle(intake)
            assert all(entry.reconnects == 0 for entry in producers.entries)
            for stamps in _timestamps(intake):
                assert all(a <= b for a, b in itertools.pairwise(stamps))
                assert stamps[-1] > stamps[0]
        finally:
            over.set()
            renewing.join(LONG)


def _renew(client: IntakeClient, over: threading.Event) -> None:
    while not over.wait(0.3):
        client.renew(LONG)


def _timestamps(intake: IntakeProcess) -> list[list[datetime]]:
    """Of each partition that has rows, by offset."""
    found: dict[int, list[datetime]] = {}
    for row in intake.rows():
        found.setdefault(row["partition"], []).append(row["timestamp"])
    return list(found.values())


def jumping(site: Site, offset: Path, **given: Any) -> AbstractContextManager[IntakeProcess]:
    """An intake whose wall clock is off by what ``offset`` holds."""
    return site.intake(program=partial(clock.main, str(offset)), **given)

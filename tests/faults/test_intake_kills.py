"""The intake dies or is stopped while it receives: rows 1, 2 and the halt of the kill matrix."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from aqueduct_core.flight.client import IntakeClient
from tests.core.intake.processes import IntakeProcess, Site
from tests.faults.ledger import balance
from tests.faults.producer import Flow, ProducerThread
from tests.faults.tables import stored
from tests.spark.producing import free_port
from tests.support.waiting import ended, wait_until

BOUNCES = 5
FLOWS = [
    Flow("ordered", "readings", 1500.0, 200),
    Flow("unordered", "events", 500.0, 60),
    Flow("unreliable", "load", 200.0, 100),
]
ACCEPTS_WITHIN = 5.0
"""Seconds from the start of the next intake to the first ack of what it stored."""


@pytest.fixture
def site(tmp_path: Path) -> Site:
    return Site(tmp_path)


@pytest.fixture
def producers(site: Site) -> Iterator[list[ProducerThread]]:
    """Entered by `under_load`; ended in any case."""
    running: list[ProducerThread] = []
    yield running
    for producer in running:
        producer.__exit__(AssertionError, None, None)


def under_load(producers: list[ProducerThread], intake: IntakeProcess, site: Site) -> None:
    for name in ("p", "q"):
        producer = ProducerThread(intake.url, name, FLOWS, tls=site.client_tls)
        producers.append(producer.__enter__())
    more_acks(producers, 300)


def more_acks(producers: list[ProducerThread], count: int) -> None:
    """Wait until that many more messages of each producer are acked."""
    marks = [producer.acked + count for producer in producers]

    def past() -> bool:
        for producer in producers:
            producer.check()
        return all(p.acked >= mark for p, mark in zip(producers, marks, strict=True))

    wait_until(past, 30.0, f"{count} more acks")


def settle(producers: list[ProducerThread], intake: IntakeProcess) -> None:
    entries = [entry for producer in producers for entry in producer.finish()]
    lines = balance(stored(intake), entries)
    assert all(line.rows for line in lines)


def test_fault_01_intake_kill9_while_receiving_loses_nothing(
    site: Site, producers: list[ProducerThread]
) -> None:
    listen = f"127.0.0.1:{free_port()}"
    for bounce in range(BOUNCES):
        begun = time.monotonic()
        with site.intake(listen=listen) as intake:
            if bounce:
                more_acks(producers, 1)
                assert time.monotonic() - begun < ACCEPTS_WITHIN
                more_acks(producers, 300)
            else:
                under_load(producers, intake, site)
            intake.kill()
    with site.intake(listen=listen) as intake:
        settle(producers, intake)
    reliable = [entry for producer in producers for entry in producer.entries][:2]
    assert all(entry.reconnects >= BOUNCES for entry in reliable)
    assert any(entry.resent for entry in reliable), "nothing was under way at any kill"


def test_fault_02_intake_sigterm_drains_and_comes_back(
    site: Site, producers: list[ProducerThread]
) -> None:
    listen = f"127.0.0.1:{free_port()}"
    for bounce in range(BOUNCES):
        with site.intake(listen=listen) as intake:
            if bounce:
                more_acks(producers, 300)
            else:
                under_load(producers, intake, site)
            begun = time.monotonic()
            assert intake.terminate() == 0
            assert time.monotonic() - begun < 5.0
    with site.intake(listen=listen) as intake:
        settle(producers, intake)


def test_fault_02_nothing_is_sent_again_after_a_drain_at_rest(
    site: Site, producers: list[ProducerThread]
) -> None:
    """Producers whose messages are all acked reconnect without a word said twice."""
    listen = f"127.0.0.1:{free_port()}"
    flows = [Flow("ordered", "readings", 2000.0, 100, most=500)]
    with site.intake(listen=listen) as intake:
        producer = ProducerThread(intake.url, "p", flows, tls=site.client_tls)
        producers.append(producer.__enter__())
        more_acks(producers, 500)
        assert intake.terminate() == 0
    with site.intake(listen=listen) as intake:
        settle(producers, intake)
        assert [entry.resent for entry in producer.entries] == [0]
        assert intake.status().counters["deduped"] == 0


def test_fault_01_an_intake_that_stood_still_goes_on(
    site: Site, producers: list[ProducerThread]
) -> None:
    """SIGSTOP for longer than the producers' idle timeout: they dial again, and the intake that
    wakes up meets both the old connections and the new ones."""
    with site.intake(listen=f"127.0.0.1:{free_port()}") as intake:
        under_load(producers, intake, site)
        before = [entry.reconnects for producer in producers for entry in producer.entries]
        os.kill(intake.pid, signal.SIGSTOP)
        try:
            wait_until(lambda: reconnecting(producers, before), 20.0, "connections that are lost")
        finally:
            os.kill(intake.pid, signal.SIGCONT)
        more_acks(producers, 300)
        settle(producers, intake)


def test_fault_32_a_spool_is_taken_over_from_a_killed_intake(
    site: Site, producers: list[ProducerThread]
) -> None:
    """The second intake is refused while the first one lives, and has the spool at once when it
    was killed, with a higher epoch; what was meant for the first one is refused."""
    listen = f"127.0.0.1:{free_port()}"
    with site.intake(listen=listen) as first:
        under_load(producers, first, site)
        with pytest.raises(Exception, match=r"SPOOL\.LOCKED"), site.intake():
            pass
        old = first.status()
        first.kill()
        ended(first.pid, 5.0)
        with site.intake(listen=listen) as second:
            status = second.status()
            assert (status.id, status.epoch > old.epoch) == (old.id, True)
            with (
                IntakeClient(second.ready["flight"], site.credentials.for_clients()) as client,
                pytest.raises(Exception, match="epoch"),
            ):
                client.commit("query", old.ends, spool=old.id, epoch=old.epoch)
            more_acks(producers, 300)
            settle(producers, second)


def reconnecting(producers: list[ProducerThread], before: list[int]) -> bool:
    now = [entry.reconnects for producer in producers for entry in producer.entries]
    return any(a > b for a, b in zip(now, before, strict=True))

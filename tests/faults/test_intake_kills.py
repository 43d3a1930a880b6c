"""The intake dies, ends or stands still while it receives; rows 1, 2 and 32 of the matrix."""

from __future__ import annotations

import os
import signal
import time

import pytest

from tests.faults.load import Load
from tests.faults.producer import PATIENT, Flow
from tests.support.intake_process import Site
from tests.support.ports import free_port
from tests.support.waiting import LONG, SOON, ended

BOUNCES = 5


@pytest.mark.long
def test_fault_01_intake_kill9_while_receiving_loses_nothing(site: Site, producers: Load) -> None:
    """That an intake accepts within 5 s again, ``make soak SOAK=restarts`` measures and checks."""
    listen = f"127.0.0.1:{free_port()}"
    for bounce in range(BOUNCES):
        begun = time.monotonic()
        with site.intake(listen=listen) as intake:
            if bounce:
                producers.more_acks(1)
                assert time.monotonic() - begun < SOON
                producers.reconnected(bounce)
            else:
                producers.start(intake.url, "p", "q", tls=site.client_tls)
            producers.more_acks(300)
            intake.kill()
    with site.intake(listen=listen) as intake:
        producers.settle(intake)
    assert all(entry.reconnects >= BOUNCES for entry in producers.reliable)
    assert any(entry.resent for entry in producers.reliable), "nothing was under way at any kill"


@pytest.mark.long
def test_fault_01_an_intake_that_stood_still_goes_on(site: Site, producers: Load) -> None:
    """SIGSTOP for longer than the producers' idle timeout: they dial again, and the intake that
    wakes up meets both the old connections and the new ones."""
    with site.intake(listen=f"127.0.0.1:{free_port()}") as intake:
        producers.start(intake.url, "p", "q", tls=site.client_tls)
        producers.more_acks(300)
        before = producers.entries
        os.kill(intake.pid, signal.SIGSTOP)
        try:
            producers.lost_connections(before)
        finally:
            os.kill(intake.pid, signal.SIGCONT)
        producers.more_acks(300)
        assert all(line.good for line in producers.settle(intake))


@pytest.mark.long
def test_fault_02_intake_sigterm_drains_and_comes_back(site: Site, producers: Load) -> None:
    listen = f"127.0.0.1:{free_port()}"
    for bounce in range(BOUNCES):
        with site.intake(listen=listen) as intake:
            if not bounce:
                producers.start(intake.url, "p", "q", tls=site.client_tls)
            producers.more_acks(300)
            begun = time.monotonic()
            assert intake.terminate() == 0
            assert time.monotonic() - begun < SOON
    with site.intake(listen=listen) as intake:
        producers.settle(intake)


def test_fault_02_nothing_is_sent_again_after_a_drain_at_rest(site: Site, producers: Load) -> None:
    """Producers whose messages are all acked reconnect without a word said twice."""
    listen = f"127.0.0.1:{free_port()}"
    flows = [Flow("ordered", "readings", 2000.0, 100, most=500)]
    with site.intake(listen=listen) as intake:
        tls = site.client_tls
        producers.start(intake.url, "p", flows=flows, tls=tls, settings=PATIENT)
        producers.more_acks(500)
        assert intake.terminate() == 0
    with site.intake(listen=listen) as intake:
        producers.settle(intake)
        assert [entry.resent for entry in producers.entries] == [0]
        assert intake.status().counters["deduped"] == 0


def test_fault_32_a_spool_is_taken_over_from_a_killed_intake(site: Site, producers: Load) -> None:
    """The second intake is refused while the first one lives, and has the spool at once when it
    was killed, with a higher epoch; what was meant for the first one is refused."""
    listen = f"127.0.0.1:{free_port()}"
    with site.intake(listen=listen) as first:
        producers.start(first.url, "p", "q", tls=site.client_tls)
        producers.more_acks(300)
        with pytest.raises(Exception, match=r"SPOOL\.LOCKED"), site.intake():
            pass
        old = first.status()
        first.kill()
        ended(first.pid, LONG)
        with site.intake(listen=listen) as second:
            status = second.status()
            assert (status.id, status.epoch > old.epoch) == (old.id, True)
            with second.client() as client, pytest.raises(Exception, match="epoch"):
                client.commit("query", old.ends, spool=old.id, epoch=old.epoch)
            producers.more_acks(300)
            producers.settle(second)

"""Launching, finding and reading intakes, without Spark: real processes, real Flight."""

from __future__ import annotations

import os
import shutil
import signal
import socket
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import pytest
from msgspec import structs

from aqueduct_core.errors import DataLoss, IntakeFailed, SpoolFailed
from aqueduct_core.intake.storage.layout import LOG_FILE
from aqueduct_spark.intakes.launch import ensure_intake, launch_here, settle
from aqueduct_spark.intakes.process import Started, start_intake
from aqueduct_spark.intakes.rendezvous import Registration, Rendezvous, RendezvousClient
from tests.spark.ground import Ground
from tests.spark.scene import PATIENCE
from tests.support.waiting import ancestors, ended


def test_tasks_at_once_start_one_intake(ground: Ground) -> None:
    order = ground.order()
    with ThreadPoolExecutor(4) as pool:
        held = list(pool.map(ground.ensure, [order] * 4))
    assert len(set(held)) == 1
    assert ground.rendezvous.registered() == {0: held[0]}
    # It belongs to no process of ours: it was started by one that has ended.
    assert os.getpid() not in ancestors(held[0].pid)
    log = (ground.home / "intake-0" / LOG_FILE).read_text()
    assert ground.credentials.token not in log


def test_a_lost_intake_comes_back_with_its_spool(ground: Ground) -> None:
    first = ground.ensure()
    ground.kill(first.pid)
    second = ground.ensure()
    assert (second.id, second.epoch > first.epoch) == (first.id, True)
    assert second.pid != first.pid


def test_an_intake_that_runs_already_is_shared(ground: Ground) -> None:
    """By another query, or by the one whose launch task died before it could tell of it."""
    first = ground.ensure()
    with Rendezvous("127.0.0.1", ground.credentials) as other:
        order = ground.order(rendezvous=f"127.0.0.1:{other.port}", spool_id=first.id)
        shared = ensure_intake(order)
        assert other.registered() == {0: shared}
    assert shared == replace(first, fingerprint="", started=False)


def test_an_intake_that_does_not_answer_keeps_its_spool(ground: Ground) -> None:
    first = ground.ensure()
    with Rendezvous("127.0.0.1", ground.credentials) as other:
        stranger = ground.order(rendezvous=f"127.0.0.1:{other.port}", lock_timeout=0.5)
        os.kill(first.pid, signal.SIGSTOP)
        try:
            with pytest.raises(SpoolFailed) as refused:
                ensure_intake(stranger)
        finally:
            os.kill(first.pid, signal.SIGCONT)
    assert refused.value.subclass == "LOCKED"
    assert "\n" not in str(refused.value)


def test_a_spool_that_must_be_there_is_not_made(ground: Ground) -> None:
    with pytest.raises(IntakeFailed, match=r"UNREACHABLE.*1234 .*not in sight"):
        ensure_intake(ground.order(spool_id="1234", lock_timeout=0.5))
    assert not (ground.home / "intake-0").exists()


def test_fault_42_an_intake_makes_no_spool_where_a_known_one_must_be(ground: Ground) -> None:
    """Its volume went between the look of the task and that of the process."""
    held = ground.ensure()
    ground.kill(held.pid)
    home = ground.home / "intake-0"
    home.rename(ground.home / "hidden")
    home.mkdir()
    settings = structs.replace(ground.order().settings, spool_id=held.id)
    with pytest.raises(SpoolFailed, match=rf"IO.*{held.id} is not in sight"):
        start_intake(settings, 20.0)
    assert [path.name for path in home.iterdir()] == [LOG_FILE]
    shutil.rmtree(home)
    (ground.home / "hidden").rename(home)
    assert ground.ensure(ground.order(spool_id=held.id)).id == held.id


def test_fault_42_another_spool_in_its_place_is_not_started_for_it(ground: Ground) -> None:
    held = ground.ensure()
    ground.kill(held.pid)
    order = ground.order(spool_id="1234", lock_timeout=0.5)
    with Rendezvous("127.0.0.1", ground.credentials) as other:
        elsewhere = replace(order, rendezvous=f"127.0.0.1:{other.port}")
        assert launch_here(elsewhere) is None
        assert other.take_absent() == {0: {socket.gethostname(): held.id}}
        with pytest.raises(DataLoss, match=rf"SPOOL_REPLACED.*holds spool {held.id}.* not 1234"):
            ensure_intake(elsewhere)
        assert other.registered() == {}


def test_a_launch_where_the_spool_is_not_says_so(ground: Ground) -> None:
    order = ground.order(spool_id="1234")
    (ground.home / "intake-0").mkdir()  # empty: another host made it, or a log was kept there
    assert launch_here(order) is None
    assert ground.rendezvous.take_absent() == {0: {socket.gethostname(): None}}
    assert ground.rendezvous.take_absent() == {}
    assert ground.rendezvous.registered() == {}


def test_a_launch_elsewhere_finds_the_intake_that_runs(ground: Ground) -> None:
    first = ground.ensure()
    elsewhere = structs.replace(ground.order().settings, spool=str(ground.home / "intake-7"))
    assert launch_here(ground.order(spool_id=first.id, settings=elsewhere)) == first
    assert ground.rendezvous.take_absent() == {}


def test_of_two_new_spools_the_second_ends(ground: Ground) -> None:
    """A launch task that ran twice, on two hosts."""
    first = ground.ensure()
    second = structs.replace(ground.order().settings, spool=str(ground.home / "intake-7"))
    ready = start_intake(second, 20.0)
    stands = _registered_after(ground, ready)
    assert stands == first
    ended(ready.pid, PATIENCE)


def _registered_after(ground: Ground, ready: Started) -> Registration:
    offered = Registration(
        0, ready.id, ready.epoch, ready.flight, ready.pid, ready.listen or "", ""
    )
    with RendezvousClient(ground.order().rendezvous, ground.credentials) as client:
        return settle(client, offered, None, ground.order())


def test_the_reason_of_an_intake_that_cannot_run_is_told(ground: Ground) -> None:
    first = ground.ensure()
    taken = structs.replace(
        ground.order().settings, listen=first.listen, spool=str(ground.home / "intake-1")
    )
    with pytest.raises(Exception, match="AQUEDUCT_CONNECT") as failed:
        ensure_intake(ground.order(intake=1, settings=taken))
    assert first.listen.rpartition(":")[2] in str(failed.value)


def test_a_planner_that_is_gone_ends_the_task(ground: Ground) -> None:
    order = ground.order()
    ground.rendezvous.shutdown()
    with pytest.raises(IntakeFailed, match="planner"):
        ensure_intake(order)

"""Launching, finding and reading intakes, without Spark: real processes, real Flight."""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest
from msgspec import structs

from aqueduct_core.errors import AqueductError, AuthFailed, DataLoss, IntakeFailed, SpoolFailed
from aqueduct_core.flight.client import IntakeClient
from aqueduct_core.flight.credentials import Credentials
from aqueduct_core.flight.tickets import Ticket
from aqueduct_core.intake.process import MAX_LOG_BYTES
from aqueduct_core.intake.storage.layout import LOG_FILE, settle_layout
from aqueduct_core.intake.storage.schema import SPOOL_SCHEMA, row_schema
from aqueduct_core.spool import InlineSync, Spool
from aqueduct_spark.intakes.launch import ensure_intake, launch_here, settle
from aqueduct_spark.intakes.launch_settings import launch_order
from aqueduct_spark.intakes.process import Started, start_intake
from aqueduct_spark.intakes.registrations import Registration, winner
from aqueduct_spark.intakes.rendezvous import Rendezvous, RendezvousClient
from aqueduct_spark.model.partitions import DataPartition, LaunchOrder, LaunchPartition
from aqueduct_spark.options.read import StreamReadOptions
from aqueduct_spark.planning.ranges import DataRange
from aqueduct_spark.read import gaps, tasks
from tests.spark.producing import numbered, produce
from tests.spark.scene import PATIENCE
from tests.support.waiting import LONG, alive, ancestors, ended, send_signal, wait_until

HELD = Registration(0, "spool", 2, "h:1", 11, "h:2", "AA")


class Ground:
    """A rendezvous and the launch order of one intake, as a planner has them."""

    def __init__(self, home: Path) -> None:
        self.home = home
        self.options = StreamReadOptions.parse(
            {"listen": "127.0.0.1:0", "spool": str(home), "lease": "30s"}
        )
        self.credentials = Credentials.for_spool(home)
        self.rendezvous = Rendezvous("127.0.0.1", self.credentials)
        self.pids: set[int] = set()

    def order(self, **changes: object) -> LaunchOrder:
        address = f"127.0.0.1:{self.rendezvous.port}"
        order = launch_order(self.options, 0, self.credentials, address, None)
        return replace(order, **changes)  # type: ignore[arg-type]

    def other_order(self, intake: int) -> LaunchOrder:
        """For an intake with another number, in its own directory."""
        settings = structs.replace(self.order().settings, spool=str(self.home / f"intake-{intake}"))
        return self.order(intake=intake, settings=settings)

    def ensure(self, order: LaunchOrder | None = None) -> Registration:
        held = ensure_intake(order or self.order())
        self.pids.add(held.pid)
        return held

    def kill(self, pid: int) -> None:
        os.kill(pid, signal.SIGKILL)
        ended(pid, PATIENCE)

    def close(self) -> None:
        self.rendezvous.shutdown()
        # Only what an intake wrote itself is a process of ours.
        for path in self.home.glob("intake-*/status.json"):
            self.pids.add(json.loads(path.read_text())["pid"])
        for pid in self.pids:
            send_signal(pid, signal.SIGTERM)
        for pid in self.pids:
            ended(pid, PATIENCE)


@pytest.fixture
def ground(tmp_path: Path) -> Iterator[Ground]:
    ground = Ground(tmp_path / "spool")
    yield ground
    ground.close()


@pytest.mark.parametrize(
    ("offered", "stands"),
    [
        (replace(HELD, epoch=3, pid=12), True),
        (replace(HELD, epoch=2, pid=12), False),
        (replace(HELD, epoch=1, pid=12), False),
        (replace(HELD, id="other", epoch=9), False),  # of a second new spool, on another host
    ],
)
def test_registrations_are_fenced_by_epoch(offered: Registration, stands: bool) -> None:
    assert winner(HELD, offered) is (offered if stands else HELD)
    assert winner(HELD, offered, replace(HELD, epoch=0)) is (offered if stands else HELD)
    assert winner(None, offered) is offered
    assert winner(HELD, offered, HELD) is offered


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
    taken = replace(
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


def test_the_rendezvous_wants_the_token(ground: Ground) -> None:
    address = f"127.0.0.1:{ground.rendezvous.port}"
    wrong = replace(ground.credentials, token="wrong")
    with RendezvousClient(address, wrong) as client, pytest.raises(IntakeFailed):
        client.lookup(0)
    with RendezvousClient(address, ground.credentials) as client:
        assert client.lookup(0) is None
        assert client.register(HELD) == HELD
        assert client.register(replace(HELD, epoch=1)) == HELD
        assert client.lookup(0) == HELD


def test_an_intake_nobody_renews_ends_itself(ground: Ground) -> None:
    order = ground.order(settings=structs.replace(ground.order().settings, lease=1.0))
    held = ground.ensure(order)
    ended(held.pid, LONG)


class TestRows:
    """Reading a range: exactly its rows, from whatever intake serves them."""

    @pytest.fixture
    def held(self, ground: Ground) -> Registration:
        held = ground.ensure()
        produce(f"aqueduct://{held.listen}", numbered(1_000), name="x")
        return held

    def partition(self, ground: Ground, held: Registration, **changes: object) -> DataPartition:
        with IntakeClient(held.at, ground.credentials) as client:
            ends = client.status().ends
        fullest = max(range(len(ends)), key=lambda p: ends[p])
        rows = DataRange(0, held.id, held.at, fullest, 0, ends[fullest])
        partition = DataPartition(rows, ground.order(), fetch_timeout=LONG, lenient=False)
        return replace(partition, **changes)  # type: ignore[arg-type]

    def read(self, partition: DataPartition) -> pa.Table:
        rows = tasks.rows(partition, include_headers=False, include_metadata=False)
        return pa.Table.from_batches(list(rows), schema=row_schema(False, False))

    def test_a_range_is_its_rows_each_time(self, ground: Ground, held: Registration) -> None:
        partition = self.partition(ground, held)
        table = self.read(partition)
        assert table["offset"].to_pylist() == list(range(partition.rows.stop))
        assert self.read(partition).equals(table)
        part = replace(partition, rows=replace(partition.rows, first=17, stop=423))
        assert self.read(part).equals(table.slice(17, 406))

    def test_a_lost_intake_is_started_by_the_task(self, ground: Ground, held: Registration) -> None:
        partition = self.partition(ground, held)
        table = self.read(partition)
        ground.kill(held.pid)
        with ThreadPoolExecutor(2) as pool:
            again = list(pool.map(self.read, [partition, partition]))
        assert all(one.equals(table) for one in again)
        assert ground.rendezvous.registered()[0].epoch > held.epoch

    def test_reading_goes_on_behind_the_last_row(
        self, ground: Ground, held: Registration, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        partition = self.partition(ground, held)
        table = self.read(partition)
        real = gaps.rows_of
        broken: list[int] = []

        def breaks_once(client: IntakeClient, ticket: Ticket) -> Iterator[pa.RecordBatch]:
            for batch in real(client, ticket):
                if broken:
                    yield batch
                    continue
                broken.append(batch.num_rows // 2)
                yield batch.slice(0, batch.num_rows // 2)
                raise IntakeFailed("UNREACHABLE", "the connection broke", "Try again")

        monkeypatch.setattr(gaps, "rows_of", breaks_once)
        assert self.read(partition).equals(table)
        assert broken

    def test_rows_that_are_gone_fail_the_task_or_are_left_out(
        self, ground: Ground, held: Registration
    ) -> None:
        partition = self.partition(ground, held)
        beyond = replace(partition.rows, stop=partition.rows.stop + 5)
        with pytest.raises(DataLoss):
            self.read(replace(partition, rows=beyond))
        ahead = replace(partition, rows=replace(beyond, first=beyond.stop - 2), lenient=True)
        assert self.read(ahead).num_rows == 0

    def test_an_address_that_another_intake_has_now_is_no_loss(
        self, ground: Ground, held: Registration
    ) -> None:
        partition = self.partition(ground, held)
        table = self.read(partition)
        other = ground.ensure(ground.other_order(1))
        moved = replace(partition, rows=replace(partition.rows, at=other.at))
        assert self.read(moved).equals(table)
        foreign = replace(moved, rows=replace(moved.rows, spool="gone"))
        with pytest.raises(DataLoss, match="SPOOL_REPLACED"):
            self.read(foreign)
        with pytest.raises(DataLoss, match="lostSpools=gone"):
            self.read(replace(foreign, lenient=True))

    def test_fault_42_another_spool_on_this_host_says_nothing_of_others(
        self, ground: Ground, held: Registration
    ) -> None:
        """It may be the one of an earlier query, and ours on the disk of a host that restarts."""
        partition = self.partition(ground, held, fetch_timeout=1.0)
        table = self.read(partition)
        ground.kill(held.pid)
        home = ground.home / "intake-0"
        home.rename(ground.home / "elsewhere")
        settle_layout(home, 2)
        Spool.open(home, schema=SPOOL_SCHEMA, partitions=3, sync=InlineSync).close()
        order = ground.order(lock_timeout=0.1)
        with pytest.raises(DataLoss, match=f"SPOOL_REPLACED.*lostSpools={held.id}"):
            self.read(replace(partition, order=order, lenient=True))
        home.rename(ground.home / "of another query")
        (ground.home / "elsewhere").rename(home)
        assert self.read(replace(partition, lenient=True, fetch_timeout=LONG)).equals(table)

    def test_a_task_does_not_wait_for_ever(self, ground: Ground, held: Registration) -> None:
        partition = self.partition(ground, held, fetch_timeout=0.1)
        ground.kill(held.pid)
        unusable = structs.replace(
            ground.order().settings, listen="192.0.2.1:1", flight="192.0.2.1:1"
        )
        with pytest.raises(AqueductError):
            self.read(replace(partition, order=ground.order(settings=unusable)))


def test_partitions_do_not_show_secrets(ground: Ground) -> None:
    order = ground.order()
    rows = DataRange(0, "id", "h:1", 0, 0, 1)
    for partition in (LaunchPartition(order), DataPartition(rows, order, 1.0, False)):
        assert ground.credentials.token not in repr(partition)
        assert "PRIVATE" not in repr(partition)


def test_an_intake_is_told_its_limits_and_where_it_listens(tmp_path: Path) -> None:
    options = StreamReadOptions.parse(
        {
            "listen": "127.0.0.1:4433",
            "spool": str(tmp_path),
            "numIntakes": "3",
            "limits.connections": "7",
            "limits.headerBytes": "2k",
            "limits.handshakeTimeout": "3s",
            "earlyData": "true",
        }
    )
    settings = launch_order(options, 2, Credentials.fresh(), "h:1", None).settings
    assert (settings.listen, settings.connect) == ("127.0.0.1:4435", None)
    assert settings.limits.connections == 7
    assert settings.limits.header_bytes == 2048
    assert settings.limits.handshake_timeout == 3
    assert settings.early_data


def test_an_intake_is_told_whom_to_dial(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("THE_TOKEN", "s3cret")
    options = StreamReadOptions.parse(
        {
            "endpoint": "aqueduct://a:1,b:2,c:3",
            "spool": str(tmp_path),
            "numIntakes": "2",
            "subscribe": "x,y",
            "subscribePayload": "give {name}",
            "tls.caFile": "/ca.pem",
            "auth.tokenEnv": "THE_TOKEN",
        }
    )
    orders = [launch_order(options, i, Credentials.fresh(), "h:1", None) for i in range(2)]
    told = [order.settings.connect for order in orders]
    assert told[0] is not None
    assert told[1] is not None
    # Which of them is its own is settled beside the spools.
    assert (told[0].endpoints, told[0].intakes) == (("a:1", "b:2", "c:3"), 2)
    assert told[0] == told[1]
    assert [s.request_payload for s in told[0].subscriptions] == [b"give x", b"give y"]
    assert (told[0].ca_file, told[0].token) == ("/ca.pem", "s3cret")
    assert "s3cret" not in repr(orders)
    # What it dials is not on this machine, so neither are its readers.
    assert orders[0].settings.flight == "0.0.0.0:0"


def test_a_token_variable_must_be_set(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    options = StreamReadOptions.parse(
        {"listen": "127.0.0.1:0", "spool": str(tmp_path), "auth.tokenEnv": "THE_TOKEN"}
    )
    monkeypatch.delenv("THE_TOKEN", raising=False)
    with pytest.raises(AuthFailed, match="THE_TOKEN"):
        launch_order(options, 0, Credentials.fresh(), "h:1", None)
    monkeypatch.setenv("THE_TOKEN", "s3cret")
    order = launch_order(options, 0, Credentials.fresh(), "h:1", None)
    assert order.settings.auth.token == "s3cret"
    assert "s3cret" not in repr(order)

"""Streams of intakes that run on their own: real ones, no Spark."""

from __future__ import annotations

import shutil
import socket
import threading
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from aqueduct_core.errors import DataLoss, IntakeFailed, InvalidOption, SpoolFailed
from aqueduct_core.intake.config_file import write_access
from aqueduct_core.intake.control import status_file
from aqueduct_spark.model.offsets import StreamOffset
from tests.spark.producing import numbered, produce
from tests.spark.read.stream.loop import Loop, Yard, values
from tests.support.intake_process import IntakeProcess, Site
from tests.support.ports import free_port


class Ground:
    """Intakes that come and go at addresses that stay."""

    def __init__(self, home: Path, stack: ExitStack) -> None:
        self.home = home
        self.site = Site(home)
        self.files = write_access(home, self.site.credentials)
        self.yard = Yard(home)
        self._stack = stack
        stack.callback(self.yard.close)

    def intake(self, name: str, flight: str | None = None) -> IntakeProcess:
        spool = str(self.home / "spools" / name)
        given = {"flight": flight} if flight else {}
        return self._stack.enter_context(self.site.intake(lease=None, spool=spool, **given))

    def loop(self, addresses: list[str], begin: StreamOffset | None = None, **options: str) -> Loop:
        return self.yard.loop(
            begin,
            intakes=",".join(addresses),
            tls_caFile=str(self.files.ca_file),
            auth_tokenFile=str(self.files.token_file),
            **options,
        )


@pytest.fixture
def ground(tmp_path: Path) -> Iterator[Ground]:
    with ExitStack() as stack:
        yield Ground(tmp_path, stack)


def nowhere() -> str:
    """An address of this host where nobody answers."""
    return f"127.0.0.1:{free_port(socket.SOCK_STREAM)}"


def test_rows_of_several_whatever_the_order_of_addresses(ground: Ground) -> None:
    one, two = ground.intake("one"), ground.intake("two")
    produce(one.url, numbered(100), name="one")
    produce(two.url, numbered(70), name="two")
    addresses = [one.ready["flight"], two.ready["flight"]]
    loop = ground.loop(addresses)
    loop.until(170)
    assert values(loop.rows, "one") == numbered(100)
    loop.close()
    produce(two.url, numbered(30), name="three")
    again = ground.loop(addresses[::-1], loop.at)
    assert values(again.until(30), "three") == numbered(30)
    assert {i: p.id for i, p in again.at.spool.items()} == {
        i: p.id for i, p in loop.at.spool.items()
    }
    assert again.at.launch == 0


def test_an_intake_that_comes_back_is_read_on(ground: Ground) -> None:
    address = nowhere()
    intake = ground.intake("one", address)
    produce(intake.url, numbered(100))
    loop = ground.loop([address])
    loop.until(100)
    intake.kill()
    assert loop.batch() is None
    back = ground.intake("one", address)
    produce(back.url, numbered(50), name="more")
    assert values(loop.until(150), "more") == numbered(50)


def test_available_now_waits_for_an_intake_that_is_away(ground: Ground) -> None:
    address = nowhere()
    intake = ground.intake("one", address)
    produce(intake.url, numbered(100))
    intake.kill()
    back = threading.Timer(1.0, ground.intake, args=("one", address))
    back.start()
    assert values(ground.loop([address]).to_the_end()) == numbered(100)
    back.join()


def test_an_intake_that_stays_away_ends_the_query(ground: Ground) -> None:
    loop = ground.loop([nowhere()], launchTimeout="500ms")
    with pytest.raises(IntakeFailed) as failed:
        loop.to_the_end()
    assert failed.value.subclass == "UNREACHABLE"
    assert "launchTimeout" in str(failed.value)


@pytest.mark.parametrize("bounded", [False, True])
def test_one_that_was_there_is_waited_for_as_the_query_says(ground: Ground, bounded: bool) -> None:
    """launchTimeout is over long before."""
    address = nowhere()
    intake = ground.intake("one", address)
    produce(intake.url, numbered(10))
    loop = ground.loop([address], launchTimeout="1ms", stallTimeout="2s")
    loop.until(10)
    intake.kill()

    def wait() -> None:
        if bounded:
            loop.to_the_end()
        while True:
            loop.batch()

    with pytest.raises(IntakeFailed, match=r"and 'stallTimeout' is 2s\)") as failed:
        wait()
    assert "does not answer" in failed.value.what
    assert failed.value.remedy.startswith("Start it again")


@pytest.mark.parametrize("lossy", ["true", "false"])
def test_fault_42_another_spool_at_an_address_is_told(ground: Ground, lossy: str) -> None:
    """Its volume may not have been mounted; who knows better names the spool that is lost."""
    address = nowhere()
    intake = ground.intake("one", address)
    produce(intake.url, numbered(10))
    loop = ground.loop([address], failOnDataLoss=lossy)
    loop.until(10)
    intake.kill()
    other = ground.intake("other", address)
    with pytest.raises(DataLoss, match="SPOOL_REPLACED") as failed:
        loop.until(11)
    known = loop.at.spool[0].id
    assert f"lostSpools={known}" in failed.value.remedy
    loop.close()
    produce(other.url, numbered(5), name="new")
    after = ground.loop([address], loop.at, lostSpools=known)
    assert values(after.until(5), "new") == numbered(5)


def test_events_of_standalone_intakes(ground: Ground) -> None:
    intake = ground.intake("one")
    produce(intake.url, numbered(10))
    loop = ground.loop([intake.ready["flight"]], view="events")
    while not any(row["kind"] == "finished" for row in loop.rows):
        loop.batch()
    start = next(start for start, _ in loop.batches if start.spool)
    restarted = ground.loop([intake.ready["flight"]], loop.at, view="events", cursor="other")
    assert restarted.run(start, loop.at) == loop.rows


def test_fault_41_a_cursor_of_standalone_intakes_belongs_to_a_query(ground: Ground) -> None:
    address = nowhere()
    intake = ground.intake("one", address)
    produce(intake.url, numbered(10))
    first = ground.loop([address])
    first.until(10)
    first.close()
    intake.kill()
    back = ground.intake("one", address)
    with pytest.raises(SpoolFailed, match=f"belongs to query {first.at.query}") as refused:
        ground.loop([address]).until(10)
    assert f"{ground.home / 'spools' / 'one'} --give query" in str(refused.value)
    produce(back.url, numbered(10), name="more")
    assert values(ground.loop([address], first.at).until(10), "more") == numbered(10)


def test_an_authority_that_cannot_be_read(ground: Ground) -> None:
    ground.files.ca_file.unlink()
    with pytest.raises(InvalidOption, match=r"BAD_VALUE.*caFile"):
        ground.loop([nowhere()])


def test_an_intake_of_an_old_copy_ends_once_a_query_tells_it(ground: Ground) -> None:
    """Else it would ack rows under offsets that were read, and the query go on behind them."""
    address, spool = nowhere(), ground.home / "spools" / "one"
    intake = ground.intake("one", address)
    produce(intake.url, numbered(20))
    intake.terminate()
    shutil.copytree(spool, ground.home / "copy")
    intake = ground.intake("one", address)
    produce(intake.url, numbered(30), name="second")
    loop = ground.loop([address])
    loop.until(50)
    loop.close()
    intake.terminate()
    shutil.rmtree(spool)
    shutil.copytree(ground.home / "copy", spool)
    intake = ground.intake("one", address)
    again = ground.loop([address], loop.at)
    with pytest.raises(DataLoss, match="OFFSET_AHEAD"):
        again.until(1)
    again.close()
    assert intake.wait() != 0
    told = status_file.read(spool)
    assert told is not None
    assert (told["state"], told["ends"]) == ("failed", intake.ready["ends"])
    assert "OFFSET_AHEAD" in told["error"]

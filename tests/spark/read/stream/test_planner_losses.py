"""What is lost, out of sight, damaged or put back, and what a query makes of it."""

from __future__ import annotations

import json
import shlex
import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from aqueduct_core.cli.main import main
from aqueduct_core.errors import DataLoss, IntakeFailed, SpoolFailed
from aqueduct_core.intake.aqueduct.rows import ROWS
from aqueduct_core.intake.storage.layout import settle_layout
from aqueduct_core.spool import InlineSync, Spool, SpoolReader
from aqueduct_spark.model.offsets import StreamOffset
from aqueduct_spark.model.partitions import DataPartition
from tests.spark.producing import numbered, produce
from tests.spark.read.batch.test_planner import read as batch_read
from tests.spark.read.stream.loop import Yard, begun, data_places, read, values


def restored(yard: Yard) -> StreamOffset:
    """What a query of one partition has read, of whose spool an old copy was put back since."""
    loop = begun(yard, partitionsPerIntake="1")
    produce(yard.url(), numbered(20))
    loop.until(20)
    loop.close()
    yard.kill()
    shutil.copytree(yard.spool, yard.home / "copy")
    loop = yard.loop(loop.at, partitionsPerIntake="1")
    while not loop.planner._clients.statuses():
        loop.batch()
    produce(yard.url(), numbered(30), name="second")
    loop.until(30)
    loop.close()
    yard.kill()
    shutil.rmtree(yard.spool)
    shutil.copytree(yard.home / "copy", yard.spool)
    return loop.at


def test_an_intake_of_an_old_copy_stores_nothing_under_offsets_that_were_read(yard: Yard) -> None:
    """Else the query would go on by itself, behind rows that were acked, once there are enough."""
    at = restored(yard)
    old = yard.intake()
    again = yard.loop(at, partitionsPerIntake="1")
    with pytest.raises(DataLoss, match="OFFSET_AHEAD") as ahead:
        again.until(1)
    again.close()
    assert yard.intake() == old  # nobody could bring anything
    command = shlex.split(ahead.value.remedy.partition("with: aqueduct ")[2])
    assert main(command) == 0
    again = yard.loop(at, partitionsPerIntake="1")
    while not again.planner._clients.statuses():
        again.batch()
    produce(yard.url(), numbered(50), name="third")
    assert values(again.until(50), "third") == numbered(50)


def test_an_intake_of_an_old_copy_goes_on_behind_what_was_read(yard: Yard) -> None:
    """With failOnDataLoss=false; a producer that has waited for it brings its rows before the query
    looks again."""
    at = restored(yard)
    old = yard.intake()
    again = yard.loop(at, partitionsPerIntake="1", failOnDataLoss="false")
    while yard.intake() == old:
        again.batch()
    produce(yard.url(), numbered(25), name="third")
    assert values(again.until(25), "third") == numbered(25)
    events = yard.loop(view="events", partitionsPerIntake="1", failOnDataLoss="false")
    events.to_the_end()
    (told,) = [event for event in events.rows if event["kind"] == "skipped"]
    assert told["last"] == at.spool[0].to[0] - 1
    assert "failOnDataLoss=false" in told["reason"]


@pytest.mark.parametrize("lossy", ["true", "false"])
@pytest.mark.parametrize(
    "place", ["no directory", pytest.param("the place of a mount", marks=pytest.mark.long)]
)
def test_fault_42_a_spool_out_of_sight_costs_no_row(yard: Yard, place: str, lossy: str) -> None:
    """The intake is killed and the volume hidden, whatever failOnDataLoss says: the query fails,
    and goes on with every row when the volume is back."""
    loop = begun(yard, maxOffsetsPerTrigger="20")
    produce(yard.url(), numbered(60))
    loop.until(20)
    loop.close()
    yard.kill()
    home, hidden = yard.spool / "intake-0", yard.home / "hidden"
    home.rename(hidden)
    if place == "the place of a mount":
        home.mkdir()
    hiding = yard.loop(loop.at, launchTimeout="1s", failOnDataLoss=lossy)
    with pytest.raises(IntakeFailed, match="UNREACHABLE"):
        hiding.until(1)
    assert hiding.at.spool == loop.at.spool
    hiding.close()
    assert [path.name for path in yard.spool.glob("intake-0/*")] == []
    if place == "the place of a mount":
        home.rmdir()
    hidden.rename(home)
    back = yard.loop(loop.at, failOnDataLoss=lossy)
    assert values(loop.messages() + back.until(60 - len(loop.messages()))) == numbered(60)


@pytest.mark.parametrize("lossy", ["true", "false"])
def test_fault_42_a_task_without_its_spool_fails(yard: Yard, lossy: str) -> None:
    """Whatever failOnDataLoss says: it does not succeed without its rows."""
    loop = begun(yard, failOnDataLoss=lossy)
    produce(yard.url(), numbered(30))
    loop.until(30)
    planned = loop.planner.partitions(*loop.batches[-1])
    parts = [part for part in planned if isinstance(part, DataPartition)]
    yard.kill()
    hidden = yard.home / "hidden"
    (yard.spool / "intake-0").rename(hidden)
    for part in parts:
        assert part.order is not None
        order = replace(part.order, lock_timeout=0.5)
        with pytest.raises(IntakeFailed, match=r"UNREACHABLE.*not in sight"):
            read(replace(part, order=order), loop.options)
    hidden.rename(yard.spool / "intake-0")
    rows = [row for part in parts for row in read(part, loop.options)]
    assert len(rows) == sum(part.rows.stop - part.rows.first for part in parts)


@pytest.mark.parametrize("lossy", ["true", "false"])
def test_fault_42_another_spool_in_its_place_is_no_proof_of_loss(yard: Yard, lossy: str) -> None:
    """That of an earlier query, on a host where ours never was: ours comes back with its rows."""
    loop = begun(yard, maxOffsetsPerTrigger="20")
    produce(yard.url(), numbered(60))
    loop.until(20)
    loop.close()
    yard.kill()
    home, hidden = yard.spool / "intake-0", yard.home / "elsewhere"
    home.rename(hidden)
    settle_layout(home, 2)
    Spool.open(home, schema=ROWS.schema, partitions=3, sync=InlineSync).close()
    hiding = yard.loop(loop.at, launchTimeout="1s", failOnDataLoss=lossy)
    with pytest.raises(DataLoss, match="SPOOL_REPLACED") as failed:
        hiding.until(60)
    known = loop.at.spool[0].id
    assert f"lostSpools={known}" in failed.value.remedy
    hiding.close()
    home.rename(yard.home / "of an earlier query")
    hidden.rename(home)
    back = yard.loop(loop.at, failOnDataLoss=lossy)
    assert values(loop.messages() + back.until(60 - len(loop.messages()))) == numbered(60)


@pytest.mark.parametrize("place", ["another spool", "nothing"])
def test_fault_42_a_spool_is_given_up_by_its_name(yard: Yard, place: str) -> None:
    """The act of a person: the query goes on with another spool, from a batch that cannot be done
    again any more, and with nothing but what it had read of the lost one."""
    loop = begun(yard, maxOffsetsPerTrigger="20")
    produce(yard.url(), numbered(60))
    loop.until(20)
    start, end = loop.batches[-1]
    places = len(data_places(loop, (start, end)))
    loop.close()
    yard.kill()
    home = yard.spool / "intake-0"
    home.rename(yard.home / "elsewhere")
    if place == "another spool":
        settle_layout(home, 2)
        Spool.open(home, schema=ROWS.schema, partitions=3, sync=InlineSync).close()
    known = loop.at.spool[0].id
    after = yard.loop(start, lostSpools=f"other, {known}")
    planned = after.planner.partitions(start, end)
    parts = [part for part in planned if isinstance(part, DataPartition)]
    assert len(parts) == places
    assert [row for part in parts for row in read(part, after.options)] == []
    after.at = end
    while after.at.spool[0].id == known:
        after.batch()
    produce(yard.url(), numbered(20), name="new")
    assert values(after.until(20), "new") == numbered(20)
    after.close()
    # it is in the offsets from then on: the option has done its work
    again = yard.loop(after.at)
    produce(yard.url(), numbered(5), name="later")
    assert values(again.until(5), "later") == numbered(5)


def test_fault_42_a_spool_that_was_given_up_too_early_is_read(yard: Yard) -> None:
    """Its intake answers after all."""
    loop = begun(yard, maxOffsetsPerTrigger="20")
    produce(yard.url(), numbered(60))
    loop.until(20)
    loop.close()
    again = yard.loop(loop.at, lostSpools=loop.at.spool[0].id, failOnDataLoss="false")
    assert values(loop.messages() + again.until(60 - len(loop.messages()))) == numbered(60)


def flipped(spool: Path, partition: int, offset: int) -> None:
    """One bit in the record of a row."""
    with SpoolReader(spool) as reader:
        [piece] = reader.locations(partition, offset, offset + 1)
    at = piece.position + piece.length // 2
    with Path(piece.path).open("r+b") as file:
        file.seek(at)
        byte = file.read(1)[0]
        file.seek(at)
        file.write(bytes([byte ^ 8]))


@pytest.mark.parametrize("intake", ["runs", "ended"])
def test_fault_19_a_damaged_batch_is_passed_by_an_explicit_act(
    yard: Yard, intake: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """The query fails naming the command; the command is run, and the same query goes on from its
    checkpoint with all other rows, once. An event tells of it."""
    given = {"partitionsPerIntake": "1", "maxOffsetsPerTrigger": "40", "retention": "1h"}
    loop = begun(yard, **given)
    payloads = numbered(80)
    for first in range(0, 80, 20):
        produce(yard.url(), payloads[first : first + 20], name=f"r{first}")
    loop.until(20)
    loop.close()
    yard.kill()
    flipped(yard.spool / "intake-0", 0, 50)
    broken = yard.loop(loop.at, **given)
    with pytest.raises(SpoolFailed, match="aqueduct spool skip") as failed:
        broken.until(80)
    assert failed.value.subclass == "CORRUPT"
    broken.close()
    if intake == "ended":
        yard.kill()
    command = shlex.split(failed.value.remedy.partition("aqueduct spool skip ")[2])
    assert main(["spool", "skip", *command, "--reason", "a bad disk"]) == 0
    assert main(["spool", "skip", *command]) == 0
    assert "skipped already" in capsys.readouterr().out
    _, _, partition, _, low, _, high = command
    with SpoolReader(yard.spool / "intake-0") as reader:
        end = reader.ends()[0]
    after = yard.loop(broken.at, **given)
    while after.at.spool[0].to[0] < end:
        after.batch()
    rows = loop.rows + broken.rows + after.rows
    left = [n for n in range(end) if not int(low) <= n < int(high)]
    assert [row["offset"] for row in rows] == left
    assert 0 < int(high) - int(low) < end
    got = [row["value"] for row in rows if row["channel"] != "0"]
    assert set(got) < set(payloads)
    assert len(set(got)) == len(got)
    produce(yard.url(), [b"more"], name="more")
    assert after.until(len(after.messages()) + 1)[-1]["value"] == b"more"
    # what other readers make of it
    assert main(["spool", "verify", str(yard.spool)]) == 0
    assert main(["spool", "cat", str(yard.spool)]) == 0
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines() if line[0] == "{"]
    assert sum(line["type"] == "skipped" for line in lines) == 1
    stored = [line["value"].encode() for line in lines if line.get("name", "0")[0] == "r"]
    assert stored == got
    assert main(["spool", "cat", str(yard.spool), "--events"]) == 0
    events = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    [told] = [event for event in events if event["kind"] == "skipped"]
    assert (told["first"], told["last"]) == (int(low), int(high) - 1)
    assert told["reason"] == f"partition {partition}: a bad disk"
    assert [value for _, _, value in batch_read(yard.spool) if value in payloads] == got

"""Bounded reads of intakes that run on their own, and of a spool that one of them serves."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from aqueduct_core.errors import AuthFailed, FinishTimeout, IntakeFailed, InvalidOption
from aqueduct_core.intake.config_file import AccessFiles, write_access
from aqueduct_spark.formats.aqueduct.format import AqueductFormat
from aqueduct_spark.formats.aqueduct.options import AQUEDUCT_OPTIONS
from aqueduct_spark.options.read import BatchReadOptions
from aqueduct_spark.options.tokens import Token
from aqueduct_spark.read.batch.planner import settle, settles
from aqueduct_spark.read.batch.reader import BatchReader
from tests.spark.producing import Flow, numbered, produce
from tests.support.intake_process import IntakeProcess, Site


class Ground:
    """Two running intakes with the files that reads of them need."""

    def __init__(self, directory: Path, intakes: list[IntakeProcess], files: AccessFiles) -> None:
        self.directory = directory
        self.intakes = intakes
        self.files = files

    def options(self, **given: str) -> dict[str, str]:
        addresses = ",".join(intake.ready["flight"] for intake in self.intakes)
        base = {
            "intakes": addresses,
            "tls.caFile": str(self.files.ca_file),
            "auth.tokenFile": str(self.files.token_file),
        }
        return base | {key.replace("_", "."): value for key, value in given.items()}

    def reader(self, **given: str) -> BatchReader:
        return reader(self.options(**given))

    def read(self, **given: str) -> list[dict[str, Any]]:
        return read_by(self.reader(**given))


def reader(options: dict[str, str]) -> BatchReader:
    parsed = BatchReadOptions.parse(options, AQUEDUCT_OPTIONS)
    source: Any = parsed.source
    token = Token.of(getattr(source, "auth", None))
    return BatchReader(
        AqueductFormat(),
        parsed,
        token,
        settle(parsed, token, AqueductFormat()) if settles(parsed) else None,
    )


def read_by(task: BatchReader) -> list[dict[str, Any]]:
    return [
        row
        for partition in task.partitions()
        for batch in task.read(partition)
        for row in batch.to_pylist()
    ]


def messages(rows: list[dict[str, Any]], channel: str = "readings") -> list[bytes]:
    ours = [row for row in rows if row["channel"] == channel]
    return [row["value"] for row in sorted(ours, key=lambda row: row["messageNum"])]


@pytest.fixture(scope="module")
def ground(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ground]:
    directory = tmp_path_factory.mktemp("ground")
    site = Site(directory)
    with ExitStack() as stack:
        intakes = [
            stack.enter_context(
                site.intake(lease=None, spool=str(directory / "spool" / f"intake-{number}"))
            )
            for number in range(2)
        ]
        produce(intakes[0].url, numbered(2_000))
        produce(intakes[1].url, numbered(300), name="others", producer="second")
        yield Ground(directory, intakes, write_access(directory, site.credentials))


def test_all_of_both(ground: Ground) -> None:
    rows = ground.read()
    assert messages(rows) == numbered(2_000)
    assert messages(rows, "others") == numbered(300)


def test_ranges_and_filters(ground: Ground) -> None:
    assert messages(ground.read(channels="others"), "others") == numbered(300)
    assert ground.read(channels="others", producers="tester") == []
    some = ground.read(maxRecordsPerPartition="100", channelsPattern="read.*")
    assert messages(some) == numbered(2_000)
    assert len(ground.reader(maxRecordsPerPartition="100").partitions()) >= 20
    none = '{"0":{"0":-1,"1":-1},"1":{"0":-2,"1":-2}}'
    later = ground.read(startingOffsets=none)
    assert {row["channel"] for row in later} == {"0", "others"}


def test_times(ground: Ground) -> None:
    rows = ground.read(channels="readings")
    moment = rows[1_000]["timestamp"]
    after = ground.read(channels="readings", startingTimestamp=moment.isoformat())
    before = ground.read(channels="readings", endingTimestamp=moment.isoformat())
    assert [row["timestamp"] >= moment for row in after] == [True] * len(after)
    assert [row["timestamp"] < moment for row in before] == [True] * len(before)
    assert len(before) + len(after) == 2_000


def test_the_spool_of_a_running_intake(ground: Ground) -> None:
    rows = read_by(reader({"spool": str(ground.directory / "spool")}))
    assert messages(rows) == numbered(2_000)
    assert messages(rows, "others") == numbered(300)


def test_a_plan_keeps_its_rows(ground: Ground) -> None:
    planned = ground.reader(channels="more")
    produce(ground.intakes[0].url, numbered(10), name="more")
    assert read_by(planned) == []
    assert messages(ground.read(channels="more"), "more") == numbered(10)


def test_status_of_intakes_and_of_their_spool(ground: Ground) -> None:
    by_intakes = ground.read(view="status")
    by_spool = read_by(reader({"spool": str(ground.directory / "spool"), "view": "status"}))
    for rows in (by_intakes, by_spool):
        assert [(row["intake"], row["partition"]) for row in rows] == [
            (0, 0),
            (0, 1),
            (1, 0),
            (1, 1),
        ]
        assert {row["state"] for row in rows} == {"running"}
        assert [row["flight"] for row in rows[::2]] == [
            intake.ready["flight"] for intake in ground.intakes
        ]
        assert sum(row["durableOffset"] - row["startOffset"] for row in rows) >= 2_300
        assert {row["committedOffset"] for row in rows} == {None}
        assert sum(row["bytes"] for row in rows[:2]) <= rows[0]["spoolBytes"]
        busy = [row for row in rows if row["durableOffset"]]
        assert all(row["oldestUncommittedSeconds"] > 0 for row in busy)
        assert rows[0]["messagesPerSecond"] > 0


def test_until_nothing_comes_any_more(ground: Ground) -> None:
    with Flow(ground.intakes[0].url, name="live") as flow:
        task = ground.reader(until="idle:1s", untilTimeout="60s", channels="live")
        first, second = task.partitions()
        batches = task.read(first)
        got = next(batches).to_pylist()
        flow.finish()
        got += [row for batch in batches for row in batch.to_pylist()]
        assert messages(got, "live") == numbered(flow.messages)
        assert list(task.read(second)) == []


def test_waits_that_cannot_end(ground: Ground) -> None:
    with pytest.raises(InvalidOption, match="accepts producers"):
        ground.read(until="finish", untilTimeout="5s")
    with pytest.raises(FinishTimeout, match="untilTimeout=1s"):
        ground.read(until="idle:1m", untilTimeout="1s")


def test_whom_it_is_not_for(ground: Ground, tmp_path: Path) -> None:
    (tmp_path / "token").write_text("of-another-spool\n")
    with pytest.raises(AuthFailed):
        ground.read(auth_tokenFile=str(tmp_path / "token"))
    with pytest.raises(InvalidOption, match=r"tls\.caFile"):
        ground.read(tls_caFile=str(tmp_path / "nothing.pem"))
    with pytest.raises(IntakeFailed) as failed:
        ground.read(intakes="127.0.0.1:1")
    assert failed.value.subclass == "UNREACHABLE"

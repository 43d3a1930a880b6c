"""Bounded reads of an endpoint, as one task does them: complete, or an error that says why."""

from __future__ import annotations

import json
import multiprocessing
import os
from collections.abc import Iterator
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import pytest

from aqueduct_core.errors import (
    AuthFailed,
    ChannelEnded,
    ConnectFailed,
    FinishTimeout,
    InvalidOption,
    TlsFailed,
)
from aqueduct_core.transport.settings import ListenLimits
from aqueduct_spark.formats.aqueduct.format import AqueductFormat
from aqueduct_spark.formats.aqueduct.options import AQUEDUCT_OPTIONS
from aqueduct_spark.options.read import BatchReadOptions
from aqueduct_spark.options.tokens import Token
from aqueduct_spark.read.batch import dial
from aqueduct_spark.read.batch.reader import BatchReader
from tests.support.ports import free_port
from tests.support.remote import RemoteThread, Script, payloads
from tests.support.waiting import LONG, alive, wait_until


def reader(remote: RemoteThread | str, spool: Path, **given: str) -> BatchReader:
    options = {"untilTimeout": "30s", "spool": str(spool)}
    if isinstance(remote, str):
        options |= {"endpoint": f"aqueduct://{remote}", "tls.insecure": "true"}
    else:
        options |= {"endpoint": remote.url, "tls.caFile": str(remote.ca_file)}
    options |= {key.replace("_", "."): value for key, value in given.items()}
    parsed = BatchReadOptions.parse(options, AQUEDUCT_OPTIONS)
    return BatchReader(AqueductFormat(), parsed, Token.of(parsed.source.auth), None)  # type: ignore[union-attr]


def read(remote: RemoteThread | str, spool: Path, **given: str) -> list[dict[str, Any]]:
    task = reader(remote, spool, **given)
    return [
        row
        for partition in task.partitions()
        for batch in task.read(partition)
        for row in batch.to_pylist()
    ]


@pytest.fixture
def home(tmp_path: Path) -> Iterator[Path]:
    """Where reads keep their spools; nothing is left in it afterwards."""
    spool = tmp_path / "spools"
    yield spool
    assert not spool.exists() or list(spool.iterdir()) == []


def values(rows: list[dict[str, Any]], channel: str) -> list[bytes]:
    return [row["value"] for row in rows if row["channel"] == channel]


def test_every_channel_to_its_finish(home: Path, tmp_path: Path) -> None:
    scripts = {"a": Script(500), "b": Script(1, mode="unordered"), "c": Script(0)}
    with RemoteThread(scripts, tmp_path) as remote:
        rows = read(remote, home, subscribe="a,b,c")
    assert values(rows, "a") == payloads("a", scripts["a"])
    assert values(rows, "b") == payloads("b", scripts["b"])
    assert len(rows) == 501
    assert {row["offset"] for row in rows} == set(range(501))
    assert len(remote.requests) == 3


def test_channels_below_are_part_of_it(home: Path, tmp_path: Path) -> None:
    with RemoteThread({"a": Script(5, children=3, child_messages=7)}, tmp_path) as remote:
        rows = read(remote, home, subscribe="a")
    assert len(rows) == 5 + 3 * 7
    assert {row["channel"] for row in rows} == {"a", "a/0", "a/1", "a/2"}


def test_each_address_is_a_task(home: Path, tmp_path: Path) -> None:
    homes = [tmp_path / "one", tmp_path / "two"]
    for place in homes:
        place.mkdir()
    with (
        RemoteThread({"a": Script(20)}, homes[0]) as one,
        RemoteThread({"a": Script(30)}, homes[1]) as two,
    ):
        both = f"{one.endpoint},{two.endpoint}"
        assert len(reader(both, home, subscribe="a").partitions()) == 2
        rows = read(both, home, subscribe="a", includeSpool="true")
    assert len({row["spool"] for row in rows}) == 2
    assert sorted(row["messageNum"] for row in rows) == sorted([*range(20), *range(30)])


def test_the_request_as_options_make_it(home: Path, tmp_path: Path) -> None:
    with RemoteThread({"a": Script(1), "b": Script(1)}, tmp_path) as remote:
        read(
            remote,
            home,
            subscribe="a,b",
            subscribeHeaders='{"want": "{name}!"}',
            subscribePayload="give me {name}",
        )
        asked = {request.name: request for request in remote.requests}
    assert asked["a"].payload == b"give me a"
    assert (b"want", b"b!") in asked["b"].headers


def test_more_than_a_spool_holds(home: Path, tmp_path: Path) -> None:
    """What was handed on is given back, so the spool stays at its cap and the remote goes on."""
    script = Script(600, size=20_000)
    with RemoteThread({"a": script}, tmp_path) as remote:
        rows = read(remote, home, subscribe="a", spoolMaxBytes="4m")
    assert values(rows, "a") == payloads("a", script)


def test_with_early_data_a_lost_connection_is_resumed(home: Path, tmp_path: Path) -> None:
    scripts = {"a": [Script(5, "vanish"), Script(10)]}
    options: dict[str, Any] = {"producer": "remote", "sequence_start": 0}
    limits = ListenLimits(early_data=True)
    with RemoteThread(scripts, tmp_path, limits=limits, **options) as remote:
        rows = read(remote, home, subscribe="a", earlyData="true")
        assert remote.early == [False, True]
    assert values(rows, "a") == payloads("a", Script(10))


@pytest.mark.parametrize(
    ("end", "view"),
    [("overcount", "messages"), ("overcount", "events"), ("undercount", "messages")],
)
def test_a_finish_with_another_count_is_no_finish(
    home: Path, tmp_path: Path, end: Any, view: str
) -> None:
    with (
        RemoteThread({"a": Script(5, end=end)}, tmp_path) as remote,
        pytest.raises((FinishTimeout, ChannelEnded), match="'a'"),
    ):
        read(remote, home, subscribe="a", untilTimeout="3s", view=view)


def test_fault_27_a_cancelled_channel_is_named(home: Path, tmp_path: Path) -> None:
    with (
        RemoteThread({"a": Script(3), "b": Script(3, end="cancel")}, tmp_path) as remote,
        pytest.raises(ChannelEnded, match="'b'") as ended,
    ):
        read(remote, home, subscribe="a,b")
    assert ended.value.subclass == "CANCELLED"


def test_fault_27_a_cancelled_channel_that_is_kept(home: Path, tmp_path: Path) -> None:
    with RemoteThread({"a": Script(3), "b": Script(3, end="cancel")}, tmp_path) as remote:
        rows = read(remote, home, subscribe="a,b", onCancel="keep")
    assert len(values(rows, "a")) == 3
    assert len(values(rows, "b")) == 3


@pytest.mark.parametrize(("end", "subclass"), [("vanish", "LOST"), ("drop", "CANCELLED")])
def test_a_channel_that_was_lost_is_named(
    home: Path, tmp_path: Path, end: Any, subclass: str
) -> None:
    with (
        RemoteThread({"a": Script(3, end=end)}, tmp_path) as remote,
        pytest.raises(ChannelEnded, match="'a'") as ended,
    ):
        read(remote, home, subscribe="a")
    assert ended.value.subclass == subclass


def test_a_timeout_names_what_is_open(home: Path, tmp_path: Path) -> None:
    with (
        RemoteThread({"a": Script(3), "b": Script(3, end="stay")}, tmp_path) as remote,
        pytest.raises(FinishTimeout, match=r"untilTimeout=20s.*: 'b'\. Raise") as late,
    ):
        read(remote, home, subscribe="a,b", untilTimeout="20s")
    assert "'a'" not in late.value.what


def test_until_it_is_idle(home: Path, tmp_path: Path) -> None:
    with RemoteThread({"a": Script(30, end="stay")}, tmp_path) as remote:
        rows = read(remote, home, subscribe="a", until="idle:10s")
    assert len(rows) == 30


def test_idle_that_does_not_come(home: Path, tmp_path: Path) -> None:
    with (
        RemoteThread({"a": Script(30, end="stay")}, tmp_path) as remote,
        pytest.raises(FinishTimeout, match="untilTimeout=2s"),
    ):
        read(remote, home, subscribe="a", until="idle:1m", untilTimeout="2s")


def test_nobody_listens(home: Path) -> None:
    with pytest.raises(ConnectFailed):
        read(f"127.0.0.1:{free_port()}", home)


def test_a_certificate_of_somebody_else(home: Path, tmp_path: Path) -> None:
    with RemoteThread({"a": Script(1)}, tmp_path) as remote:
        (tmp_path / "other").mkdir()
        other = RemoteThread({}, tmp_path / "other")
        with pytest.raises(TlsFailed):
            read(remote, home, subscribe="a", tls_caFile=str(other.ca_file))


def test_a_token(home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("READ_TOKEN", "s3cret")
    with RemoteThread({"a": Script(2)}, tmp_path, token="s3cret") as remote:
        assert len(read(remote, home, subscribe="a", auth_tokenEnv="READ_TOKEN")) == 2
        with pytest.raises(AuthFailed):
            read(remote, home, subscribe="a")
        task = reader(remote, home, subscribe="a", auth_tokenEnv="READ_TOKEN")
        assert "s3cret" not in repr([vars(p) for p in task.partitions()])


def test_events_of_the_read(home: Path, tmp_path: Path) -> None:
    with RemoteThread({"a": Script(4)}, tmp_path) as remote:
        rows = read(remote, home, subscribe="a", view="events")
    [finished] = [row for row in rows if row["kind"] == "finished" and row["channel"] == "a"]
    assert finished["counts"]["reliableSent"] == 4
    assert finished["counts"]["reliableStored"] == 4


def test_status_needs_an_intake_that_stays(home: Path) -> None:
    with pytest.raises(InvalidOption, match="view=status"):
        read("127.0.0.1:1", home, view="status")


def intake_of(home: Path) -> tuple[Path, int]:
    """The directory and the process of the one read that is going on."""

    def probe() -> tuple[Path, int] | None:
        for path in home.glob("aqueduct-read-*/status.json"):
            return path.parent, int(json.loads(path.read_text())["pid"])
        return None

    return wait_until(probe, LONG, "the intake of the read")


def test_a_read_that_is_given_up_leaves_nothing(home: Path, tmp_path: Path) -> None:
    with RemoteThread({"a": Script(30, end="stay")}, tmp_path) as remote:
        task = reader(remote, home, subscribe="a")
        [partition] = task.partitions()
        rows = task.read(partition)
        assert next(rows).num_rows > 0
        directory, pid = intake_of(home)
        rows.close()  # type: ignore[attr-defined]
        assert not directory.exists()
        assert not alive(pid)


def test_fault_01_an_intake_that_is_killed_leaves_nothing(home: Path, tmp_path: Path) -> None:
    with RemoteThread({"a": Script(30, end="stay")}, tmp_path) as remote:
        task = reader(remote, home, subscribe="a")
        [partition] = task.partitions()
        rows = task.read(partition)
        assert next(rows).num_rows > 0
        directory, pid = intake_of(home)
        os.kill(pid, 9)
        with pytest.raises(Exception, match=r"AQUEDUCT_INTAKE\.UNREACHABLE"):
            list(rows)
        wait_until(lambda: not directory.exists(), LONG, "the end of the directory")
        # The next attempt starts anew.
        again = [row for batch in take(task.read(partition), 30) for row in batch]
        assert len(again) == 30


def first_batch_and_no_more(options: tuple[str, str, str], pipe: Connection) -> None:
    """A worker in the middle of its task, with a lease short enough for a test."""
    url, ca_file, spool = options
    dial.LEASE = 2.0
    parsed = BatchReadOptions.parse(
        {
            "endpoint": url,
            "tls.caFile": ca_file,
            "spool": spool,
            "subscribe": "a",
            "untilTimeout": "60s",
        },
        AQUEDUCT_OPTIONS,
    )
    task = BatchReader(AqueductFormat(), parsed, Token(), None)
    [partition] = task.partitions()
    rows = task.read(partition)
    pipe.send(next(rows).num_rows)
    pipe.recv()


def test_fault_06_a_worker_that_is_killed_leaves_nothing(home: Path, tmp_path: Path) -> None:
    context = multiprocessing.get_context("spawn")
    with RemoteThread({"a": Script(30, end="stay")}, tmp_path) as remote:
        ours, theirs = context.Pipe()
        options = (remote.url, str(remote.ca_file), str(home))
        worker = context.Process(target=first_batch_and_no_more, args=(options, theirs))
        worker.start()
        assert ours.poll(30)
        directory, pid = intake_of(home)
        worker.kill()
        worker.join(LONG)
        wait_until(lambda: not alive(pid), LONG, "the end of the intake with its lease")
        wait_until(lambda: not directory.exists(), LONG, "the end of the directory")
    ours.close()
    theirs.close()


def take(rows: Iterator[Any], count: int) -> Iterator[list[dict[str, Any]]]:
    found = 0
    while found < count:
        batch = next(rows).to_pylist()
        found += len(batch)
        yield batch
    rows.close()  # type: ignore[attr-defined]

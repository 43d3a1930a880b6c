"""A query whose intake, endpoint or spool stands still says so, and that it is over: real
processes, no Spark."""

from __future__ import annotations

import asyncio
import os
import signal
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from aqueduct_core.aio.connect import connect
from aqueduct_core.errors import AqueductError, AuthFailed, ConnectFailed, TlsFailed
from aqueduct_core.flight.client import IntakeClient
from aqueduct_core.flight.credentials import Credentials
from aqueduct_core.transport.tls.credentials import ClientTls
from aqueduct_spark.model.partitions import LaunchPartition
from aqueduct_spark.read import tasks
from aqueduct_spark.read.stream.stall_watch import QueryStalls
from tests.spark.producing import numbered, produce
from tests.spark.read.stream.loop import Loop, Yard, begun
from tests.spark.scene import PATIENCE
from tests.support.ports import free_port
from tests.support.remote import Script
from tests.support.remote_process import RemoteProcess
from tests.support.waiting import wait_until


class Lines:
    """The lines of the watch, without what stands before each."""

    def __init__(self, caplog: pytest.LogCaptureFixture) -> None:
        caplog.set_level("INFO", "aqueduct_spark")
        self._caplog = caplog

    def all(self) -> list[str]:
        ours = [r for r in self._caplog.records if r.name == QueryStalls.__module__]
        assert all(r.getMessage().startswith("aqueduct stream of ") for r in ours)
        return [r.getMessage().split("cursor query: ", 1)[1] for r in ours]

    def having(self, *words: str) -> list[str]:
        return [line for line in self.all() if all(word in line for word in words)]


@pytest.fixture
def lines(caplog: pytest.LogCaptureFixture) -> Lines:
    return Lines(caplog)


def say(loop: Loop, lines: Lines, *words: str) -> str:
    """Let the query go on until a line has these words."""

    def said() -> str | None:
        loop.batch()
        return next(iter(lines.having(*words)), None)

    return wait_until(said, PATIENCE, f"a line with {words}")


def test_an_endpoint_that_comes_late_and_goes_is_told_once_each_time(
    yard: Yard, lines: Lines, tmp_path: Path
) -> None:
    scripts = {"a": Script(messages=3, end="stay")}
    with RemoteProcess(tmp_path, scripts, producer="remote", sequence_start=0) as remote:
        remote.kill()
        loop = yard.loop(endpoint=remote.url, subscribe="a", tls_caFile=str(remote.ca_file))
        line = say(loop, lines, "is not connected")
        assert line.startswith("waiting for ")
        assert f"[AQUEDUCT_CONNECT.REFUSED] endpoint {remote.url} is not connected: " in line
        assert "host and port are right" in line
        assert loop.planner.waits_for() == [line.split(": ", 1)[1]]
        remote.restart(scripts)
        loop.until(3)
        say(loop, lines, f"endpoint {remote.url} is connected again, after ")
        assert loop.planner.waits_for() == []
        assert len(lines.having("endpoint")) == len(set(lines.having("endpoint")))


@pytest.mark.parametrize(
    ("options", "kind"),
    [({}, TlsFailed), ({"tls_insecure": "true"}, AuthFailed)],
    ids=["certificate", "token"],
)
def test_an_endpoint_that_refuses_ends_the_query(
    yard: Yard,
    lines: Lines,
    tmp_path: Path,
    options: dict[str, str],
    kind: type[AqueductError],
) -> None:
    with RemoteProcess(tmp_path, {"a": Script()}, token="sesame") as remote:
        loop = yard.loop(endpoint=remote.url, subscribe="a", refusalTimeout="2s", **options)
        with pytest.raises(kind, match=r"and 'refusalTimeout' is 2s\)"):
            say(loop, lines, "nothing like this")
    (line,) = lines.having("is not usable as it is")
    assert remote.url in line


def test_a_limit_of_waiting_ends_the_query(yard: Yard, lines: Lines) -> None:
    url = f"aqueduct://127.0.0.1:{free_port()}"
    loop = yard.loop(endpoint=url, subscribe="a", tls_insecure="true", stallTimeout="3s")
    with pytest.raises(ConnectFailed, match=r"and 'stallTimeout' is 3s\)") as failed:
        say(loop, lines, "nothing like this")
    assert url in str(failed.value)
    assert "is not connected" in str(failed.value)


def test_an_intake_that_does_not_answer_is_told_and_that_it_does_again(
    yard: Yard, lines: Lines
) -> None:
    """As one whose host hangs: nobody says that it is not there."""
    loop = begun(yard)
    pid = yard.intake()["pid"]
    os.kill(pid, signal.SIGSTOP)
    try:
        wait_until(lambda: lines.having("intake 0"), PATIENCE, "a line")
    finally:
        os.kill(pid, signal.SIGCONT)
    (line,) = lines.having("intake 0")
    assert "[AQUEDUCT_INTAKE.UNREACHABLE] intake 0 does not answer: " in line
    say(loop, lines, "intake 0 answers again, after ")


def test_an_intake_that_was_killed_is_launched_again_and_says_so(yard: Yard, lines: Lines) -> None:
    loop = begun(yard)
    yard.kill()
    # Spark runs a batch, or waits with one: nobody plans.
    wait_until(lambda: lines.having("intake 0 does not answer"), PATIENCE, "a line")
    say(loop, lines, "intake 0 runs, after ")
    assert lines.having("first producer") == []  # none has come to either


def test_a_launch_that_no_executor_begins_is_told(yard: Yard, lines: Lines) -> None:
    loop = yard.loop()
    end = loop.planner.latest(loop.at)
    launches = loop.planner.partitions(loop.at, end)  # Spark has no slot for them
    wait_until(lambda: lines.having("waits: no executor has begun"), PATIENCE, "a line")
    for partition in launches:
        assert isinstance(partition, LaunchPartition)
        list(tasks.launch(partition))
    wait_until(lambda: lines.having("intake 0 runs, after "), PATIENCE, "its end")


def test_a_launch_that_fails_is_told_with_the_words_of_its_executor(
    yard: Yard, lines: Lines
) -> None:
    port = free_port()
    loop = yard.loop(listen=f"127.0.0.1:{port}")
    other = begun(Yard(yard.home / "other"), listen=f"127.0.0.1:{port}")
    try:
        with pytest.raises(ConnectFailed, match=rf"127.0.0.1:{port}.*on host .*, process \d+\)"):
            loop.batch()
        line = wait_until(lambda: lines.having("could not be started"), PATIENCE, "a line")[0]
        assert f"127.0.0.1:{port}" in line
        assert "[AQUEDUCT_CONNECT.REFUSED] intake 0 could not be started on host " in line
    finally:
        other.close()


def test_nobody_has_come_yet_is_said_once_and_is_no_warning(
    yard: Yard, lines: Lines, caplog: pytest.LogCaptureFixture
) -> None:
    loop = begun(yard)
    line = say(loop, lines, "no producer has connected")
    assert yard.intake()["listen"] in line
    produce(yard.url(), numbered(3))
    loop.until(3)
    say(loop, lines, "has its first producer, after ")
    records = [r for r in caplog.records if "producer" in r.getMessage()]
    assert [r.levelname for r in records] == ["INFO", "INFO"]


def test_who_is_refused_by_a_listener_is_told(yard: Yard, lines: Lines, tmp_path: Path) -> None:
    tokens = tmp_path / "tokens"
    tokens.write_text("sesame\n")
    tokens.chmod(0o600)
    loop = begun(yard, auth_tokenFile=str(tokens))

    async def knock() -> None:
        async with connect(yard.url(), tls=ClientTls(insecure=True), token="wrong") as connection:
            await connection.accepted()

    with pytest.raises(AuthFailed):
        asyncio.run(knock())
    line = say(loop, lines, "has let no producer in")
    assert "[AQUEDUCT_AUTH.REJECTED]" in line
    assert "wrong" not in line


def test_a_full_spool_names_the_cursor_that_keeps_it(yard: Yard, lines: Lines) -> None:
    """Of a query that ended, beside one that goes on."""
    first = begun(yard, cursor="gone", spoolMaxBytes="8m")
    produce(yard.url(), numbered(1))
    first.until(1)
    first.close()
    loop = begun(yard, spoolMaxBytes="8m")
    payloads = [b"x" * (1 << 16)] * 200
    with ThreadPoolExecutor(1) as pool:
        sending = pool.submit(produce, yard.url(), payloads, producer="big")
        line = say(loop, lines, "is full")
        assert "[AQUEDUCT_SPOOL.FULL] spool " in line
        assert "cursor 'gone' of query " in line
        assert "which does not run now" in line
        assert f"cursors '{yard.spool}' --drop gone" in line
        with IntakeClient(yard.intake()["flight"], Credentials.for_spool(yard.spool)) as client:
            client.drop_cursor("gone")
        say(loop, lines, "has room again, after ")
        loop.until(201)
        assert sending.result(PATIENCE).acked == 200

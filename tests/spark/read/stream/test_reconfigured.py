"""A query that comes back with other options while its intakes run: real intakes, no Spark."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from aqueduct_core.errors import InvalidOption, SpoolFailed
from aqueduct_core.flight.client import IntakeClient
from aqueduct_core.flight.credentials import Credentials
from aqueduct_core.flight.status import IntakeStatus
from aqueduct_spark.intakes import cursor_leases
from aqueduct_spark.model.offsets import StreamOffset
from tests.spark.producing import numbered, produce
from tests.spark.read.stream.loop import Loop, Yard, values
from tests.support.remote import RemoteThread, Script, payloads
from tests.support.waiting import LONG

A, B = Script(20, end="stay"), Script(10, end="stay")
SCRIPTS = {"a": A, "b": B}


@pytest.fixture
def remote(tmp_path: Path) -> Iterator[RemoteThread]:
    with RemoteThread(SCRIPTS, tmp_path, producer="remote", sequence_start=0) as remote:
        yield remote


def dialling(
    yard: Yard, remote: RemoteThread, begin: StreamOffset | None = None, **options: str
) -> Loop:
    given = {"endpoint": remote.url, "tls_insecure": "true", "subscribe": "a"}
    return yard.loop(begin, **given | options)


def status(yard: Yard) -> IntakeStatus:
    with IntakeClient(yard.intake()["flight"], Credentials.for_spool(yard.spool)) as client:
        return client.status()


def refusal(loop: Loop) -> str:
    """What a query is told that does not get its options, beside one that stays."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(cursor_leases, "TAKE_OVER", 0.5)
        with pytest.raises(InvalidOption, match="CONFLICT") as refused:
            loop.until(10_000)
    return str(refused.value)


def test_a_name_that_was_added_is_asked_for(yard: Yard, remote: RemoteThread) -> None:
    first = dialling(yard, remote)
    first.until(20)
    first.close()
    pid = yard.intake()["pid"]
    again = dialling(yard, remote, first.at, subscribe="a,b")
    again.until(10)
    assert values(first.messages() + again.messages(), "a") == payloads("a", A)
    assert values(again.messages(), "b") == payloads("b", B)
    assert yard.intake()["pid"] != pid
    again.close()
    pid = yard.intake()["pid"]
    third = dialling(yard, remote, again.at, subscribe="b,a")
    third.batch()
    assert status(yard).pid == pid  # the same names in another order: it stays


def test_a_name_that_was_removed_is_asked_for_no_more(yard: Yard, remote: RemoteThread) -> None:
    first = dialling(yard, remote, subscribe="a,b")
    first.until(30)
    first.close()
    again = dialling(yard, remote, first.at)
    while not again.planner._clients.statuses():
        again.batch()
    told = status(yard).subscriptions
    assert told is not None
    assert told.requested == 1


def test_an_endpoint_that_was_added_is_dialled(yard: Yard, tmp_path: Path) -> None:
    one, two = tmp_path / "one", tmp_path / "two"
    one.mkdir()
    two.mkdir()
    with (
        RemoteThread({"a": A}, one, producer="1", sequence_start=0) as near,
        RemoteThread({"a": B}, two, producer="2", sequence_start=0) as far,
    ):
        first = dialling(yard, near)
        first.until(20)
        first.close()
        both = f"{near.url},{far.endpoint}"
        again = dialling(yard, near, first.at, endpoint=both)
        assert sorted(row["value"] for row in again.until(10)) == sorted(payloads("a", B))


def test_a_query_beside_another_one_is_refused_by_name(yard: Yard, remote: RemoteThread) -> None:
    """Until the other one has ended: then the intake is as this query wants it."""
    first = dialling(yard, remote)
    first.until(20)
    pid = yard.intake()["pid"]
    beside = StreamOffset(first.at.spool)
    text = refusal(dialling(yard, remote, beside, subscribe="a,b", cursor="c"))
    assert "option subscribe is 'a,b', and intake 0" in text
    assert "a query with cursor query uses, runs with a." in text
    assert status(yard).pid == pid
    assert status(yard).held == ("query",)
    first.close()
    second = dialling(yard, remote, beside, subscribe="a,b", cursor="c")
    assert values(second.until(10), "b") == payloads("b", B)
    assert "option subscribe is 'a', and intake 0" in refusal(dialling(yard, remote, first.at))


def test_nobody_ends_an_intake_whose_cursor_is_anothers(yard: Yard, remote: RemoteThread) -> None:
    """A second query under the name of the first, which is away for a moment."""
    first = dialling(yard, remote)
    first.until(20)
    first.close()
    pid = yard.intake()["pid"]
    stranger = dialling(yard, remote, StreamOffset(first.at.spool), subscribe="a,b")
    with pytest.raises(SpoolFailed, match="CURSOR_IN_USE"):
        stranger.batch()
    assert status(yard).pid == pid


def test_two_queries_that_come_back_together_get_what_both_want(
    yard: Yard, remote: RemoteThread, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Both have found that the intake runs with other options before either has it end."""
    first = dialling(yard, remote)
    first.until(20)
    first.close()
    drain, both = IntakeClient.drain, threading.Barrier(2, timeout=LONG)

    def together(client: IntakeClient) -> None:
        both.wait()
        drain(client)

    monkeypatch.setattr(IntakeClient, "drain", together)
    loops = [
        dialling(yard, remote, first.at, subscribe="a,b"),
        dialling(yard, remote, StreamOffset(first.at.spool), subscribe="a,b", cursor="c"),
    ]
    with ThreadPoolExecutor(2) as pool:
        assert list(pool.map(Loop.batch, loops)) == [[], []]
    for loop in loops:
        assert values(loop.until(10), "b") == payloads("b", B)


def test_a_secret_that_has_changed_is_applied_and_told_nowhere(
    yard: Yard, remote: RemoteThread
) -> None:
    first = dialling(yard, remote, subscribeHeaders='{"key":"s3cret-1"}')
    first.until(20)
    before, changed = status(yard), '{"key":"s3cret-2"}'
    beside = StreamOffset(first.at.spool)
    text = refusal(dialling(yard, remote, beside, cursor="c", subscribeHeaders=changed))
    assert "subscribeHeaders has changed" in text
    first.close()
    again = dialling(yard, remote, first.at, subscribeHeaders=changed)
    while len(remote.requests) < 2:
        again.batch()
    assert [dict(each.headers)[b"key"] for each in remote.requests] == [b"s3cret-1", b"s3cret-2"]
    after = status(yard)
    assert before.in_force["subscribeHeaders"] != after.in_force["subscribeHeaders"]
    assert "s3cret" not in text + json.dumps([before.to_json(), after.to_json()])


def test_a_listener_gets_its_new_limits_and_keeps_its_rows(yard: Yard) -> None:
    first = yard.loop(listen="127.0.0.1:0")
    while not first.at.spool:
        first.batch()
    produce(yard.url(), numbered(50))
    first.close()
    again = yard.loop(first.at, limits_connections="3", groupCommit="5ms", lease="90s")
    assert values(again.until(50)) == numbered(50)
    while not again.planner._clients.statuses():
        again.batch()
    assert status(yard).in_force["limits.connections"] == "3"
    produce(yard.url(), numbered(20), name="more")
    assert values(again.until(70), "more") == numbered(20)

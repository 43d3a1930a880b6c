"""Whose a cursor is, and with which settings a spool is served: real intakes, no Spark."""

from __future__ import annotations

import shlex

import pytest

from aqueduct_core.aio.outcomes import ConnectionLost
from aqueduct_core.cli.main import main
from aqueduct_core.errors import AqueductError, InvalidOption, SpoolFailed
from aqueduct_core.flight.client import IntakeClient
from aqueduct_core.flight.credentials import Credentials
from aqueduct_core.flight.status import IntakeStatus
from aqueduct_spark.model.offsets import StreamOffset
from tests.spark.producing import numbered, produce
from tests.spark.read.stream.loop import Loop, Yard, values
from tests.spark.scene import PATIENCE
from tests.support.waiting import wait_until


def begun(yard: Yard, begin: StreamOffset | None = None, **options: str) -> Loop:
    """A query whose intake runs."""
    loop = yard.loop(begin, **options)
    while not loop.at.spool:
        loop.batch()
    return loop


def served(loop: Loop) -> None:
    """Run batches until the intake runs."""

    def runs() -> bool:
        loop.batch()
        return bool(loop.planner._clients.statuses())

    wait_until(runs, PATIENCE, "an intake")


def status(yard: Yard) -> IntakeStatus:
    with IntakeClient(yard.intake()["flight"], Credentials.for_spool(yard.spool)) as client:
        return client.status()


def test_fault_41_a_query_that_comes_later_under_the_same_cursor_is_refused(yard: Yard) -> None:
    first = begun(yard, maxOffsetsPerTrigger="40")
    produce(yard.url(), numbered(100))
    first.until(40)
    first.close()
    before = status(yard)
    with pytest.raises(SpoolFailed, match="CURSOR_IN_USE") as refused:
        begun(yard, maxOffsetsPerTrigger="100").until(100)
    assert "spool cursors" in str(refused.value)
    assert status(yard).committed == before.committed
    again = yard.loop(first.at)
    again.rows = first.rows
    assert values(again.until(100)) == numbered(100)


def test_fault_41_the_operator_lets_a_cursor_go_to_a_new_query(
    yard: Yard, capsys: pytest.CaptureFixture[str]
) -> None:
    """As after the loss of a checkpoint, with the command that the refusal names."""
    first = begun(yard, onCancel="fail")
    produce(yard.url(), numbered(20))
    first.until(20)
    first.close()
    with pytest.raises(SpoolFailed, match="CURSOR_IN_USE") as refused:
        begun(yard, onCancel="fail")
    command = shlex.split(refused.value.remedy.split("aqueduct ")[1])
    assert command == ["spool", "cursors", str(yard.spool), "--give", "query"]
    assert main(command) == 0
    assert "given away query.cancels" in capsys.readouterr().out
    second = begun(yard, onCancel="fail")
    assert values(second.until(20)) == numbered(20)
    second.close()
    with pytest.raises(SpoolFailed, match=f"belongs to query {second.at.query}"):
        yard.loop(first.at, onCancel="fail").batch()


def test_fault_41_a_new_query_takes_the_cursor_where_it_is_told_to(
    yard: Yard, caplog: pytest.LogCaptureFixture
) -> None:
    """As after a checkpoint that was thrown away on purpose: all that is stored comes once more,
    and who had the cursor before is refused, with the same option too."""
    taking = {"onCancel": "fail", "takeCursor": "true", "retention": "1h"}
    first = begun(yard, **taking)
    produce(yard.url(), numbered(20))
    first.until(20)
    first.batch()
    with pytest.raises(SpoolFailed, match="held by another query"):
        begun(yard, **taking)
    first.close()
    second = begun(yard, **taking)
    assert values(second.until(20)) == numbered(20)
    assert f"is taken from query {first.at.query}" in caplog.text
    second.close()
    with pytest.raises(SpoolFailed, match=f"belongs to query {second.at.query}"):
        yard.loop(first.at, **taking).batch()
    again = yard.loop(second.at, **taking)
    produce(yard.url(), numbered(5), name="more")
    assert values(again.until(5), "more") == numbered(5)


def test_an_id_that_was_never_written_down_locks_nobody_out(yard: Yard) -> None:
    """The driver dies with its first offset in the hand, beside an intake that runs already."""
    beside = begun(yard, cursor="other")
    produce(yard.url(), numbered(10))
    lost = yard.loop()
    end = lost.planner.latest(StreamOffset(beside.at.spool))  # so it finds the intake at once
    assert end.query
    assert "query" in status(yard).committed
    lost.close()
    assert "query" not in status(yard).owners
    again = yard.loop()
    assert values(again.until(10)) == numbered(10)
    assert again.at.query != end.query
    assert status(yard).owners["query"].query == again.at.query


def test_batch_0_that_is_done_again_is_of_the_same_query(yard: Yard) -> None:
    """Its end was written down, and then the driver died: `initialOffset` knows no id."""
    first = yard.loop()
    end = first.planner.latest(StreamOffset())
    first.close()
    again = yard.loop()
    again.run(StreamOffset(), end)
    again.at = end
    served(again)
    produce(yard.url(), numbered(10))
    again.until(10)
    assert again.at.query == end.query
    assert status(yard).owners["query"].query == end.query
    again.close()
    third = yard.loop(again.at)
    produce(yard.url(), numbered(10), name="more")
    assert values(third.until(10), "more") == numbered(10)
    third.close()
    with pytest.raises(SpoolFailed, match=end.query):
        begun(yard)


def test_a_checkpoint_of_version_1_adopts_its_cursor_once(yard: Yard) -> None:
    first = begun(yard)
    produce(yard.url(), numbered(10))
    first.until(10)
    first.close()
    with IntakeClient(yard.intake()["flight"], Credentials.for_spool(yard.spool)) as client:
        client.give_cursor("query")  # the release that wrote it knew no owners
    old = StreamOffset.from_json({**first.at.named("").to_json(), "v": 1}, "aqueduct")
    again = yard.loop(old)
    assert again.batch() is None or again.at.query
    produce(yard.url(), numbered(10), name="more")
    assert values(again.until(10), "more") == numbered(10)
    served(again)
    assert again.at.query
    assert status(yard).owners["query"].query == again.at.query
    again.close()
    with pytest.raises(SpoolFailed, match="has no checkpoint of it"):
        yard.loop(old).batch()


def test_fault_41_no_second_query_turns_authentication_off(yard: Yard) -> None:
    token = yard.home / "token"
    token.write_text("secret-of-producers\n")
    first = begun(yard, auth_tokenFile=str(token))
    produce(yard.url(), numbered(10), token="secret-of-producers")
    first.until(10)
    first.close()
    yard.kill()
    with pytest.raises(InvalidOption, match="CONFLICT") as refused:
        begun(yard, cursor="other")
    assert "auth.tokenFile" in str(refused.value)
    assert str(token) in str(refused.value)
    again = yard.loop(first.at, auth_tokenFile=str(token))
    served(again)
    with pytest.raises(InvalidOption, match="CONFLICT"):  # also where nothing is to be launched
        begun(yard, cursor="other")
    with pytest.raises(InvalidOption, match="listen"):
        begun(yard, cursor="other", auth_tokenFile=str(token), listen="127.0.0.1:1")
    produce(yard.url(), numbered(10), name="more", token="secret-of-producers")
    assert values(again.until(10), "more") == numbered(10)
    with pytest.raises((AqueductError, ConnectionLost)):
        produce(yard.url(), numbered(1), name="stranger")


def test_settings_are_settled_anew_as_the_refusal_says_while_the_intake_waits_for_its_query(
    yard: Yard, capsys: pytest.CaptureFixture[str]
) -> None:
    token = yard.home / "token"
    token.write_text("secret-of-producers\n")
    first = begun(yard)
    told = yard.intake()
    other = {"auth_tokenFile": str(token)}
    with pytest.raises(InvalidOption, match="CONFLICT") as refused:
        begun(yard, cursor="other", **other)
    command = shlex.split(refused.value.remedy.partition(" run aqueduct ")[2])
    assert main(command) == 1
    assert "held by a query" in capsys.readouterr().err
    first.close()
    assert main(command) == 0
    again = yard.loop(first.at, **other)
    served(again)
    assert yard.intake()["pid"] != told["pid"]
    produce(yard.url(), numbered(10), token="secret-of-producers")
    assert values(again.until(10)) == numbered(10)


def test_a_query_with_fewer_intakes_than_the_spool_has_is_refused(yard: Yard) -> None:
    """It would leave the rows of the others out in silence."""
    first = begun(yard, numIntakes="2")
    while len(first.at.spool) < 2:
        first.batch()
    produce(yard.url(1), numbered(10))
    first.until(10)
    first.close()
    yard.kill(1)
    with pytest.raises(
        InvalidOption, match=r"CONFLICT.*numIntakes is 1, .*intake-1 would not be read"
    ) as refused:
        begun(yard, cursor="second")
    assert "Set numIntakes to 2" in refused.value.remedy
    second = yard.loop(cursor="second", numIntakes="2")
    assert values(second.until(10)) == numbered(10)

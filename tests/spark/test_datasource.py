"""What users do wrong is told in one line, at the earliest moment."""

from __future__ import annotations

import json
import socket
from pathlib import Path

import pytest
from pyspark.sql.streaming import StreamingQuery

from aqueduct_core.errors import AqueductError
from tests.spark.producing import numbered, produce
from tests.spark.scene import PATIENCE, Scene, error_line
from tests.support.waiting import alive, wait_until

pytestmark = pytest.mark.spark


def failure_of(query: StreamingQuery) -> str:
    wait_until(lambda: not query.isActive, PATIENCE, "the end of the query")
    return error_line(query.exception())


def test_options_are_refused_at_load(scene: Scene) -> None:
    for option, words in [
        ("spol", "UNKNOWN] Option 'spol'"),
        ("groupCommit", "BAD_VALUE] Option 'groupCommit'"),
        ("ackTimeout", "NOT_FOR_QUERY_TYPE] Option 'ackTimeout'"),
    ]:
        with pytest.raises(Exception, match="AQUEDUCT_") as refused:
            scene.frame(**{option: "17"})
        assert words in error_line(refused.value)
    with pytest.raises(Exception, match="AQUEDUCT_") as missing:
        scene.frame(auth_tokenEnv="NO_SUCH_VARIABLE")
    assert error_line(missing.value).startswith("[AQUEDUCT_AUTH.MISSING]")


def test_a_port_in_use(scene: Scene) -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as other:
        other.bind(("127.0.0.1", 0))
        port = other.getsockname()[1]
        line = failure_of(scene.start(scene.frame(listen=f"127.0.0.1:{port}")))
    assert line.startswith("[AQUEDUCT_CONNECT")
    assert str(port) in line


@pytest.mark.long
def test_a_certificate_that_is_not_there(scene: Scene, tmp_path: Path) -> None:
    nowhere = {"tls_certFile": str(tmp_path / "no.pem"), "tls_keyFile": str(tmp_path / "no.key")}
    line = failure_of(scene.start(scene.frame(**nowhere)))
    assert line.startswith("[AQUEDUCT_INVALID_OPTION.BAD_VALUE]")
    assert "no.pem" in line


@pytest.mark.long
def test_fault_32_a_cursor_of_another_query(scene: Scene) -> None:
    first = scene.start()
    before = scene.intake()
    first.processAllAvailable()
    scene.checkpoint = scene.checkpoint.with_name("second")
    scene.table = scene.table.with_name("second-table")
    line = failure_of(scene.start())
    assert line.startswith("[AQUEDUCT_SPOOL.CURSOR_IN_USE]")
    # The first query is not disturbed.
    assert first.isActive
    assert alive(before["pid"])


@pytest.mark.long
def test_fault_41_a_cursor_of_another_query_that_has_ended(scene: Scene, tmp_path: Path) -> None:
    """Start, stop, start anew, as after the loss of a checkpoint. Other settings of the listener:
    test_streams_owned."""
    token = tmp_path / "token"
    token.write_text("of-producers\n")
    scene.options["auth.tokenFile"] = str(token)
    first = scene.start()
    produce(scene.endpoint(), numbered(10), token="of-producers")
    scene.await_rows(first, 10)
    ours = scene.checkpoint, scene.table
    first.stop()
    scene.retire()
    scene.checkpoint, scene.table = (path.with_name(f"second-{path.name}") for path in ours)
    line = failure_of(scene.start())
    assert line.startswith("[AQUEDUCT_SPOOL.CURSOR_IN_USE] cursor 'query'")
    assert json.loads((ours[0] / "offsets" / "1").read_text().splitlines()[-1])["query"] in line
    assert f"aqueduct spool cursors {scene.spool} --give query" in line
    scene.checkpoint, scene.table = ours
    again = scene.start()
    produce(scene.endpoint(), numbered(10), name="more", token="of-producers")
    rows = scene.await_rows(again, 20)
    assert rows.count() == 20
    with pytest.raises(AqueductError):
        produce(scene.endpoint(), numbered(1), name="stranger")


@pytest.mark.long
def test_a_spool_that_is_gone(scene: Scene) -> None:
    first = scene.start()
    produce(scene.endpoint(), numbered(10))
    scene.await_rows(first, 10)
    first.stop()
    scene.kill(scene.intake()["pid"])
    (scene.spool / "intake-0").rename(scene.spool / "elsewhere")
    line = failure_of(scene.start(scene.frame(launchTimeout="2s")))
    assert line.startswith("[AQUEDUCT_INTAKE.UNREACHABLE] Spool ")
    (scene.spool / "elsewhere").rename(scene.spool / "intake-0")
    assert scene.await_rows(scene.start(), 10).count() == 10


@pytest.mark.long
def test_other_options_than_the_checkpoint_was_made_with(scene: Scene) -> None:
    first = scene.start()
    scene.intake()
    first.processAllAvailable()
    first.stop()
    line = failure_of(scene.start(scene.frame(partitionsPerIntake="3")))
    assert line.startswith("[AQUEDUCT_INVALID_OPTION.BAD_VALUE]")
    assert "checkpoint was made with 2" in line

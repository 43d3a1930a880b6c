"""Streams of intakes that dial, and of intakes that run on their own."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession

from aqueduct_core.flight.client import IntakeClient
from aqueduct_core.flight.credentials import Credentials
from aqueduct_core.transport.tls.credentials import ServerTls
from tests.spark.producing import numbered, produce
from tests.spark.scene import PATIENCE, Scene
from tests.support.remote import Script, payloads
from tests.support.remote_process import RemoteProcess
from tests.support.standalone import Running, running
from tests.support.waiting import wait_until

pytestmark = pytest.mark.spark


def stream(spark: SparkSession, **options: str) -> DataFrame:
    given = {key.replace("_", "."): value for key, value in options.items()}
    return spark.readStream.format("aqueduct").options(**given).load()


def values(rows: DataFrame, channel: str) -> list[bytes]:
    found = rows.where(f"channel = '{channel}'").orderBy("messageNum").select("value").collect()
    return [bytes(row.value) for row in found]


@pytest.mark.long
def test_fault_01_a_remote_that_is_killed_is_dialled_again(scene: Scene, tmp_path: Path) -> None:
    scripts = {"a": Script(messages=400, end="stay"), "done": Script(messages=3)}
    with RemoteProcess(tmp_path, scripts, producer="remote", sequence_start=0) as remote:
        frame = stream(
            scene.spark,
            endpoint=remote.url,
            subscribe="a,done",
            spool=str(scene.spool),
            tls_caFile=str(remote.ca_file),
        )
        query = scene.start(frame)
        scene.await_rows(query, 403)
        remote.kill()
        with IntakeClient(scene.intake()["flight"], Credentials.for_spool(scene.spool)) as client:
            wait_until(lambda: client.status().connections == 0, PATIENCE, "the loss")
        remote.restart({"a": Script(messages=1000), "done": Script(messages=3)})
        rows = scene.await_rows(query, 1003)
        assert values(rows, "a") == payloads("a", Script(messages=1000))
        assert values(rows, "done") == payloads("done", Script(messages=3))
        assert {row.producer for row in rows.select("producer").distinct().collect()} == {"remote"}


def test_a_name_that_is_added_between_two_runs_is_asked_for(scene: Scene, tmp_path: Path) -> None:
    """Within the lease, so that the intake of the first run is still there."""
    scripts = {"a": Script(messages=40, end="stay"), "b": Script(messages=30, end="stay")}
    with RemoteProcess(tmp_path, scripts, producer="remote", sequence_start=0) as remote:
        given = {
            "endpoint": remote.url,
            "spool": str(scene.spool),
            "tls_caFile": str(remote.ca_file),
        }
        first = scene.start(stream(scene.spark, subscribe="a", **given))
        scene.await_rows(first, 40)
        first.stop()
        rows = scene.await_rows(scene.start(stream(scene.spark, subscribe="a,b", **given)), 70)
        for name, script in scripts.items():
            assert values(rows, name) == payloads(name, script)


@pytest.mark.long
def test_fault_01_standalone_intakes_are_read_and_one_comes_back(
    scene: Scene, tmp_path: Path
) -> None:
    tls = ServerTls.self_signed()
    assert tls.cert_pem is not None
    assert tls.key_pem is not None
    (tmp_path / "cert.pem").write_bytes(tls.cert_pem)
    (tmp_path / "key.pem").write_bytes(tls.key_pem)

    def config(number: int, like: Running | None = None) -> Path:
        """At the same addresses as an intake that ran before."""
        listen = like.ready["listen"] if like else "127.0.0.1:0"
        flight = like.ready["flight"] if like else "127.0.0.1:0"
        path = tmp_path / f"intake-{number}.toml"
        path.write_text(
            f'spool = "{tmp_path}/spool-{number}"\nkeys = "{tmp_path}/keys"\n'
            f'listen = "{listen}"\nflight = "{flight}"\n'
            f'[tls]\ncertFile = "{tmp_path}/cert.pem"\nkeyFile = "{tmp_path}/key.pem"\n'
        )
        return path

    with running(config(0), "-J") as first:
        with running(config(1), "-J") as second:
            frame = stream(
                scene.spark,
                intakes=f"{first.ready['flight']},{second.ready['flight']}",
                tls_caFile=first.ready["caFile"],
                auth_tokenFile=first.ready["tokenFile"],
            )
            query = scene.start(frame)
            for number, intake in enumerate((first, second)):
                url = f"aqueduct://{intake.ready['listen']}"
                assert produce(url, numbered(500), producer=f"p{number}").acked == 500
            scene.await_rows(query, 1000)
            second.process.kill()
            second.process.wait(PATIENCE)
        with running(config(1, second), "-J") as again:
            assert again.ready["epoch"] == 2
            url = f"aqueduct://{again.ready['listen']}"
            assert produce(url, numbered(300), producer="p2").acked == 300
            rows = scene.await_rows(query, 1300)
            counts = {
                row["producer"]: row["count"] for row in rows.groupBy("producer").count().collect()
            }
            assert counts == {"p0": 500, "p1": 500, "p2": 300}
            assert query.exception() is None

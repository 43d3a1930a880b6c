"""The queries of docs/telehash.md, against an intake and a peer of their own."""

from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from aqueduct_core.intake.config_file import read
from aqueduct_core.intake.storage.event_log import FINISHED, REJECTED
from aqueduct_core.intake.telehash.rows import CANCELLED, FAILED, TIMEOUT
from aqueduct_core.intake.telehash.settings import TelehashIntake
from aqueduct_spark.formats.telehash.format import packet_schema
from aqueduct_spark.formats.telehash.options import DEFAULT_WINDOW
from tests.docs.blocks import texts
from tests.spark.conftest import spark  # noqa: F401  the session of these tests, too
from tests.spark.formats.telehash.giver import Giver, giving
from tests.support.repository import ROOT
from tests.support.waiting import LONG, ended, intake_status, wait_until

PAGE = "docs/telehash.md"
TEXT = (ROOT / PAGE).read_text("utf-8")
LISTEN, DIAL, BOUNDED, WRITE = texts(PAGE, "python")
PEER = '"telehash://peer.example:4433")'


@pytest.mark.spark
def test_what_peers_send_becomes_rows(spark: SparkSession, tmp_path: Path) -> None:  # noqa: F811
    names: dict[str, Any] = {"spark": spark}
    exec(LISTEN.replace("127.0.0.1:4433", "127.0.0.1:0").replace("/data/", f"{tmp_path}/"), names)
    query = names["query"]
    try:
        status = intake_status(tmp_path / "shop" / "spool", 0, LONG)
        exec(WRITE.replace("127.0.0.1:4433", status["listen"]), names)

        def rows() -> bool:
            assert query.exception() is None
            return sum(each["numInputRows"] for each in query.recentProgress) >= 2

        wait_until(rows, LONG, "the rows of the page")
    finally:
        query.stop()
    table = spark.read.parquet(str(tmp_path / "shop" / "table"))
    found = {bytes(row.value): (row.type, '"shop":7' in row.js) for row in table.collect()}
    assert found == {b"a sack of rice": ("_orders", True), b"two cups": ("_orders", False)}
    assert table.where("is_end").count() >= 1
    os.kill(status["pid"], signal.SIGTERM)
    ended(status["pid"], LONG)


@pytest.mark.spark
def test_what_is_opened_at_a_peer_becomes_rows(
    spark: SparkSession,  # noqa: F811
    tmp_path: Path,
) -> None:
    giver = Giver(udp=False)
    giver.bodies = {"_feed": [b"one", b"two"]}
    names: dict[str, Any] = {"spark": spark}
    with giving(giver) as url:
        for code in (DIAL, BOUNDED):
            assert PEER in code
            there = f'"{url}").option("tls.insecure", "true")'
            exec(code.replace(PEER, there).replace("/data/", f"{tmp_path}/"), names)
        assert names["stream"].isStreaming
        rows = names["rows"].collect()
    assert sorted((row.seq, bytes(row.value)) for row in rows) == [(0, b"one"), (1, b"two")]


def test_the_file_of_an_intake_is_one(tmp_path: Path) -> None:
    [text] = texts(PAGE, "toml")
    (tmp_path / "intake.toml").write_text(text.replace("/data/", f"{tmp_path}/"))
    settings, _ = read(tmp_path / "intake.toml")
    assert isinstance(settings, TelehashIntake)
    assert (settings.carrier, settings.types) == ("quic", ("_orders", "_clicks"))


def test_it_shows_every_column_event_and_default() -> None:
    for name in packet_schema().fieldNames():
        assert f"`{name}`" in TEXT
    for kind in (CANCELLED, FAILED, FINISHED, REJECTED, TIMEOUT):
        assert f"| `{kind}` |" in TEXT
    assert f"`window` ({DEFAULT_WINDOW})" in TEXT

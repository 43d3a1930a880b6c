"""Spools that tests write: as an intake leaves them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from aqueduct.testing.spools import EPOCH_2020, SpoolMessage, write_spool
from aqueduct_core.errors import InvalidOption
from aqueduct_core.intake.aqueduct.rows import ROWS
from aqueduct_core.spool import Spool
from tests.core.cli.running import aqueduct

MESSAGES: list[SpoolMessage | bytes] = [
    b"plain",
    SpoolMessage(payload=b"a", channel="orders", headers={"key": "value"}),
    SpoolMessage(payload=b"b", channel="orders", partition=1, producer="p", number=17),
    SpoolMessage(payload=b"c", channel="orders", partition=1, producer="p", timestamp=5),
]


def test_messages_are_there_with_what_they_have(tmp_path: Path) -> None:
    spool = write_spool(tmp_path / "spool", MESSAGES, partitions=2)
    assert spool == tmp_path / "spool"
    rows = stored(spool)
    assert [(row["value"], row["channel"], row["messageNum"]) for row in rows[0]] == [
        (b"plain", "messages", 0),
        (b"a", "orders", 0),
    ]
    assert [(row["value"], row["producer"], row["messageNum"]) for row in rows[1]] == [
        (b"b", "p", 17),
        (b"c", "p", 18),
    ]
    assert rows[0][1]["headers"] == [{"key": "key", "value": b"value"}]
    times = [int(row["timestamp"].timestamp() * 1e6) for row in (*rows[0], *rows[1])]
    assert times == [EPOCH_2020, EPOCH_2020 + 1_000, EPOCH_2020 + 2_000, 5]


def stored(spool: Path) -> list[list[dict[str, object]]]:
    directory = spool / "intake-0"
    with Spool.open(directory, schema=ROWS.schema, partitions=3) as opened:
        return [
            [
                row
                for batch in opened.read(partition, 0, opened.ends()[partition])
                for row in ROWS.expand(batch, partition, 0, True, True).to_pylist()
            ]
            for partition in range(2)
        ]


def test_more_goes_behind_what_is_there(tmp_path: Path) -> None:
    for text in (b"a", b"b"):
        write_spool(tmp_path, [text, text])
    spool = tmp_path / "intake-0"
    done = aqueduct("spool", "cat", spool)
    rows = [json.loads(line) for line in done.stdout.splitlines()]
    assert [(row["offset"], row["value"]) for row in rows] == list(enumerate("aabb"))
    assert aqueduct("spool", "verify", spool).returncode == 0


def test_what_does_not_fit_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="partition 1 of 1"):
        write_spool(tmp_path, [SpoolMessage(payload=b"", partition=1)])
    write_spool(tmp_path, [b"a"])
    with pytest.raises(InvalidOption):
        write_spool(tmp_path, [b"a"], partitions=2)


@pytest.mark.parametrize("messages", [["text"], "text", [3], [SpoolMessage(payload="text")]])  # type: ignore[arg-type]
def test_what_is_not_bytes_is_refused(tmp_path: Path, messages: object) -> None:
    with pytest.raises(TypeError, match="messages are bytes or SpoolMessage"):
        write_spool(tmp_path / "spool", messages)  # type: ignore[arg-type]
    assert not (tmp_path / "spool").exists()

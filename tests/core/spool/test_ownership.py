"""FAULTS 32, 34: one owner at a time, and no guessing at what another release wrote."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pytest

from aqueduct_core.errors import InvalidOption, SpoolFailed
from aqueduct_core.spool import InlineSync, Spool
from tests.core.spool.rows import SCHEMA, open_spool


def test_a_refused_opener_changes_nothing(tmp_path: Path) -> None:
    with open_spool(tmp_path):
        before = (tmp_path / "spool.json").read_bytes()
        with pytest.raises(SpoolFailed, match="LOCKED"):
            open_spool(tmp_path)
        assert (tmp_path / "spool.json").read_bytes() == before


def test_a_newer_format_is_refused(tmp_path: Path) -> None:
    open_spool(tmp_path).close()
    content = json.loads((tmp_path / "spool.json").read_text())
    content["format"] += 1
    (tmp_path / "spool.json").write_text(json.dumps(content))
    with pytest.raises(SpoolFailed, match=r"VERSION.*format 4, this release knows up to 3"):
        open_spool(tmp_path)
    assert json.loads((tmp_path / "spool.json").read_text()) == content


def test_other_columns_are_refused(tmp_path: Path) -> None:
    open_spool(tmp_path).close()
    with pytest.raises(SpoolFailed, match=r"VERSION.*columns"):
        Spool.open(tmp_path, schema=pa.schema({"x": pa.int8()}), partitions=2, sync=InlineSync)
    open_spool(tmp_path).close()


def test_fewer_partitions_are_refused(tmp_path: Path) -> None:
    open_spool(tmp_path).close()
    with pytest.raises(InvalidOption, match=r"CONFLICT.*2 partitions, not 1"):
        open_spool(tmp_path, partitions=1)
    open_spool(tmp_path).close()
    with pytest.raises(InvalidOption, match="BAD_VALUE"):
        Spool.open(tmp_path, schema=SCHEMA, partitions=0)


def test_a_directory_that_cannot_be_made(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(SpoolFailed, match="IO"):
        open_spool(tmp_path / "file" / "spool")


def test_the_repr_names_it(tmp_path: Path) -> None:
    with open_spool(tmp_path) as spool:
        assert repr(spool) == f"<Spool {spool.id} epoch 1 in {tmp_path}, ends [0, 0]>"

"""FAULTS 32, 34: one owner at a time, and no guessing at what another release wrote."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pytest

from aqueduct_core.errors import InvalidOption, SpoolFailed
from aqueduct_core.spool import InlineSync, Spool
from tests.core.spool.rows import SCHEMA, check_all, open_spool, store
from tests.support.repository import ROOT

HOLD = """
import sys
from pathlib import Path
from tests.core.spool.rows import open_spool, store
spool = open_spool(Path(sys.argv[1]))
store(spool, [1, 1])
print(spool.epoch, flush=True)
sys.stdin.read()
"""


def test_a_second_opener_is_told_who_holds_it(tmp_path: Path) -> None:
    with open_spool(tmp_path) as spool:
        with pytest.raises(SpoolFailed, match=f"LOCKED.*in use by process {os.getpid()}"):
            open_spool(tmp_path)
        store(spool, [1, 1])
        assert spool.epoch == 1
    with open_spool(tmp_path) as spool:
        assert spool.epoch == 2


def test_the_lock_ends_with_a_killed_owner(tmp_path: Path) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", HOLD, str(tmp_path)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        cwd=ROOT,
    ) as holder:
        assert holder.stdout is not None
        epoch = int(holder.stdout.readline())
        with pytest.raises(SpoolFailed, match=f"LOCKED.*process {holder.pid}"):
            open_spool(tmp_path)
        holder.kill()
        holder.wait()
    with open_spool(tmp_path) as spool:
        assert spool.epoch == epoch + 1
        assert spool.ends() == [1, 1]
        check_all(spool)


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


@pytest.mark.parametrize(
    "setting", ["segment_bytes", "max_bytes", "max_tracks", "max_ranges", "max_total_ranges"]
)
def test_settings_are_checked(tmp_path: Path, setting: str) -> None:
    with pytest.raises(InvalidOption, match=f"BAD_VALUE.*{setting} is 0"):
        open_spool(tmp_path, **{setting: 0})
    with pytest.raises(InvalidOption, match=r"BAD_VALUE.*retention"):
        open_spool(tmp_path, retention=-1.0)


def test_a_directory_that_cannot_be_made(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(SpoolFailed, match="IO"):
        open_spool(tmp_path / "file" / "spool")


def test_the_repr_names_it(tmp_path: Path) -> None:
    with open_spool(tmp_path) as spool:
        assert repr(spool) == f"<Spool {spool.id} epoch 1 in {tmp_path}, ends [0, 0]>"

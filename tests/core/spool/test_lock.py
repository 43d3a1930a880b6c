"""FAULTS 32: one owner at a time."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from aqueduct_core.errors import SpoolFailed
from tests.core.spool.rows import check_all, open_spool, store
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

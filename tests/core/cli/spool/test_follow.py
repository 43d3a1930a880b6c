"""``aqueduct spool cat --follow``: rows as they come, whoever serves them."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.core.cli.running import AQUEDUCT, aqueduct
from tests.core.cli.spool.stored import LINES, rows
from tests.support.intake_process import Site


@contextmanager
def following(directory: Path, *arguments: str) -> Iterator[subprocess.Popen[bytes]]:
    process = subprocess.Popen(
        [*AQUEDUCT, "spool", "cat", str(directory), "--follow", *arguments],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    with process:
        try:
            yield process
        finally:
            process.kill()


def send(url: str, ca: Path, *lines: str) -> None:
    done = aqueduct("send", url, "--ca", ca, "--channel", "lines", stdin="\n".join(lines).encode())
    assert done.returncode == 0, done.stderr


def next_row(process: subprocess.Popen[bytes]) -> dict[str, Any]:
    assert process.stdout is not None
    row: dict[str, Any] = json.loads(process.stdout.readline())
    return row


def test_rows_come_through_the_intake_and_after_it_has_come_back(tmp_path: Path) -> None:
    site = Site(tmp_path)
    ca = tmp_path / "ca.pem"
    ca.write_bytes(site.client_tls.ca_pem or b"")
    with site.intake(partitions=2) as running:
        send(running.url, ca, "before")
        with following(site.spool, "--channel", "lines") as process:
            assert next_row(process)["value"] == "before"
            send(running.url, ca, "one")
            assert next_row(process)["value"] == "one"
            running.kill()
            with site.intake(partitions=2) as again:
                send(again.url, ca, "two", "three")
                assert [next_row(process)["value"] for _ in range(2)] == ["two", "three"]


def test_several_spools_are_followed_and_a_count_ends_it(
    ended: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    shutil.copytree(ended, ended.with_name("intake-11"))
    both = 2 * len(LINES)
    found = rows(capsys, "cat", ended.parent, "--follow", "--channel", "lines", "-c", str(both))
    assert [row["value"] for row in found if row["intake"] == 0] == LINES
    assert [row["value"] for row in found if row["intake"] == 11] == LINES
    assert len(rows(capsys, "cat", ended.parent, "--follow", "-c", "7")) == 7

"""``aqueduct send`` of a message that is over a limit of one of both ends: it says which one, and
what to do, and does not try for ever."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from aqueduct_core.intake.aqueduct.limits import AqueductLimits
from tests.core.cli.running import aqueduct
from tests.support.intake_process import IntakeProcess, Site

LIMIT = 2_048


@pytest.fixture
def site(tmp_path: Path) -> Site:
    return Site(tmp_path)


@pytest.fixture
def intake(site: Site) -> Iterator[IntakeProcess]:
    with site.intake(limits=AqueductLimits(header_bytes=LIMIT)) as running:
        yield running


@pytest.fixture
def command(site: Site, intake: IntakeProcess, tmp_path: Path) -> list[str]:
    path = tmp_path / "ca.pem"
    assert site.client_tls.ca_pem is not None
    path.write_bytes(site.client_tls.ca_pem)
    return ["send", intake.url, "--ca", str(path)]


@pytest.mark.parametrize("producer", [False, True])
def test_headers_over_the_limit_of_the_intake(
    producer: bool, command: list[str], intake: IntakeProcess
) -> None:
    known = ["--producer", "p"] if producer else []
    done = aqueduct(*command, *known, "-H", f"k={'v' * 3_000}", stdin=b"line\n")
    assert done.returncode == 1
    *before, error = done.stderr.decode().splitlines()
    name = "AQUEDUCT_SINK.MESSAGE_TOO_LARGE" if producer else "AQUEDUCT_CHANNEL.LOST"
    assert error.startswith(f"[{name}] ")
    assert len(before) == producer  # says how far it came
    assert "header bytes of 300" in error
    assert f"limit {LIMIT + 64}" in error
    assert "raise that limit at the receiver" in error
    assert "limits.headerBytes" in error
    assert b"line" not in [row["value"] for row in intake.rows()]
    assert intake.status().counters["accepted"] == 1


def test_headers_over_our_own_limit(command: list[str], intake: IntakeProcess) -> None:
    done = aqueduct(*command, "-H", f"k={'v' * 70_000}", stdin=b"line\n")
    assert done.returncode == 1
    (line,) = done.stderr.decode().splitlines()
    assert "1 headers of 70005 bytes, at most 256 of 64000" in line
    assert intake.rows() == []

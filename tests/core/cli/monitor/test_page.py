"""``aqueduct page``: one page of all intakes of a query, for this machine."""

from __future__ import annotations

import json
import signal
import subprocess
import urllib.request
from pathlib import Path

import pytest

from tests.core.cli.running import AQUEDUCT, aqueduct
from tests.support.intake_process import Site
from tests.support.waiting import LONG


@pytest.fixture
def site(tmp_path: Path) -> Site:
    return Site(tmp_path)


def test_the_page_of_a_spool_until_it_is_ended(site: Site) -> None:
    with (
        site.intake(name="till") as intake,
        subprocess.Popen(
            [*AQUEDUCT, "page", site.spool.parent, "--http", "127.0.0.1:0"], stdout=subprocess.PIPE
        ) as command,
    ):
        assert command.stdout is not None
        url = command.stdout.readline().decode().strip()
        with urllib.request.urlopen(f"{url}/status.json", timeout=LONG) as answer:
            [told] = json.load(answer)["intakes"]
        assert told["status"]["pid"] == intake.pid
        with urllib.request.urlopen(url, timeout=LONG) as answer:
            assert b"<title>Aqueduct</title>" in answer.read()
        command.send_signal(signal.SIGTERM)
        assert command.wait(LONG) == 143


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (("nowhere",), b"AQUEDUCT_SPOOL.IO"),
        (("host:1",), b"--ca intake-ca.pem"),
        ((".", "--http", "0.0.0.0:1"), b"asks nobody for a token"),
        ((".", "--http", "8080"), b"Give ADDRESS:PORT"),
    ],
)
def test_what_cannot_be_shown_is_refused(words: tuple[str, ...], text: bytes) -> None:
    done = aqueduct("page", *words)
    assert done.returncode == 1
    assert text in done.stderr

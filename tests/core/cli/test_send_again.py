"""``aqueduct send --producer`` run once more under the same identity: nothing acked is dropped."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tests.core.cli.running import AQUEDUCT, TIMEOUT, aqueduct, totals
from tests.core.cli.test_send_resume import ca, stored
from tests.support.intake_process import Site
from tests.support.waiting import environment, wait_until


@pytest.fixture
def site(tmp_path: Path) -> Site:
    return Site(tmp_path)


def test_new_input_under_the_same_producer_goes_on_behind_the_old(
    site: Site, tmp_path: Path
) -> None:
    with site.intake() as intake:
        command = ["send", intake.url, "--ca", str(ca(site, tmp_path)), "--producer", "p"]
        monday = aqueduct(*command, stdin=b"mon 0\nmon 1\n")
        assert (monday.returncode, totals(monday)["acked"]) == (0, 2)
        tuesday = aqueduct(*command, stdin=b"tue 0\ntue 1\ntue 2\n")
        assert (tuesday.returncode, totals(tuesday)["acked"]) == (0, 3)
        assert [value for _, value in stored(intake)] == [
            b"mon 0", b"mon 1", b"tue 0", b"tue 1", b"tue 2"
        ]  # fmt: skip


def test_the_input_of_a_run_that_succeeded_may_be_sent_again(site: Site, tmp_path: Path) -> None:
    """Whoever did not see the exit status can make sure."""
    with site.intake() as intake:
        command = ["send", intake.url, "--ca", str(ca(site, tmp_path)), "--producer", "p"]
        aqueduct(*command, stdin=b"mon 0\n")
        aqueduct(*command, stdin=b"tue 0\ntue 1\n")
        again = aqueduct(*command, "--resume", stdin=b"tue 0\ntue 1\n")
        assert again.returncode == 0, again.stderr
        assert (totals(again)["acked"], totals(again)["repeated"]) == (2, 2)
        assert stored(intake) == [(0, b"mon 0"), (1, b"tue 0"), (2, b"tue 1")]


def test_new_input_may_go_on_behind_a_run_that_broke_off(site: Site, tmp_path: Path) -> None:
    """And a resume after that means the newer input."""

    def broken(*payloads: bytes, more: tuple[str, ...] = ()) -> None:
        """Dies once its payloads are stored, before the end of its input."""
        before = len(stored(intake))
        process = subprocess.Popen(
            [*AQUEDUCT, *command, *more], stdin=subprocess.PIPE, env=environment()
        )
        assert process.stdin is not None
        process.stdin.write(b"".join(payload + b"\n" for payload in payloads))
        process.stdin.flush()
        wait_until(lambda: len(stored(intake)) == before + len(payloads), TIMEOUT, "its rows")
        process.kill()
        process.wait(TIMEOUT)
        process.stdin.close()

    with site.intake() as intake:
        command = ["send", intake.url, "--ca", str(ca(site, tmp_path)), "--producer", "p"]
        broken(b"mon 0", b"mon 1")
        broken(b"tue 0", more=("--append",))
        rest = aqueduct(*command, "--resume", stdin=b"tue 0\ntue 1\n")
        assert rest.returncode == 0, rest.stderr
        assert (totals(rest)["sent"], totals(rest)["repeated"]) == (2, 1)
        assert [value for _, value in stored(intake)] == [b"mon 0", b"mon 1", b"tue 0", b"tue 1"]


@pytest.mark.long
def test_a_run_that_was_put_out_is_not_told_to_resume(site: Site, tmp_path: Path) -> None:
    """Behind the run that took its channel, --resume would mean the input of that one."""
    with site.intake() as intake:
        command = ["send", intake.url, "--ca", str(ca(site, tmp_path)), "--producer", "p"]
        first = subprocess.Popen(
            [*AQUEDUCT, *command],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
            env=environment(),
        )  # fmt: skip
        assert first.stdin is not None
        first.stdin.write(b"a0\na1\n")
        first.stdin.flush()
        wait_until(lambda: len(stored(intake)) == 2, TIMEOUT, "two rows")
        other = aqueduct(*command, "--append", stdin=b"b0\n")
        assert other.returncode == 0, other.stderr
        _, errors = first.communicate(b"a2\n", timeout=TIMEOUT)
        assert first.returncode == 1
        assert b"AQUEDUCT_SINK.FENCED" in errors
        assert b"--resume" not in errors
